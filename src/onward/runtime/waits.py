"""What a run waits for: times, and messages in its inbox."""

from __future__ import annotations

from typing import TYPE_CHECKING

from onward.core.inbox import Arrived, MessageKind, Wait, held, settle
from onward.core.inbox import Message as Letter
from onward.core.replay import RecordKind, RecordState
from onward.runtime.calls import SignalCall

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from onward.core.instant import Instant
    from onward.core.replay import Record
    from onward.runtime.calls import Call
    from onward.store.rows import InboxRow


class Mailbox:
    """What has arrived for a run, and what of it nobody has taken."""

    def __init__(self, seen: int, rows: Iterable[InboxRow], taken: set[int | None]) -> None:
        self.seen = seen
        self.unread: dict[int, InboxRow] = {}
        for row in rows:
            self.seen = max(self.seen, row.seq)
            if row.seq not in taken:
                self.unread[row.seq] = row

    def add(self, rows: Iterable[InboxRow]) -> None:
        """Take note of messages; those that are known already change nothing."""
        for row in rows:
            if row.seq > self.seen:
                self.unread[row.seq] = row
                self.seen = row.seq

    def take_cancel(self) -> InboxRow | None:
        """Take the wish that the run stops, if there is one."""
        for row in self.unread.values():
            if row.kind == MessageKind.CANCEL:
                return self.unread.pop(row.seq)
        return None

    def is_held(self) -> bool:
        """Say whether the operator's last word was to pause."""
        return held(MessageKind(row.kind) for row in self.unread.values())


class Waits:
    """The calls of a run that wait for a time or a message, in the order asked."""

    def __init__(self) -> None:
        self._calls: dict[str, Call] = {}

    def add(self, call: Call) -> None:
        """Wait for this, too."""
        self._calls[call.identity] = call

    def discard(self, call: Call) -> None:
        """Wait for this no more."""
        self._calls.pop(call.identity, None)

    def __iter__(self) -> Iterator[Call]:
        return iter(list(self._calls.values()))

    def __bool__(self) -> bool:
        return bool(self._calls)

    def next_due(self) -> Instant | None:
        """Return the earliest time at which one of them must be looked at."""
        dues = [call.due for call in self._calls.values() if call.due is not None]
        return min(dues, default=None)

    def come(self, mail: Mailbox, now: Instant) -> Iterator[tuple[Call, InboxRow | None]]:
        """Yield the calls whose message or time has come, with the message.

        A message that is here wins over a time that has passed.
        """
        signals = [call for call in self if isinstance(call, SignalCall)]
        letters = [
            Letter(row.seq, row.message, row.name)
            for row in mail.unread.values()
            if row.kind == MessageKind.SIGNAL
        ]
        waits = [Wait(call.identity, call.name, call.due) for call in signals]
        for outcome in settle(waits, letters, now=now):
            call = self._calls[outcome.wait.identity]
            if isinstance(outcome, Arrived):
                yield call, mail.unread.pop(outcome.message.seq)
            else:
                yield call, None
        for call in self:
            if not isinstance(call, SignalCall) and call.due is not None and call.due <= now:
                yield call, None


class Strays:
    """Signals that were recorded for a wait which the body gave up before it was handed them.

    No signal is lost: the next wait of that name has it, whether it is asked already or later. This
    follows from what was delivered and asked in which order, so a replay comes to the same.
    """

    def __init__(self) -> None:
        self._records: list[Record] = []

    def add(self, record: Record) -> None:
        """Keep a record that nobody waits for, if it is a signal."""
        if record.kind is RecordKind.SIGNAL and record.state is RecordState.SUCCEEDED:
            self._records.append(record)

    def take(self, calls: Iterable[Call]) -> tuple[SignalCall, Record] | None:
        """Return the first of these calls that waits for one of the signals, with the signal."""
        if not self._records:
            return None
        for call in calls:
            if isinstance(call, SignalCall) and not call.is_abandoned():
                for record in self._records:
                    if record.name == call.name:
                        self._records.remove(record)
                        return call, record
        return None
