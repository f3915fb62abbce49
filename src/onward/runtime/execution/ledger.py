"""The ledger of one run in motion: effects are intended, sent, asked about and settled.

Nothing is sent that the ledger has not committed as `in_flight`. Whatever a handler does but return
or raise `NotApplied` leaves its effect uncertain; then the reconciler is asked, or it is sent again
to a receiver that knows its key, and if its outcome stays unknown, the call waits for an
operator. What happens is decided by `core.effect` alone.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from onward.codec import decode_error, encode_error
from onward.core.decision import Moved
from onward.core.effect import (
    FINAL,
    UNCERTAIN,
    Answer,
    EffectState,
    GivenUp,
    HandlerReturned,
    Inherited,
    LedgerEntry,
    Lost,
    NotStarted,
    RaisedNotApplied,
    Reconciled,
    Sent,
    Withdrawn,
    advance,
    settled,
    window,
)
from onward.core.lease import Fate
from onward.core.replay import RecordState
from onward.core.value import changed
from onward.engine.effects import as_effect
from onward.engine.payloads import pack, unpack
from onward.errors import EffectSkipped, NotApplied
from onward.runtime.body.effects import Drop, EffectCall
from onward.runtime.execution.children import look_at
from onward.runtime.execution.guard import on_done
from onward.runtime.execution.replies import is_away
from onward.runtime.execution.reporting import ABANDONED, report_abandoned, report_effect
from onward.runtime.reading import reading
from onward.telemetry.failpoints import failpoint

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Iterable

    from onward.core.effect import Fact
    from onward.core.instant import Duration, Instant
    from onward.model.commits import CommitOutcome
    from onward.model.effects import EffectRow, EffectWrite
    from onward.runtime.attempts.sender import EffectAttempt
    from onward.runtime.body.calls import Call
    from onward.runtime.execution.execution import Execution
    from onward.runtime.execution.host import Host
    from onward.runtime.execution.journal import Journal


class Ledger:
    """The effects of one run."""

    def __init__(self, execution: Execution, journal: Journal, host: Host) -> None:
        self._execution = execution
        self._journal = journal
        self._host = host
        self._progress = partial(host.progress, execution)
        self.busy = 0
        """How many effects are being read, sent or asked about."""

    # --- what comes next -------------------------------------------------------------------------

    def take(self, call: EffectCall) -> None:
        """Take up a call: one that is new is sent, of another the ledger knows."""
        if call.is_kept or self._execution.claimed.attempt > 1:
            self.look(call)
        else:
            self.go_on(call)

    def look(self, call: EffectCall) -> None:
        """Read what the ledger says of a call, and go on from there."""
        self.busy += 1
        call.has_news = False
        key, asked = call.key(self._execution.claimed), self._host.clock.monotonic()
        found = self._host.engine_calls.effect(key)
        on_done(self._execution, found, lambda done: self._seen(call, done, asked))

    def _seen(self, call: EffectCall, done: asyncio.Future[EffectRow | None], asked: int) -> None:
        self.busy -= 1
        if self._execution.is_stopped:
            return
        if is_away(done):
            self._execution.drop()  # the store is away; another claim will see
            return
        row = done.result()
        if row is None:
            self.go_on(call)
        elif row.args_hash != call.args_hash:
            self._execution.misfit(call, row.args_hash)
        elif row.run != self._execution.uid and not settled(as_effect(row)):
            self._ask_holder(call, row, asked)
        else:
            self._take_up(call, row, asked)
        self._execution.pump()

    def _ask_holder(self, call: EffectCall, row: EffectRow, asked: int) -> None:
        """See whether the run that has the row is over: it may be about to settle it."""
        self.busy += 1
        over = self._host.engine_calls.is_over(row.run)
        on_done(self._execution, over, lambda done: self._held(call, row, asked, done))

    def _held(
        self, call: EffectCall, row: EffectRow, asked: int, done: asyncio.Future[bool]
    ) -> None:
        self.busy -= 1
        if self._execution.is_stopped:
            return
        if is_away(done):
            self._execution.drop()
            return
        if done.result():
            self._take_up(call, row, asked)
        elif self._is_dropped(call):
            self._close_dropped(call, Drop.UNCERTAIN)
        else:  # it was cancelled with its parent, and this one belongs to a retry of that
            call.has_news = True
            call.due = look_at(self._host.now(), call.looks)
            call.looks += 1
            self._execution.waits.add(call)
        self._execution.pump()

    def _take_up(self, call: EffectCall, row: EffectRow, asked: int) -> None:
        latest = row.read_at + self._host.clock.monotonic() - asked
        with reading(f"effect {row.key}"):
            ours = _by_our_time(as_effect(row), self._host.now(), row.read_at, latest)
            call.take_up_row(row, ours, self._execution.claimed)
            if not settled(ours):
                call.arguments()  # fails here, and not once it is in flight
        self._recall(call, row)

    def _recall(self, call: EffectCall, row: EffectRow) -> None:
        """Go on from a row that another stay of the run, another run or an operator has written."""
        inherits = row.run != self._execution.uid
        if call.effect.state is EffectState.IN_FLIGHT:
            gone = InterruptedError("its worker died before the call returned")
            self.lost(call, pack(encode_error(gone)))
        elif inherits and call.effect.state not in FINAL:
            self._move(call, Inherited())
        elif settled(call.effect):
            self._close(call, row.result, row.error)
        else:
            self.go_on(call)

    def go_on(self, call: EffectCall) -> None:
        """Do what is next for a call: plan, send, ask, or wait."""
        effect = call.effect
        if call.has_news:
            self.look(call)
        elif self._is_dropped(call):
            self._drop(call)
        elif effect.state is EffectState.PLANNED and effect.version == 0 and not effect.approved:
            self._plan(call)
        elif call.waits_for_somebody:
            call.due = None
            self._execution.waits.add(call)
        elif call.next_at > self._host.now():
            call.due = call.next_at
            self._execution.waits.add(call)
        elif self._is_asked(call, effect):
            self._ask(call)
        else:
            self._send(call)

    def _is_asked(self, call: EffectCall, effect: LedgerEntry) -> bool:
        """Say whether the reconciler is asked next; who has none is sent again, or given up."""
        needs = effect.state is EffectState.NEEDS_RECONCILE
        return needs and call.definition.reconcile is not None

    def _is_dropped(self, call: EffectCall) -> bool:
        """Return whether the run was cancelled after it made a call."""
        stop = self._execution.body.cancelled
        return stop is not None and call.asked < (stop.seq or 0)

    def drop_waiting(self) -> None:
        """Drop calls that wait for a time or a verdict, if the run was cancelled after them."""
        for call in filter(self._is_dropped, self._execution.waits.effects()):
            self._execution.waits.discard(call)
            self.wake(call)

    def _drop(self, call: EffectCall) -> None:
        """End a call without waiting any longer: nothing is sent for it from now on."""
        effect = call.effect
        if self._is_asked(call, effect) and call.next_at <= self._host.now():
            self._ask(call)  # that takes no time of ours, and may settle it
        elif effect.state in UNCERTAIN:
            if effect.state in ABANDONED:
                self._tell_forsaken(call)
            self._close_dropped(call, Drop.UNCERTAIN)
        elif effect.version == 0:
            self._close_dropped(call, Drop.WITHDRAWN)
        else:
            self._move(call, Withdrawn())

    def withdraw_planned(self, then: Callable[[], None]) -> None:
        """Withdraw what was planned and never sent, as the run is about to end; then go on."""
        self.busy += 1
        withdrawn = self._host.engine_calls.withdraw(self._execution.claimed)
        on_done(self._execution, withdrawn, lambda done: self._withdrawn(done, then))

    def _withdrawn(self, done: asyncio.Future[None], then: Callable[[], None]) -> None:
        self.busy -= 1
        if is_away(done):
            self._execution.drop()
        else:
            then()

    def _close_dropped(self, call: EffectCall, drop: Drop) -> None:
        state, pump = RecordState.CANCELLED, self._execution.pump
        self._journal.close(call, state, pump, payload=drop.kept())

    def wake(self, call: EffectCall) -> None:
        """Go on with a call whose time has come."""
        call.due = None
        self.go_on(call)

    def hear(self, keys: list[str], calls: Iterable[Call]) -> None:
        """Look at what operators have said of these effects, now or as soon as we are free."""
        for call in list(calls) if keys else ():
            if isinstance(call, EffectCall) and call.key(self._execution.claimed) in keys:
                call.has_news = True
                if call in self._execution.waits.effects():
                    self._execution.waits.discard(call)
                    self.look(call)

    def report_abandoned(self, calls: Iterable[Call]) -> None:
        """Report effects whose outcome is unknown and no longer awaited."""
        for call in calls:
            if isinstance(call, EffectCall) and call.effect.state in ABANDONED:
                self._tell_forsaken(call)

    def _tell_forsaken(self, call: EffectCall) -> None:
        key, now = call.key(self._execution.claimed), self._host.now()
        report_abandoned(self._host.observer, self._execution.scope, call.name, key, now)

    # --- sending ---------------------------------------------------------------------------------

    def _plan(self, call: EffectCall) -> None:
        """Write what is to be sent, for an operator to approve."""
        self._write(call, LedgerEntry(version=1, approved=False), lambda: self.go_on(call))

    def _send(self, call: EffectCall) -> None:
        if self._execution.holds_back(call):
            return
        interval = call.definition.interval
        if interval is not None and call.turn is None:
            self.busy += 1
            turn = self._host.engine_calls.reserve_rate(
                self._execution.claimed, f"effect {call.name}", interval
            )
            on_done(self._execution, turn, lambda done: self._turn(call, done))
            return
        call.turn = None
        began = self._host.clock.monotonic()
        failpoint("effect.before")
        intended = advance(call.effect, Sent(), call.definition.terms, now=self._host.now())
        if isinstance(intended, Moved):
            call.since = call.since or self._host.now()
            self._write(call, intended.to, lambda: self._intended(call, began))
        elif call.effect.state is EffectState.NEEDS_RECONCILE:
            self._move(call, GivenUp())  # its receiver may have forgotten the key by now
        else:
            self.look(call)  # the ledger knows better

    def _turn(self, call: EffectCall, done: asyncio.Future[Duration]) -> None:
        self.busy -= 1
        if self._execution.is_stopped:
            return
        if is_away(done):
            self._execution.drop()
            return
        call.turn = self._host.now() + done.result()
        if done.result() > 0:
            call.is_kept = False  # parked, its record says when its turn is
        self.go_on(call)
        self._execution.pump()

    def _intended(self, call: EffectCall, began: int) -> None:
        failpoint("effect.intended")
        self.busy += 1
        frame = window(call.definition.terms, at=began)
        self._watch(call, self._host.sender.send(self._execution, call, frame, self._progress))

    def _watch(self, call: EffectCall, running: EffectAttempt) -> None:
        call.running = running
        on_done(self._execution, running.ended, lambda done: self._rested(call, running, done))

    def _rested(self, call: EffectCall, running: EffectAttempt, done: asyncio.Future[None]) -> None:
        if call.running is running:
            call.running = None
        self.busy -= 1
        error = None if done.cancelled() else done.exception()
        if error is not None:  # its outcome was not reported
            self._unheard(call, error)
        if not self._journal.writing:
            self._execution.pump()

    def _unheard(self, call: EffectCall, error: BaseException) -> None:
        if call.effect.state is EffectState.IN_FLIGHT:
            self.lost(call, pack(encode_error(error)))
        else:
            self.answered(call, Answer.UNKNOWN, None)

    def returned(self, call: EffectCall, result: bytes | None, error: bytes | None) -> None:
        """Settle an effect that happened; with an error where its result cannot be kept."""
        self._move(call, HandlerReturned(), result=result, error=error)

    def not_applied(
        self, call: EffectCall, after: Duration | None, names: tuple[str, ...], error: bytes
    ) -> Duration | None:
        """Take note that a call did nothing, and return how long until it is made again."""
        fact = RaisedNotApplied(after, self._host.randomness(), names, self._elapsed(call))
        # If an earlier send may have happened, that is why the outcome is unknown, and not this.
        return self._again_in(call, fact, None if call.effect.in_doubt else error)

    def not_started(self, call: EffectCall) -> None:
        """Take note that a handler never began: it is sent again, and this was no attempt."""
        self._move(call, NotStarted())

    def lost(self, call: EffectCall, error: bytes) -> Duration | None:
        """Note that the outcome of an effect is unknown.

        Returns:
            How long until it is sent again, if it is; not until the reconciler is asked.
        """
        return self._again_in(call, Lost(self._host.randomness(), self._elapsed(call)), error)

    def _elapsed(self, call: EffectCall) -> Duration:
        return 0 if call.since is None else max(0, self._host.now() - call.since)

    def _again_in(self, call: EffectCall, fact: Fact, error: bytes | None) -> Duration | None:
        to = self._move(call, fact, error=error)
        if to is None or to.due is None or self._is_asked(call, to):
            return None
        return max(0, to.due - self._host.now())

    # --- asking ----------------------------------------------------------------------------------

    def _ask(self, call: EffectCall) -> None:
        if self._execution.holds_back(call):
            return
        self.busy += 1
        call.asked_at = self._host.now()
        self._watch(call, self._host.sender.ask(self._execution, call, self._progress))

    def answered(self, call: EffectCall, answer: Answer, result: bytes | None) -> None:
        """Take note of what the reconciler says, as of when it was asked.

        What it looked at may have changed before its answer came.
        """
        fact = Reconciled(answer, randomness=self._host.randomness())
        self._move(call, fact, result=result, at=call.asked_at)

    # --- the ledger is written -------------------------------------------------------------------

    def _move(
        self,
        call: EffectCall,
        fact: Fact,
        *,
        result: bytes | None = None,
        error: bytes | None = None,
        at: Instant | None = None,
    ) -> LedgerEntry | None:
        if self._execution.is_stopped:
            return None
        now = self._host.now() if at is None else at
        decision = advance(call.effect, fact, call.definition.terms, now=now)
        if not isinstance(decision, Moved):
            self.look(call)  # it was settled elsewhere
            return None
        failpoint("effect.replied")
        to = decision.to
        if settled(to):
            then = partial(self._settled, call, result, error)
        else:
            then = partial(self.go_on, call)
            call.doubt = error or call.doubt
        kept = error if to.state is EffectState.APPLIED else error or call.doubt
        self._write(call, to, then, result=result, error=kept)
        return to

    def _settled(self, call: EffectCall, result: bytes | None, error: bytes | None) -> None:
        failpoint("effect.settled")
        self._close(call, result, error)

    def _close(self, call: EffectCall, result: bytes | None, error: bytes | None = None) -> None:
        """Hand over what the ledger says.

        This is a commit of its own, as a position in history cannot be given back, and an operator
        may have been faster. Should we die before it, the ledger says the same again.
        """
        state, payload, failed = _outcome(call, call.effect, result, error)
        notes = self._execution.steps.notes_of(call, call.noted) if failed is None else None
        self._journal.close(
            call, state, self._execution.pump, payload=payload, error=failed, notes=notes
        )

    def _write(
        self,
        call: EffectCall,
        to: LedgerEntry,
        then: Callable[[], None],
        *,
        result: bytes | None = None,
        error: bytes | None = None,
    ) -> None:
        row = call.written(
            self._execution.claimed, to, self._host.now(), result=result, error=error
        )

        def written(outcome: CommitOutcome) -> None:
            if self._execution.is_stopped:
                return  # the run has ended or left: nothing more is sent or written for it
            if outcome.fate is Fate.BUSY:
                self.look(call)
                return
            call.effect = _kept(to, row, max(outcome.at, self._host.now()))
            call.is_kept = True
            if call.waits_for_somebody:
                report_effect(self._host.observer, self._execution.scope, row, self._host.now())
            then()
            self._execution.pump()

        self._journal.keep_effect(call, row, written)


def _by_our_time(
    effect: LedgerEntry, ours: Instant, earliest: Instant, latest: Instant
) -> LedgerEntry:
    """Return an effect as the ledger has it, by our time instead of the database's.

    Ours is ahead if the database's was put back, and behind by however long we stood still between
    an answer and our hearing of it. The database's is between `earliest` and `latest` now. Whatever
    it is, no window may seem over that is not, and no key known that is forgotten.
    """
    settle, known = effect.settle_until, effect.known_until
    return changed(
        effect,
        settle_until=None if settle is None else settle + max(0, ours - earliest),
        known_until=None if known is None else known - max(0, latest - ours),
    )


def _kept(effect: LedgerEntry, row: EffectWrite, at: Instant) -> LedgerEntry:
    """Return an effect as the ledger has it: its times count from the commit.

    Until when its key is known stays as it was decided, before the commit: if that had to be
    repeated, its answer is later than the ledger, and a key must not seem known for too long.
    """
    kept = changed(effect, due=None if row.due_in is None else at + row.due_in)
    if row.start_by_in is None or row.settle_in is None:
        return kept
    return changed(kept, start_by=at + row.start_by_in, settle_until=at + row.settle_in)


def _outcome(
    call: EffectCall, effect: LedgerEntry, result: bytes | None, error: bytes | None
) -> tuple[RecordState, bytes | None, bytes | None]:
    """Return how the record of a settled effect is closed."""
    if effect.state is EffectState.APPLIED and (result is not None or error is None):
        return RecordState.SUCCEEDED, result, None
    if effect.state is EffectState.APPLIED:  # its result could not be kept
        return RecordState.FAILED, None, error
    if effect.state is EffectState.WITHDRAWN:
        return RecordState.CANCELLED, Drop.WITHDRAWN.kept(), None
    if effect.state is EffectState.SKIPPED:
        return RecordState.FAILED, None, pack(encode_error(EffectSkipped(call.name)))
    # Why it was uncertain once is no reason any more.
    if error is None or not isinstance(decode_error(unpack(error)), NotApplied):
        why = "it was rejected" if not effect.approved else "it did not happen"
        error = pack(encode_error(NotApplied(f"effect {call.name!r}: {why}")))
    return RecordState.FAILED, None, error
