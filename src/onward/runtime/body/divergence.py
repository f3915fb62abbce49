"""The report on code that does not fit its history: what is recorded, what was called, where."""

from __future__ import annotations

import asyncio
import json
import linecache
import sys
from dataclasses import dataclass
from shlex import quote
from typing import TYPE_CHECKING, Any, NamedTuple

from onward.codec import CallShape, UnknownTag, register_error
from onward.core.replay import Diverged
from onward.engine.payloads import unpack
from onward.errors import NewerRow, Undecodable, UserError
from onward.runtime.reading import unknown_codec, unreadable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from types import CodeType, FrameType

    from onward.core.replay import Record
    from onward.runtime.body.calls import Call

_INNER = ("onward", "asyncio", "contextlib", "functools")
_LOOP = "onward.runtime.body.runloop"
_inner: dict[int, dict[str, Any]] = {}
"""The names of modules that are ours or asyncio's, by their own id: modules are seldom freed."""


class Place(NamedTuple):
    """A line of the user's code."""

    file: str
    line: int

    def __str__(self) -> str:
        text = linecache.getline(self.file, self.line).strip()
        return f"{self.file}, line {self.line}: {text}"


class Divergence(UserError):
    """Code and history do not fit; the run waits for other code, a fork or a retry.

    Attributes:
        step: The recorded call that does not fit, if it is about one.
        needs_result: Whether a fork has to replace its result.
        is_about_arguments: Whether the arguments of the run do not fit.
    """

    code = "divergence"

    def __init__(
        self,
        text: str,
        step: str | None = None,
        *,
        needs_result: bool = False,
        is_about_arguments: bool = False,
    ) -> None:
        super().__init__(text)
        self.step = step
        self.needs_result = needs_result
        self.is_about_arguments = is_about_arguments


def _to_data(error: Divergence) -> dict[str, Any]:
    return {
        "text": str(error),
        "step": error.step,
        "needs_result": error.needs_result,
        "is_about_arguments": error.is_about_arguments,
    }


def _from_data(data: dict[str, Any]) -> Divergence:
    return Divergence(
        data["text"],
        data["step"],
        needs_result=data["needs_result"],
        is_about_arguments=data.get("is_about_arguments", False),  # older versions do not write it
    )


# It is shown to people, who need not know in which module it is.
register_error(Divergence, name="onward.Divergence", to_data=_to_data, from_data=_from_data)


@dataclass(eq=False, repr=False)
class UnfitSignal(Undecodable):
    """A signal carries something else than the code waits for: most likely it was sent so."""

    name: str
    identity: str

    def __str__(self) -> str:
        return f"signal {self.name!r} does not match {self.annotation}: {self.fact}."


class UnfitArguments(Undecodable):
    """The arguments of a run do not fit its workflow: most likely it was started so."""

    def __str__(self) -> str:
        return f"the run's arguments do not match {self.annotation}: {self.fact}."


def place_now() -> Place | None:
    """Return the line of the user's code that is running, on top of which we are called."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and is_inner(frame.f_globals):
        if frame.f_globals["__name__"] == _LOOP:
            # A task that is no code of the user: it was made by gather, or by create_task.
            return place_of_wait(getattr(asyncio.get_running_loop(), "tasks", ()))
        frame = frame.f_back
    return None if frame is None else Place(frame.f_code.co_filename, frame.f_lineno)


def is_inner(names: dict[str, Any]) -> bool:
    """Say whether a module, by its names, is none of the user's."""
    if id(names) in _inner:
        return True
    found = names.get("__name__", "").partition(".")[0] in _INNER
    if found:
        _inner[id(names)] = names  # kept, so that no other module can come to have its id
    return found


def place_of(fn: Callable[..., Any]) -> Place | None:
    """Return where a function begins."""
    return place_of_code(getattr(fn, "__code__", None))


def place_of_code(code: CodeType | None) -> Place | None:
    """Return where the code of a function begins."""
    return None if code is None else Place(code.co_filename, code.co_firstlineno)


def place_of_wait(tasks: Iterable[asyncio.Task[Any]]) -> Place | None:
    """Return the line of the user's code at which the first of the tasks waits."""
    place = None
    waiting: Any = next((task.get_coro() for task in tasks), None)
    while (frame := getattr(waiting, "cr_frame", None)) is not None:
        if not is_inner(frame.f_globals):
            place = Place(frame.f_code.co_filename, frame.f_lineno)
        waiting = waiting.cr_await
    return place


def origin_of(coro: Any) -> str:
    """Return the line that made a coroutine, if that was tracked."""
    for file, line, function in getattr(coro, "cr_origin", None) or ():
        return f"{file}:{line} in {function}"
    return ""


def hand_over(call: Call, record: Record, run: str) -> Undecodable | None:
    """Give a call its outcome; return why not, if that does not fit the code.

    Raises:
        UnreadableRow: the record is damaged.
    """
    try:
        call.hand_over(record)
    except UnknownTag as unknown:
        return unknown_codec(f"record {record.identity!r} of run {run}", unknown)
    except Undecodable as misfit:
        return misfit
    except Exception as error:
        raise unreadable(f"record {record.identity!r} of run {run}", error) from error
    return None


def unfit_arguments(misfit: Undecodable, shape: object) -> Undecodable:
    """Return why the arguments of a run do not fit, with the parameters if it calls a function."""
    if isinstance(misfit, NewerRow) or not isinstance(shape, CallShape):
        return misfit
    return UnfitArguments(shape.call_text, misfit.fact)


def divergence_error(
    misfit: Diverged | Undecodable,
    place: Place | None,
    unread: list[Record],
    run: str,
    asked_args: bytes | None = None,
) -> Divergence:
    """Return the error that a paused run keeps."""
    lines = [str(misfit)]
    if isinstance(misfit, UnfitSignal):
        step = f"onward runs fork {quote(run)} --step {quote(misfit.identity)}"
        lines.append(f"Replace it with a valid value: {step} --result JSON")
        return Divergence("\n".join(lines), misfit.identity, needs_result=True)
    if isinstance(misfit, UnfitArguments):
        lines += [] if place is None else [f"  in {place}"]
        lines.append(
            "Deploy code that accepts these arguments, or cancel the run and start it again with "
            f"arguments that match: onward runs cancel {quote(run)}"
        )
        return Divergence("\n".join(lines), is_about_arguments=True)
    if isinstance(misfit, NewerRow):
        return Divergence(str(misfit))
    was: Record | None = None
    if isinstance(misfit, Diverged):
        was, asked = misfit.recorded, misfit.asked
        lines.append(
            f"- recorded: {was.kind} {was.name!r} at {was.identity}{_shown(was.args_hash)}"
        )
        lines.append(
            "+ now:      nothing"
            if asked is None
            else f"+ now:      {asked.kind} {asked.name!r}{_shown(asked.args_hash)}"
        )
    if place is not None:
        lines.append(f"  in {place}")
    others = [record for record in unread if record is not was]
    if others:
        names = ", ".join(f"{record.kind} {record.name!r}" for record in others[:10])
        lines.append(f"  also not called by the current code: {names}")
    lines.append(
        "Deploy code that matches the history (or marks the change with onward.patched), fork the "
        "run from an earlier step, or cancel it. If you fixed a file other than the workflow's, "
        f"resume the run: onward runs resume {quote(run)}"
    )
    if was is not None:
        kept_args = None if was.payload is None else was.payload.args
        lines.extend(_likely_causes(kept_args, asked_args))
    error = Divergence("\n".join(lines), None if was is None else was.identity)
    if was is not None and was.payload is not None and asked_args is not None:
        # In notes: logs have the message of an error, and no values.
        error.add_note(f"- recorded arguments: {_arguments(was.payload.args)}")
        error.add_note(f"+ arguments now:      {_arguments(asked_args)}")
    return error


def _likely_causes(recorded: bytes | None, asked: bytes | None) -> Iterable[str]:
    """Return what to do about the usual causes of a call that differs."""
    before, now = (_by_name(kept) for kept in (recorded, asked))
    added = sorted(now.keys() - before.keys())
    if recorded is not None and added and before == {name: now.get(name) for name in before}:
        one = len(added) == 1
        what = f"the parameter {added[0]}" if one else f"the parameters {', '.join(added)}"
        yield f"If you added {what}, give {'it a default' if one else 'them defaults'}."
    yield (
        "If you did not deploy anything, the body is not deterministic: use onward.now(), "
        "onward.random(), onward.uuid()."
    )


def _by_name(kept: bytes | None) -> dict[str, Any]:
    """Return stored arguments by the names of their parameters, if they are stored so."""
    found = None if kept is None else json.loads(unpack(kept).data)
    return found if isinstance(found, dict) else {}


def _arguments(kept: bytes | None) -> str:
    return "not stored" if kept is None else unpack(kept).data.decode(errors="replace")


def _shown(args_hash: str | None) -> str:
    return "" if args_hash is None else f" (arguments {args_hash[:8]})"
