"""Exceptions to payloads and back.

The encoder meets exceptions at their worst: messages of megabytes, a `__str__` that raises, chains
that bite their tail. Whatever is wrong with one, a failure is stored, within fixed bounds.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from onward.codec.failures.built_in import known_base
from onward.codec.failures.failure import Failure, StepFailed
from onward.codec.failures.registry import registered_name, registered_type
from onward.codec.payload import JSON, Payload, unknown_tag
from onward.core.retry import error_name
from onward.errors import Undecodable
from onward.errors.root import caught_as, count_text
from onward.telemetry.error_text import clip, message_of, safely, type_name
from onward.telemetry.interrupts import raise_interrupt
from onward.telemetry.tracebacks import frames_of, keep_frames

MAX_MESSAGE_CHARS: Final = 8 * 1024
MAX_TRACEBACK_CHARS: Final = 16 * 1024
MAX_NOTE_CHARS: Final = 1024
MAX_NOTES: Final = 20
MAX_CHAIN: Final = 10
MAX_FAILURES: Final = 50
MAX_BASES: Final = 20
MAX_ERROR_BYTES: Final = 512 * 1024

_SAY_NOTHING: Final = (Exception, BaseException, object)

_UNREADABLE: Final = Failure("an exception", "<unreadable>")

_write: Final = msgspec.json.Encoder().encode
_read: Final = msgspec.json.Decoder(Failure).decode


def encode_error(error: BaseException) -> Payload:
    """Return an exception as bytes: type, message, traceback, notes, chain, group.

    Never fails because of the exception, and never gives more than 512 KiB.
    """
    failure = safely(lambda: _Encoder().encode(error, MAX_CHAIN), _UNREADABLE)
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
        fact, advice = "the value is not a stored error", "The row may be damaged"
        raise Undecodable("the format of errors", fact, advice=advice) from None


def decode_error(payload: Payload) -> BaseException:
    """Return the exception that was encoded: its own type, a group, or `StepFailed`.

    A type that is neither built in nor registered here comes back as `StepFailed`.

    Raises:
        Undecodable: the payload is no stored exception.
    """
    return _revive(read_error(payload), MAX_CHAIN)


class _Encoder:
    """Turns one exception, with all that hangs on it, into a failure of bounded size."""

    def __init__(self) -> None:
        self._seen: set[int] = set()

    def encode(self, error: BaseException, deep: int) -> Failure:
        self._seen.add(id(error))
        kind, bases, message = _head(error)
        name, data = _registered_data(error)
        cause = safely(lambda: error.__cause__, None)
        hidden = cause is not None or safely(lambda: error.__suppress_context__, otherwise=True)
        context = None if hidden else safely(lambda: error.__context__, None)
        members, left_out = self._members(error, deep)
        return Failure(
            type=clip(kind, MAX_MESSAGE_CHARS),
            message=clip(message, MAX_MESSAGE_CHARS),
            traceback=clip(safely(lambda: frames_of(error), ""), MAX_TRACEBACK_CHARS),
            notes=(*_notes(error), *left_out),
            bases=bases,
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
        return self.encode(error, deep - 1)

    def _members(
        self, error: BaseException, deep: int
    ) -> tuple[tuple[Failure, ...], tuple[str, ...]]:
        if not isinstance(error, BaseExceptionGroup):
            return (), ()
        encoded = [self._next(member, deep) for member in error.exceptions]
        members = tuple(failure for failure in encoded if failure is not None)
        missing = len(encoded) - len(members)
        return members, _note_of_missing(missing)


def _note_of_missing(count: int) -> tuple[str, ...]:
    if not count:
        return ()
    were = "was" if count == 1 else "were"
    return (f"{count_text(count, 'more exception')} of this group {were} left out",)


def _head(error: BaseException) -> tuple[str, tuple[str, ...], str]:
    """Return type, bases and message; a `StepFailed` has those of the exception it stands for."""
    if isinstance(error, StepFailed):
        return error.type, error.bases, error.message
    message = error.message if isinstance(error, BaseExceptionGroup) else message_of(error)
    bases = (base for base in type(error).__mro__[1:] if base not in _SAY_NOTHING)
    return type_name(error), tuple(error_name(base) for base in bases)[:MAX_BASES], message


def _notes(error: BaseException) -> tuple[str, ...]:
    notes: list[Any] = safely(lambda: list(getattr(error, "__notes__", ())), [])
    texts = [note for note in notes[:MAX_NOTES] if isinstance(note, str)]
    return tuple(clip(text, MAX_NOTE_CHARS) for text in texts)


_NO_DATA: Final = object()


def _registered_data(error: BaseException) -> tuple[str | None, Any]:
    registered = registered_type(type(error))
    if registered is None:
        return None, None
    data = safely(lambda: registered.data_of(error), _NO_DATA)
    return (None, None) if data is _NO_DATA else (registered.name, data)


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
            error = registered.rebuild(failure.data)
        except BaseException as changed:  # noqa: BLE001 - the type has changed since
            raise_interrupt(changed)
            return _step_failed(failure)
        keep_frames(error, failure.traceback)
        return error
    if failure.members and deep > 1:
        members = [_revive(member, deep - 1) for member in failure.members]
        group = BaseExceptionGroup(failure.message, members)
        keep_frames(group, failure.traceback)
        return group
    return _step_failed(failure)


def _step_failed(failure: Failure) -> StepFailed:
    base = known_base((failure.type, *failure.bases))
    kind = StepFailed if base is None else caught_as(StepFailed, base)
    return kind(failure.type, failure.message, failure.traceback, failure.bases)
