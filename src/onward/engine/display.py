"""Stored values as users see them; one that cannot be read says so and hides nothing else."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, TypeVar

from onward.codec import decode, decode_error, read_error
from onward.engine.notes import Noted, read_attributes, read_noted
from onward.engine.payloads import unpack
from onward.telemetry.tracebacks import traceback_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from onward.codec import Failure
    from onward.core.instant import Instant

T = TypeVar("T")

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_EARLIEST = datetime.min.replace(tzinfo=UTC)
_LATEST = datetime.max.replace(tzinfo=UTC)


def shown_time(instant: Instant) -> datetime:
    """Return an instant; one that a `datetime` cannot hold is the nearest that it can."""
    try:
        return _EPOCH + timedelta(microseconds=instant)
    except OverflowError:
        return _LATEST if instant > 0 else _EARLIEST


def shown_time_or_none(instant: Instant | None) -> datetime | None:
    """Return an instant, if there is one."""
    return None if instant is None else shown_time(instant)


def shown_value(kept: bytes | None) -> Any:
    """Return a stored value, or why it cannot be read; runs of handlers have no arguments."""
    return _tried(lambda: decode(unpack(kept)), unreadable_text) if kept else None


def shown_failure(kept: bytes, text: Callable[[Failure], str]) -> str:
    """Return a stored error as `text` puts it, or why it cannot be read."""
    return _tried(lambda: text(read_error(unpack(kept))), unreadable_text)


def shown_error(kept: bytes | None) -> str | None:
    """Return a stored error as users read it: its type, message and notes."""
    return None if kept is None else shown_failure(kept, _text)


def shown_traceback(kept: bytes) -> str:
    """Return a stored error with its frames and causes, or why it cannot be read."""
    return _tried(lambda: traceback_text(decode_error(unpack(kept))), unreadable_text)


def shown_notes(payloads: Iterable[bytes], attributes: bytes | None) -> Noted:
    """Return what a run has noted, as far as it can be read."""
    noted = _tried(lambda: read_attributes(attributes), lambda _: Noted())
    placed = [each for each in map(_note, payloads) if each is not None]
    for _, each in sorted(placed, key=lambda placed: placed[0]):
        noted.take(each)
    return noted


def _note(payload: bytes) -> tuple[tuple[int, int], Noted] | None:
    return _tried(lambda: read_noted(payload), lambda _: None)


def _text(failure: Failure) -> str:
    return "\n".join((failure.text, *failure.notes))


def unreadable_text(error: Exception) -> str:
    """Return what is shown in place of a value that cannot be read."""
    return f"<unreadable: {error}>"


def _tried(read: Callable[[], T], otherwise: Callable[[Exception], T]) -> T:
    try:
        return read()
    except Exception as error:  # noqa: BLE001 - a damaged row may fail in any way
        return otherwise(error)
