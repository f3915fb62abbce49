"""A call between the code and its history, and a history laid out as calls."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

from onward.core.replay.identity import branch_of
from onward.core.replay.record import GRAVE, Record, RecordKind
from onward.core.value import Struct
from onward.errors import InvariantBroken

if TYPE_CHECKING:
    from collections.abc import Iterable

    from onward.core.replay.answers import Ask


class Standing(StrEnum):
    """How a call stands between the code and its history."""

    UNKNOWN = "unknown"
    RECORDED = "recorded"
    PASSED = "passed"
    HELD = "held"
    UNDER_WAY = "under_way"
    READ = "read"
    DELIVERED = "delivered"


class TrackedCall(Struct):
    """One identity: the last record of it, and what the code asked."""

    identity: str
    standing: Standing
    record: Record | None = None
    asked: Ask | None = None
    is_given_up: bool = False
    """Whether the code has stopped waiting for it, and has not asked for it again."""

    @property
    def written(self) -> Record:
        """The record of a call that has one."""
        assert self.record is not None
        return self.record

    @property
    def position(self) -> int:
        """The position of a call that is closed."""
        seq = self.written.seq
        assert seq is not None
        return seq

    def place(self) -> tuple[bool, int, str]:
        """Return a key that sorts calls as history has them, open ones last."""
        seq = self.written.seq
        return seq is None, seq or 0, self.identity


def laid_out(history: Iterable[Record]) -> tuple[dict[str, TrackedCall], list[TrackedCall]]:
    """Return the calls of a history by identity, and the closed ones in order.

    Raises:
        InvariantBroken: two calls share a position, or one has a record after its final one.
    """
    calls: dict[str, TrackedCall] = {}
    for record in sorted(history, key=lambda record: record.attempt):
        call = calls.get(record.identity)
        if call is None:
            calls[record.identity] = TrackedCall(record.identity, Standing.RECORDED, record)
        elif call.written.seq is None:
            call.record = record
        else:
            raise InvariantBroken(f"call {record.identity} has a record after its final one")
    closed = sorted((c for c in calls.values() if c.written.seq is not None), key=TrackedCall.place)
    last = 0
    for call in closed:
        if call.position <= last:
            raise InvariantBroken(f"call {call.identity} has position {last}, which is taken")
        last = call.position
    return calls, closed


def is_grave(record: Record) -> bool:
    """Return whether code that does not read a record would ignore what reached others.

    A wait for a signal that has not come has reached nothing: code may do something before it, or
    no longer wait.
    """
    is_awaited = record.kind is RecordKind.SIGNAL and record.seq is None
    return record.kind in GRAVE and not is_awaited


def unread_grave(calls: dict[str, TrackedCall]) -> dict[str | None, dict[str, TrackedCall]]:
    """Return the calls that reached others, by branch (None: with a key), oldest first."""
    unread: dict[str | None, dict[str, TrackedCall]] = {}
    for call in sorted(calls.values(), key=TrackedCall.place):
        if is_grave(call.written):
            unread.setdefault(branch_of(call.identity), {})[call.identity] = call
    return unread
