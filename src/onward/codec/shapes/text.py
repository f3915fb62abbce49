"""Shapes of values that are stored as text: moments, durations, decimals, UUIDs and bytes.

The forms are ours and never change: ISO 8601 for moments, with the zone's name in brackets
(RFC 9557) where a `ZoneInfo` was given; ISO 8601 seconds for durations; base64 for bytes.
"""

from __future__ import annotations

import re
from binascii import a2b_base64, b2a_base64
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID
from zoneinfo import ZoneInfo

from onward.codec.shapes.refusal import Misfit, ValueRefused, misfit, mismatch
from onward.codec.shapes.shape import Kind, Shape

if TYPE_CHECKING:
    from collections.abc import Callable

_TEXT: Final = frozenset({Kind.STRING})
_DURATION: Final = re.compile(r"(-?)PT(\d{1,15})(?:\.(\d{6}))?S", re.ASCII)
_MICROSECOND: Final = timedelta(microseconds=1)


class Text(Shape):
    """A type with an exact form as text."""

    __slots__ = ("_kind", "_read", "_write")

    def __init__(self, kind: type, write: Callable[[Any], str], read: Callable[[str], Any]) -> None:
        super().__init__(kind.__name__, _TEXT, frozenset({kind}))
        self._kind = kind
        self._write = write
        self._read = read

    def lower(self, value: Any, _depth: int) -> str:
        """Return the text form."""
        if type(value) is not self._kind:
            raise mismatch(value, self.name)
        return self._write(value)

    def lift(self, data: Any) -> Any:
        """Return what the text stands for."""
        if type(data) is not str:
            raise misfit(data, self.name)
        try:
            return self._read(data)
        # A bad decimal is an ArithmeticError; a zone may be unknown or the name of a folder.
        except (ValueError, ArithmeticError, KeyError, OSError):
            raise Misfit(f"is text that cannot be read as {self.name}") from None


def _write_moment(value: datetime) -> str:
    zone = value.tzinfo
    if zone is None or type(zone) is timezone:
        _refuse_fold(value)
        return value.isoformat()
    if type(zone) is ZoneInfo and zone.key:
        return f"{value.isoformat()}[{zone.key}]"
    raise ValueRefused(
        f"has a time zone of type {type(zone).__name__}, which cannot be stored",
        "Use datetime.timezone or zoneinfo.ZoneInfo with a key.",
    )


def _read_moment(text: str) -> datetime:
    if not text.endswith("]"):
        return datetime.fromisoformat(text)
    written, _, key = text[:-1].partition("[")
    moment = datetime.fromisoformat(written)
    zone = ZoneInfo(key)
    for fold in (0, 1):
        here = moment.replace(tzinfo=zone, fold=fold)
        if here.utcoffset() == moment.utcoffset():
            return here
    # The zone's rules were changed since: the instant is what was meant.
    return moment.astimezone(zone)


def _write_time(value: time) -> str:
    if value.tzinfo is not None and type(value.tzinfo) is not timezone:
        raise ValueRefused(
            "is a time in a time zone whose offset depends on the date",
            "Pass a datetime, or a time with a fixed datetime.timezone.",
        )
    _refuse_fold(value)
    return value.isoformat()


def _refuse_fold(value: datetime | time) -> None:
    if value.fold and value.tzinfo is None:
        raise ValueRefused("has fold=1, but no time zone", "Use an aware datetime.")


def _write_duration(value: timedelta) -> str:
    microseconds = value // _MICROSECOND
    sign = "-" if microseconds < 0 else ""
    seconds, rest = divmod(abs(microseconds), 1_000_000)
    return f"{sign}PT{seconds}.{rest:06}S" if rest else f"{sign}PT{seconds}S"


def _read_duration(text: str) -> timedelta:
    found = _DURATION.fullmatch(text)
    if found is None:
        raise ValueError(text)
    sign, seconds, rest = found.groups()
    duration = timedelta(seconds=int(seconds), microseconds=int(rest or 0))
    return -duration if sign else duration


def _write_decimal(value: Decimal) -> str:
    if not value.is_finite():
        raise ValueRefused("is NaN or infinite, which cannot be stored", "Pass None instead.")
    return str(value)


def _read_decimal(text: str) -> Decimal:
    value = Decimal(text)
    if not value.is_finite():
        raise ValueError(text)
    return value


def _write_bytes(value: bytes | bytearray) -> str:
    return b2a_base64(value, newline=False).decode("ascii")


def _read_bytes(text: str) -> bytes:
    return a2b_base64(text, strict_mode=True)


def _read_bytearray(text: str) -> bytearray:
    return bytearray(_read_bytes(text))


TEXT_SHAPES: Final[dict[Any, Text]] = {
    datetime: Text(datetime, _write_moment, _read_moment),
    date: Text(date, date.isoformat, date.fromisoformat),
    time: Text(time, _write_time, time.fromisoformat),
    timedelta: Text(timedelta, _write_duration, _read_duration),
    Decimal: Text(Decimal, _write_decimal, _read_decimal),
    UUID: Text(UUID, str, UUID),
    bytes: Text(bytes, _write_bytes, _read_bytes),
    bytearray: Text(bytearray, _write_bytes, _read_bytearray),
}
