"""What a run waits for: times, and messages in its inbox."""

from __future__ import annotations

from typing import TYPE_CHECKING

from onward.core.hold import CHANGES, read_sources, sources_after
from onward.core.inbox import Arrived, InboxWait, MessageKind, settle
from onward.core.inbox import Message as Arrival
from onward.core.replay import RecordKind, RecordState
from onward.core.run import Reason
from onward.errors import UnreadableRow
from onward.runtime.body.calls import SignalCall, StepCall, TimerCall
from onward.runtime.body.children import ChildCall
from onward.runtime.body.effects import EffectCall
from onward.runtime.reading import newer

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from onward.core.instant import Duration, Instant
    from onward.core.replay import Record
    from onward.model.messages import InboxRow
    from onward.model.runs import ClaimedRun
    from onward.runtime.body.calls import Call


_KINDS = frozenset(map(str, MessageKind))

MAX_LOAD = 8
"""How many payloads that a read has left out are read at a time."""


class RunInbox:
    """The messages that have arrived for a run, and which of them are not taken yet."""

    def __init__(
        self,
        run: ClaimedRun,
        rows: Iterable[InboxRow],
        taken: set[int],
        *,
        is_stopping: bool = False,
    ) -> None:
        self.seen = run.inbox
        self.signals: dict[int, InboxRow] = {}
        """Signals by their number in the inbox."""
        self.ends: dict[str, InboxRow] = {}
        """Ends of children, by the identity of the call that started them."""
        self.orders: list[InboxRow] = []
        """Cancels and verdicts."""
        self.is_stopping = is_stopping
        """Whether the run was ever cancelled."""
        self.wanted: list[int] = []
        """Messages that a wait is for, but whose payloads are not read yet."""
        self.own(run)
        for row in rows:
            self.seen = max(self.seen, row.seq)
            if row.seq not in taken:
                self._sort_in(row)

    def own(self, run: ClaimedRun) -> None:
        """Take over the pauses of a claimed run: the messages before the claim are in them."""
        self._run = run.id
        self.held_by = read_sources(run.held_by)
        self._held_at = run.inbox

    def add(self, rows: Iterable[InboxRow]) -> None:
        """Add messages; those that are known already change nothing."""
        for row in rows:
            if row.seq > self.seen:
                self.seen = row.seq
                self._sort_in(row)

    def _sort_in(self, row: InboxRow) -> None:
        """Sort a message by its kind.

        Raises:
            NewerRow: this version does not know the kind.
        """
        if row.kind == MessageKind.SIGNAL:
            self.signals[row.seq] = row
        elif row.kind == MessageKind.CHILD:
            self.ends[row.name] = row
        elif row.kind in CHANGES:
            if row.seq > self._held_at:
                change = MessageKind(row.kind), row.name
                self.held_by = sources_after(self.held_by, [change])
        elif row.kind not in _KINDS:
            raise newer(f"message {row.seq} of run {row.run}", "kind", row.kind)
        else:
            self.orders.append(row)
            self.is_stopping = self.is_stopping or row.kind == MessageKind.CANCEL

    def is_ready(self, row: InboxRow) -> bool:
        """Return whether a message has its payload; otherwise it is to be read."""
        if row.is_omitted and len(self.wanted) < MAX_LOAD:
            self.wanted.append(row.seq)
        return not row.is_omitted

    def fill(self, rows: Iterable[InboxRow]) -> None:
        """Take the payloads of messages that were to be read.

        Raises:
            UnreadableRow: one of the messages is gone.
        """
        wanted, self.wanted = self.wanted, []
        read = {row.seq: row for row in rows}
        for seq in wanted:
            if seq not in read:
                raise UnreadableRow(f"message {seq} of run {self._run}", "its row is missing")
            row = read[seq]
            if row.kind == MessageKind.CHILD and row.name in self.ends:
                self.ends[row.name] = row
            elif seq in self.signals:
                self.signals[seq] = row

    def take_cancel(self) -> InboxRow | None:
        """Take the message that cancels the run, if there is one."""
        for row in self.orders:
            if row.kind == MessageKind.CANCEL:
                self.orders.remove(row)
                return row
        return None

    def take_verdicts(self) -> list[str]:
        """Take the messages about verdicts, and return the keys of their effects."""
        verdicts = [row for row in self.orders if row.kind == MessageKind.VERDICT]
        for row in verdicts:
            self.orders.remove(row)
        return [row.name for row in verdicts]

    def is_held(self) -> bool:
        """Return whether a pause holds the run; one that is to stop is not held."""
        return bool(self.held_by) and not self.is_stopping


class Waits:
    """The calls of a run that wait for a time or a message, in the order asked.

    A call has its time, if it has one, before it is added. Signals, children and times are found
    without a look at all calls: a run may have thousands, and is pumped whenever one of them ends.
    """

    def __init__(self) -> None:
        self.calls: dict[str, Call] = {}
        self.held_since: Instant | None = None
        self._timed: dict[str, Call] = {}
        self._signals: dict[str, SignalCall] = {}
        self._children: dict[str, ChildCall] = {}

    def add(self, call: Call) -> None:
        """Wait for this call, too."""
        self.calls[call.identity] = call
        if call.due is not None:
            self._timed[call.identity] = call
        if isinstance(call, SignalCall):
            self._signals[call.identity] = call
        elif isinstance(call, ChildCall):
            self._children[call.started_by] = call

    def discard(self, call: Call) -> None:
        """Stop waiting for this call."""
        if self.calls.pop(call.identity, None) is None:
            return
        self._timed.pop(call.identity, None)
        if isinstance(call, SignalCall):
            self._signals.pop(call.identity, None)
        elif isinstance(call, ChildCall):
            self._children.pop(call.started_by, None)

    def __iter__(self) -> Iterator[Call]:
        return iter(list(self.calls.values()))

    def effects(self) -> list[EffectCall]:
        """Return the effects among them."""
        return [call for call in self.calls.values() if isinstance(call, EffectCall)]

    def operator_reason(self) -> Reason | None:
        """Return what an operator must do first, if every call waits for an operator."""
        reasons = [call.operator_reason for call in self.calls.values()]
        if not reasons or None in reasons:
            return None
        return Reason.RECONCILIATION if Reason.RECONCILIATION in reasons else reasons[0]

    def pause_error(self) -> bytes | None:
        """Return the error for which the run pauses, if it is one."""
        errors = (call.pause_error for call in self.calls.values())
        return next((error for error in errors if error is not None), None)

    def next_due(self) -> Instant | None:
        """Return the earliest time at which one of them must be looked at."""
        dues = [call.due for call in self._timed.values() if call.due is not None]
        return min(dues, default=None)

    def clock_stepped(self, step: Duration, calls: Iterable[Call] = ()) -> None:
        """Let what is counted in memory last as long as before the database's clock was set.

        These are the waits, and the attempts of `calls`.
        """
        tried = [call for call in calls if isinstance(call, StepCall | EffectCall)]
        for call in tried:
            call.since = None if call.since is None else call.since + step
        for counted in dict.fromkeys((*self.calls.values(), *tried)):
            counted.clock_stepped(step)

    def hold(self, now: Instant, *, is_held: bool) -> None:
        """Stop the limits that are not in history while the run is held: nothing is begun then."""
        if is_held:
            self.held_since = self.held_since or now
        elif self.held_since is not None:
            held, self.held_since = max(0, now - self.held_since), None
            for call in self.calls.values():
                if isinstance(call, TimerCall) and call.is_limit and not call.is_kept:
                    call.put_off(held, now)

    def ready(self, inbox: RunInbox, now: Instant) -> Iterator[tuple[Call, InboxRow | None]]:
        """Yield the calls whose message or time has come, with the message.

        A message that is here wins over a time that has passed. Times come in their order: if a run
        comes back late, a sleep may be over, and the limit around it later than that.
        """
        for started_by in [name for name in inbox.ends if name in self._children]:
            if inbox.is_ready(inbox.ends[started_by]):
                yield self._children[started_by], inbox.ends.pop(started_by)
        over = [call for call in self._timed.values() if _is_over(call, now)]
        over = [call for call in over if not isinstance(call, SignalCall)]
        for call, message in self._settled(inbox, now):
            if message is None:
                over.append(call)
            else:
                yield call, message
        if not inbox.wanted:  # what is still to be read may be for one of them
            yield from ((call, None) for call in sorted(over, key=lambda call: call.due or 0))

    def _settled(self, inbox: RunInbox, now: Instant) -> Iterator[tuple[Call, InboxRow | None]]:
        """Yield the waits for signals that are over, each with its signal or without."""
        if not self._signals:
            return
        arrivals = [Arrival(row.seq, row.message, row.name) for row in inbox.signals.values()]
        waits = [InboxWait(call.identity, call.name, call.due) for call in self._signals.values()]
        for outcome in settle(waits, arrivals, now=now):
            call = self.calls[outcome.wait.identity]
            if isinstance(outcome, Arrived):
                is_ready = inbox.is_ready(inbox.signals[outcome.message.seq])
                if is_ready and not inbox.wanted:  # signals arrive in order
                    yield call, inbox.signals.pop(outcome.message.seq)
            elif not inbox.wanted:
                yield call, None


def _is_over(call: Call, now: Instant) -> bool:
    return call.due is not None and call.due <= now


class UnclaimedSignals:
    """Signals that were recorded for a wait which the body gave up before it was handed them.

    No signal is lost: the next wait of that name has it, whether it is asked already or later. This
    follows from what was delivered and asked in which order, so a replay comes to the same.
    """

    def __init__(self) -> None:
        self._records: list[Record] = []

    def add(self, record: Record) -> None:
        """Keep a record that no call waits for, if it is a signal."""
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
