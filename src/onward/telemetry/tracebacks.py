"""Tracebacks as text: where user code raised an exception. They hold source, never values.

A recorded exception that is raised again keeps the frames of the first time, so its traceback leads
from the line of the workflow that awaited a step to the line of the step that failed.
"""

from __future__ import annotations

import re
import traceback
from contextlib import suppress
from pathlib import Path
from textwrap import indent
from typing import Final, NamedTuple

from onward.errors import NotApplied, UserError
from onward.telemetry.error_text import clip, message_of, safely, stands_for_another, typed
from onward.telemetry.error_text import type_name as name_of_type

MAX_FRAMES: Final = 400
MAX_CHARS: Final = 32 * 1024
MAX_CHAIN: Final = 10

_CAUSED: Final = "\nThe above exception was the direct cause of the following exception:\n\n"
_DURING: Final = "\nDuring handling of the above exception, another exception occurred:\n\n"

_RECORDED: Final = "__onward_traceback__"
_OWN_CODE: Final = f"{Path(__file__).parents[2]}/"
_FRAME: Final = re.compile(r'^  File "(.+)", line (\d+), in (.+)(?:\n    (\S.*))?', re.MULTILINE)


class RaisedAt(NamedTuple):
    """A line of code.

    Attributes:
        where: The file, the line number and the function.
        source: The text of the line, if it is known.
    """

    where: str
    source: str


def traceback_text(error: BaseException) -> str:
    """Return an exception as Python prints it: frames, type, message, notes, and its causes first.

    Example:
        >>> error = ValueError("no tea")
        >>> error.__cause__ = KeyError("tea")
        >>> print(traceback_text(error))
        KeyError: 'tea'
        <BLANKLINE>
        The above exception was the direct cause of the following exception:
        <BLANKLINE>
        ValueError: no tea
    """
    return clip(safely(lambda: _text(error, set(), MAX_CHAIN), ""), MAX_CHARS).rstrip("\n")


def _text(error: BaseException, seen: set[int], deep: int) -> str:
    seen.add(id(error))
    before = ""
    cause, context = error.__cause__, error.__context__
    if deep > 1 and cause is not None and id(cause) not in seen:
        before = _text(cause, seen, deep - 1) + _CAUSED
    elif deep > 1 and context is not None and not error.__suppress_context__:
        before = "" if id(context) in seen else _text(context, seen, deep - 1) + _DURING
    frames = frames_of(error)
    head = f"Traceback (most recent call last):\n{frames}" if frames else ""
    message = "" if stands_for_another(error) else message_of(error)
    name = str(error) if stands_for_another(error) else name_of_type(error)
    notes = "".join(f"{note}\n" for note in getattr(error, "__notes__", ()))
    return f"{before}{head}{typed(name, message)}\n{notes}{_members(error, seen, deep)}"


def _members(error: BaseException, seen: set[int], deep: int) -> str:
    if not isinstance(error, BaseExceptionGroup) or deep <= 1:
        return ""
    texts = [_text(each, seen, deep - 1) for each in error.exceptions[:MAX_CHAIN]]
    return "".join(
        f"  +-- {n} --\n{indent(text, '  | ', lambda _: True)}" for n, text in enumerate(texts, 1)
    )


def frames_of(error: BaseException) -> str:
    """Return the frames of an exception, innermost last, without those of Onward around them."""
    recorded = recorded_frames(error)
    frames = list(traceback.walk_tb(error.__traceback__))
    users = [n for n, (frame, _) in enumerate(frames) if not _is_own(frame.f_code.co_filename)]
    if recorded and not users:
        frames = []
    elif users:
        # Of an error that Onward raises on purpose, the line of the user is of interest.
        ends_there = recorded or isinstance(error, UserError | NotApplied)
        frames = frames[users[0] : users[-1] + 1 if ends_there else None]
    if len(frames) > MAX_FRAMES:
        frames = frames[: MAX_FRAMES // 2] + frames[-MAX_FRAMES // 2 :]
    here = "".join(traceback.StackSummary.extract(iter(frames)).format())
    return here + recorded


def recorded_frames(error: BaseException) -> str:
    """Return the frames with which an exception was recorded, if it comes from history."""
    recorded = vars(error).get("traceback" if stands_for_another(error) else _RECORDED, "")
    return recorded if isinstance(recorded, str) else ""


def keep_frames(error: BaseException, frames: str) -> None:
    """Give an exception that comes from history the frames of when it was raised."""
    if frames:
        with suppress(AttributeError, TypeError):
            vars(error)[_RECORDED] = frames


def last_line(frames: str) -> RaisedAt | None:
    """Return the innermost line of some frames."""
    found = list(_FRAME.finditer(frames))
    if not found:
        return None
    file, line, function, source = found[-1].groups()
    return RaisedAt(f"{file}:{line} in {function}", source or "")


def _is_own(file: str) -> bool:
    return file.startswith(_OWN_CODE)
