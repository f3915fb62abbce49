"""Exceptions to payloads and back.

The encoder meets exceptions at their worst: messages of megabytes, a `__str__` that raises, chains
that bite their tail. Whatever is wrong with one, a failure is stored, within fixed bounds.
"""

from __future__ import annotations

import traceback
from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec

from onward.codec.failures.failure import Failure, StepFailed
from onward.codec.failures.registry import registered_name, registered_type
from onward.codec.payload import JSON, Payload, unknown_tag
from onward.errors import Undecodable
from onward.telemetry.interrupts import raise_interrupt

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")

MAX_MESSAGE_CHARS: Final = 8 * 1024
MAX_TRACEBACK_CHARS: Final = 16 * 1024
MAX_NOTE_CHARS: Final = 1024
MAX_NOTES: Final = 20
MAX_CHAIN: Final = 10
MAX_FAILURES: Final = 50
MAX_FRAMES: Final = 400
MAX_ERROR_BYTES: Final = 512 * 1024

_UNREADABLE: Final = Failure("an exception", "<it could not be read>")

_write: Final = msgspec.json.Encoder().encode
_read: Final = msgspec.json.Decoder(Failure).decode


def encode_error(error: BaseException) -> Payload:
    """Return an exception as bytes: type, message, traceback, notes, chain, group.

    Never fails because of the exception, and never gives more than 512 KiB.
    """
    failure = _safely(lambda: _Teller().tell(error, MAX_CHAIN), _UNREADABLE)
    data = _write(failure)
    if len(data) > MAX_ERROR_BYTES:
        data = _write(msgspec.structs.replace(failure, cause=None, context=None, members=()))
    return Payload(JSON, data)


def read_error(payload: Payload) -> Failure:
    """Return a stored exception as data, to show it where its code is not at hand.

    Raises:
        Undecodable: the payload is no stored exception.
    """
    if payload.tag != JSON:
        raise unknown_tag(payload.tag, "an error")
    try:
        return _read(payload.data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        raise Undecodable("an error", "value is no stored error") from None


def decode_error(payload: Payload) -> BaseException:
    """Return the exception that was encoded: its registered type, a group, or `StepFailed`.

    A type that is not registered here any more comes back as `StepFailed`.

    Raises:
        Undecodable: the payload is no stored exception.
    """
    return _revive(read_error(payload), MAX_CHAIN)


class _Teller:
    """Turns one exception, with all that hangs on it, into a failure of bounded size."""

    def __init__(self) -> None:
        self._seen: set[int] = set()

    def tell(self, error: BaseException, deep: int) -> Failure:
        self._seen.add(id(error))
        kind, message, frames = _head(error)
        name, data = _registered_data(error)
        cause = _safely(lambda: error.__cause__, None)
        hidden = cause is not None or _safely(lambda: error.__suppress_context__, otherwise=True)
        context = None if hidden else _safely(lambda: error.__context__, None)
        members, left_out = self._members(error, deep)
        return Failure(
            type=_clip(kind, MAX_MESSAGE_CHARS),
            message=_clip(message, MAX_MESSAGE_CHARS),
            traceback=_clip(frames, MAX_TRACEBACK_CHARS),
            notes=(*_notes(error), *left_out),
            name=name,
            data=data,
            cause=self._next(cause, deep),
            context=self._next(context, deep),
            members=members,
        )

    def _next(self, error: object, deep: int) -> Failure | None:
        if not isinstance(error, BaseException) or id(error) in self._seen:
            return None
        if deep <= 1 or len(self._seen) >= MAX_FAILURES:
            return None
        return self.tell(error, deep - 1)

    def _members(
        self, error: BaseException, deep: int
    ) -> tuple[tuple[Failure, ...], tuple[str, ...]]:
        if not isinstance(error, BaseExceptionGroup):
            return (), ()
        told = [self._next(member, deep) for member in error.exceptions]
        members = tuple(failure for failure in told if failure is not None)
        missing = len(told) - len(members)
        return members, (f"{missing} more exceptions of this group were left out",) * bool(missing)


def _head(error: BaseException) -> tuple[str, str, str]:
    """Return type, message and frames; those of a `StepFailed` are what it stands for."""
    if isinstance(error, StepFailed):
        return error.type, error.message, error.traceback
    kind = type(error)
    module = "" if kind.__module__ == "builtins" else f"{kind.__module__}."
    message = error.message if isinstance(error, BaseExceptionGroup) else _message(error)
    frames = _safely(lambda: _frames(error), "")
    return f"{module}{kind.__qualname__}", message, frames


def _message(error: BaseException) -> str:
    return _safely(lambda: str(error), "<it has no message: its __str__ fails>")


def _frames(error: BaseException) -> str:
    frames = list(traceback.walk_tb(error.__traceback__))
    if len(frames) > MAX_FRAMES:
        frames = frames[: MAX_FRAMES // 2] + frames[-MAX_FRAMES // 2 :]
    return "".join(traceback.StackSummary.extract(iter(frames)).format())


def _notes(error: BaseException) -> tuple[str, ...]:
    notes: list[Any] = _safely(lambda: list(getattr(error, "__notes__", ())), [])
    texts = [note for note in notes[:MAX_NOTES] if isinstance(note, str)]
    return tuple(_clip(text, MAX_NOTE_CHARS) for text in texts)


_NO_DATA: Final = object()


def _registered_data(error: BaseException) -> tuple[str | None, Any]:
    registered = registered_type(type(error))
    if registered is None:
        return None, None
    data = _safely(lambda: registered.data_of(error), _NO_DATA)
    return (None, None) if data is _NO_DATA else (registered.name, data)


def _safely(read: Callable[[], T], otherwise: T) -> T:
    """Return what user code gives, whatever it raises instead."""
    try:
        return read()
    except BaseException as error:  # noqa: BLE001 - even a SystemExit from a `__str__` must not hide the failure
        raise_interrupt(error)
        return otherwise


def _clip(text: str, most: int) -> str:
    """Return text that is Unicode and at most a little longer than `most`, with both its ends."""
    text = str.__str__(text)  # of a subclass, nothing can be trusted
    if len(text) > most:
        half = most // 2
        text = f"{text[:half]}\n… {len(text) - 2 * half:,} characters left out …\n{text[-half:]}"
    return text.encode("utf-8", "backslashreplace").decode()


def _revive(failure: Failure, deep: int) -> BaseException:
    error = _revive_head(failure, deep)
    for note in failure.notes:
        BaseException.add_note(error, note)
    if deep > 1 and failure.cause is not None:
        error.__cause__ = _revive(failure.cause, deep - 1)
    if deep > 1 and failure.context is not None:
        error.__context__ = _revive(failure.context, deep - 1)
    return error


def _revive_head(failure: Failure, deep: int) -> BaseException:
    registered = registered_name(failure.name)
    if registered is not None:
        try:
            return registered.rebuild(failure.data)
        except BaseException as error:  # noqa: BLE001 - the type has changed since; what it was is still known
            raise_interrupt(error)
            return StepFailed(failure.type, failure.message, failure.traceback)
    if failure.members and deep > 1:
        members = [_revive(member, deep - 1) for member in failure.members]
        return BaseExceptionGroup(failure.message, members)
    return StepFailed(failure.type, failure.message, failure.traceback)
