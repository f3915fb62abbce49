"""Holds waits back until it is certain from when they count."""

from __future__ import annotations

from typing import TYPE_CHECKING

from onward.codec import decode, encode
from onward.core.replay import (
    LateStart,
    RecordKind,
    clock_identity,
    delayed_by,
    is_ahead,
    is_late,
    put_off_after,
    put_off_since,
)
from onward.engine.payloads import pack, unpack
from onward.errors import Undecodable
from onward.runtime.body.calls import Call, TimedCall
from onward.runtime.reading import reading

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from onward.core.instant import Duration, Instant
    from onward.core.replay import Record
    from onward.runtime.body.call_sink import CallSink


class ClockCall(Call):
    """A record of the time at which a run that is late begins its waits."""

    kind = RecordKind.CLOCK

    def __init__(self, start: LateStart) -> None:
        super().__init__("clock")
        self.payload = pack(encode({"since": start.since, "is_replayed": start.is_replayed}))

    def place(self, position: int) -> None:
        """Take the identity of the clock record at a position of history."""
        self.identity = clock_identity(position)

    def is_abandoned(self) -> bool:
        """Say that no code waits for it."""
        return True

    def hand_over(self, record: Record) -> None:
        """Do nothing: it changes the time of the body, which takes it itself."""


class BodyClock:
    """Lets the waits of a body begin, once it is certain from when they count.

    Args:
        owner: Does what begins.
        is_replayed: Whether the body does again what was done before, so that it is late by now.
    """

    def __init__(self, owner: CallSink, *, is_replayed: bool) -> None:
        self._owner = owner
        self.held: list[TimedCall] = []
        self.is_replayed = is_replayed
        self._is_written = True
        self._absent: Duration = 0
        """How long no worker had the run, as clock records say; counted anew once it is to stop."""
        self._put_off: Duration = 0
        """How far the database's clock was set while the body was in memory."""

    def clock_stepped(self, step: Duration) -> None:
        """Let a cleanup last as long as before the database's clock was set."""
        self._put_off = put_off_after(self._put_off, step)

    def begin_cleanup(self, at: Instant) -> None:
        """Count anew what delays the end of the cleanup, which began at `at`."""
        self._absent = 0
        self._put_off = put_off_since(at, self._put_off, self._owner.now())

    @property
    def cleanup_delay(self) -> Duration:
        """By how much the cleanup may end later than its length says."""
        return self._absent + self._put_off

    def hold(self, call: TimedCall, *, is_replayed: bool = False) -> None:
        """Keep a wait until the body is quiet; waits begin in the order asked."""
        self.held.append(call)
        self.is_replayed = self.is_replayed or is_replayed

    def begin_waits(self, body_now: Instant, wanted: Mapping[str, Call]) -> None:
        """Begin what was kept, or write the clock record that it needs.

        Args:
            body_now: The time of the body.
            wanted: What the body still waits for.
        """
        if not self.held:
            self.is_replayed = False
        elif self._is_written:
            # If the answer to the last record came late, the body may be late by all that time.
            for call in self._ready(body_now, self._owner.latest()):
                if not isinstance(call, TimedCall) or wanted.get(call.identity) is call:
                    self._owner.do(call)

    def _ready(self, body_now: Instant, now: Instant) -> list[Call]:
        late = [call.asked_at for call in self.held if self._is_late(call, body_now, now)]
        if late:
            self._is_written = False
            since = body_now if self.is_replayed else min(late)
            return [ClockCall(LateStart(since, self.is_replayed))]
        begun: list[Call] = [*self.held]
        self.held = []
        self.is_replayed = False
        return begun

    def _is_late(self, call: TimedCall, body_now: Instant, now: Instant) -> bool:
        if call.delay is None or call.is_kept or call.is_timed or call.is_abandoned():
            return False
        if not self.is_replayed:
            return is_late(call.delay, call.asked_at, now, is_replayed=False)
        if call.asked_at < body_now and not call.is_limit and not is_ahead(call.asked_at, now):
            return False  # a sleep that was under way while the run got on
        return is_late(call.delay, body_now, now, is_replayed=True)

    def hear(self, record: Record, calls: Iterable[Call], run: str) -> Undecodable | None:
        """Let the waits that are not in history count from a clock record.

        Returns:
            Why not, if a newer version wrote the record.

        Raises:
            UnreadableRow: the record is damaged.
        """
        try:
            with reading(f"record {record.identity!r} of run {run}"):
                kept = decode(unpack(record.payload.payload))
                start = LateStart(kept["since"], kept["is_replayed"])
        except Undecodable as newer:
            return newer
        if start.is_replayed:
            self._absent += record.payload.at - start.since
        for call in calls:
            if isinstance(call, TimedCall) and call.delay is not None and not call.is_kept:
                at, asked_at = record.payload.at, call.asked_at
                later = delayed_by(start, at, asked_at, is_limit=call.is_limit)
                if later:
                    call.put_off(later, at)
                if asked_at >= start.since or asked_at > at:
                    call.asked_at += later
        for call in self.held:
            call.is_timed = True  # once is enough, however long it took to write the record
        self._is_written = True
        return None
