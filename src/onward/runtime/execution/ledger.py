"""The effects of one run: each is one coroutine, from the call of the body to a settled outcome.

Nothing is sent that the ledger has not committed as `in_flight`. Unless a handler returns or raises
`NotApplied`, its effect is uncertain: then the reconciler is asked, or it is sent again to a
receiver that knows its key, and if its outcome stays unknown, the call waits for an operator.
`core.effect` decides what follows from each fact.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

from onward.codec import decode_error, encode_error
from onward.core.clock_steps import STEP
from onward.core.decision import Moved
from onward.core.effect import (
    FINAL,
    UNCERTAIN,
    EffectState,
    GivenUp,
    Inherited,
    LedgerEntry,
    Lost,
    NotStarted,
    RaisedNotApplied,
    Sent,
    Withdrawn,
    add_outcome,
    add_send,
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
from onward.runtime.execution.call_task import CallTasks, TaskRun, suspend
from onward.runtime.execution.children import poll_at
from onward.runtime.execution.reporting import ABANDONED, report_abandoned, report_effect
from onward.runtime.reading import reading
from onward.telemetry.error_text import describe, type_name
from onward.telemetry.failpoints import failpoint

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from onward.core.effect import Attempts, Fact
    from onward.core.instant import Duration, Instant
    from onward.model.commits import CommitOutcome
    from onward.model.effects import EffectRow, EffectWrite
    from onward.model.runs import ClaimedRun
    from onward.runtime.attempts.sender import EffectAttempt
    from onward.runtime.body.body import Body
    from onward.runtime.body.calls import Call
    from onward.runtime.body.waits import Waits
    from onward.runtime.execution.host import Host
    from onward.runtime.execution.journal import Journal
    from onward.runtime.execution.steps import Steps
    from onward.telemetry.scope import RunScope


class EffectRun(TaskRun, Protocol):
    """The run whose effects these are."""

    uid: str
    claimed: ClaimedRun
    scope: RunScope
    body: Body
    steps: Steps
    waits: Waits

    @property
    def fence(self) -> int: ...

    def is_wanted(self, call: Call) -> bool: ...

    def holds_back(self, call: EffectCall) -> bool:
        """Return whether nothing new may begin; then the call is resumed later."""
        ...


class EffectEnd(NamedTuple):
    """How the record of an effect is closed."""

    state: RecordState
    payload: bytes | None = None
    error: bytes | None = None


class Ledger:
    """Carries out the effects of one run, and is the `EffectOwner` of their sends."""

    def __init__(self, run: EffectRun, journal: Journal, host: Host) -> None:
        self._run = run
        self._journal = journal
        self._host = host
        self._tasks = CallTasks(run)
        self._abandoned: set[str] = set()
        """The keys of effects that were reported as no longer awaited."""
        self.scope = run.scope

    @property
    def run(self) -> ClaimedRun:
        return self._run.claimed

    def is_wanted(self, call: Call) -> bool:
        return self._run.is_wanted(call)

    def report_progress(self, value: bytes) -> None:
        self._host.progress(self._run, value)

    @property
    def is_busy(self) -> bool:
        """Whether effects are being read, sent or asked about."""
        return self._tasks.has_requests

    def close(self) -> None:
        """End what is under way here: the run has left, and the ledger has what is known."""
        self._tasks.close()

    # --- requests of the run ---------------------------------------------------------------------

    def take(self, call: EffectCall) -> None:
        """Begin to carry out a call."""
        self._tasks.start(call, self._live(call))

    def resume(self, call: EffectCall) -> None:
        """Continue a call: its time has come, or it was held back."""
        self._tasks.resume(call)

    def drop_waiting(self) -> None:
        """Drop calls that wait for a time or a verdict, if the run was cancelled after them."""
        for call in filter(self._is_dropped, self._run.waits.effects()):
            self._run.waits.discard(call)
            self._tasks.resume(call)

    def on_verdicts(self, keys: list[str], calls: Iterable[Call]) -> None:
        """Read the rows of effects that operators have decided on, now or as soon as possible."""
        for call in list(calls) if keys else ():
            if isinstance(call, EffectCall) and call.key(self.run) in keys:
                call.must_be_read = True
                if call in self._run.waits.effects():
                    self._run.waits.discard(call)
                    self._tasks.resume(call)

    def withdraw_planned(self, then: Callable[[], None]) -> None:
        """Withdraw what was planned and never sent, before the run ends; then call `then`."""
        self._tasks.when_done(self._host.engine_calls.withdraw(self.run), then)

    def report_abandoned(self, calls: Iterable[Call]) -> None:
        """Report effects whose outcome is unknown and no longer awaited."""
        for call in calls:
            if isinstance(call, EffectCall) and call.effect.state in ABANDONED:
                self._report_abandoned(call)

    def _report_abandoned(self, call: EffectCall) -> None:
        key, now = call.key(self.run), self._host.now()
        if key not in self._abandoned:  # a run may end by force just after it has dropped the call
            self._abandoned.add(key)
            report_abandoned(self._host.observer, self.scope, call.name, key, now)

    # --- the life of an effect -------------------------------------------------------------------

    async def _live(self, call: EffectCall) -> None:
        """Carry out one effect: read, plan, wait, send and reconcile until it has settled."""
        # A call that is new has no row; that of a retried run may have one.
        has_row = call.is_kept or call.may_have_row or self.run.attempt > 1
        call.must_be_read = call.must_be_read or has_row
        ending: EffectEnd | None = None
        while ending is None:
            ending = await self._next(call)
        # This is a commit of its own, as a position in history cannot be given back, and an
        # operator may have been faster. After a crash before it the ledger says the same again.
        is_applied = ending.state is RecordState.SUCCEEDED
        notes = self._run.steps.notes_of(call, call.noted) if is_applied else None
        self._journal.close(
            call,
            ending.state,
            self._run.pump,
            payload=ending.payload,
            error=ending.error,
            notes=notes,
        )

    async def _next(self, call: EffectCall) -> EffectEnd | None:
        """Do the next thing for an effect; return how its record is closed, if it has settled."""
        if call.must_be_read:
            return await self._read(call)
        if self._is_dropped(call):
            return await self._drop(call)
        if call.needs_plan:
            await self._write(call, LedgerEntry(version=1, approved=False), call.attempts)
            return None
        if call.needs_operator or call.next_at > self._host.now():
            await self._wait(call, None if call.needs_operator else call.next_at)
            return None
        if self._run.holds_back(call):
            await self._tasks.resumed()
            return None
        if call.is_reconciled_in(call.effect):
            return await self._settle(call, self._host.sender.reconcile(self, call))
        if call.definition.interval is not None and call.slot_at is None:
            await self._reserve_slot(call, call.definition.interval)
            return None
        return await self._send(call)

    async def _wait(self, call: EffectCall, due: Instant | None) -> None:
        """Wait for a time, a verdict, or the cancel of the run."""
        call.due = due
        self._run.waits.add(call)
        await self._tasks.resumed()
        call.due = None

    # --- reading ---------------------------------------------------------------------------------

    async def _read(self, call: EffectCall) -> EffectEnd | None:
        """Continue from the row, which another claim, run or operator may have written."""
        polls = 0
        while True:
            call.must_be_read = False
            asked = self._host.clock.monotonic()
            row = await self._tasks.reply(self._host.engine_calls.effect(call.key(self.run)))
            if row is None:
                return None
            if row.args_hash != call.args_hash and not call.may_replace(row):
                self._run.body.refuse(call, row.args_hash)
                await self._tasks.closed()  # the run pauses
            if not await self._is_held_elsewhere(row):
                return await self._take_over(call, row, asked)
            if self._is_dropped(call):
                return _dropped(Drop.UNCERTAIN)
            await self._wait(call, poll_at(self._host.now(), polls))
            polls += 1

    async def _is_held_elsewhere(self, row: EffectRow) -> bool:
        """Return whether another run, of which this is a retry, may be about to settle a row."""
        if row.run == self._run.uid or settled(as_effect(row)):
            return False
        return not await self._tasks.reply(self._host.engine_calls.is_over(row.run))

    async def _take_over(self, call: EffectCall, row: EffectRow, asked: int) -> EffectEnd | None:
        latest = row.read_at + self._host.clock.monotonic() - asked
        with reading(f"effect {row.key}"):
            effect = _by_our_time(as_effect(row), self._host.now(), row.read_at, latest)
            call.take_up_row(row, effect, self.run)
            if not settled(effect):
                call.arguments()  # fails here, and not once it is in flight
        if effect.state is EffectState.IN_FLIGHT:
            gone = InterruptedError("its worker died before the call returned")
            fact = Lost(self._host.randomness(), call.elapsed(self._host.now()))
            error = pack(encode_error(gone))
            return await self._record(call, fact, error=error, error_type=type_name(gone))
        if row.run != self._run.uid and effect.state not in FINAL:
            return await self._record(call, Inherited(is_changed=call.needs_approval_anew(row)))
        return _ending(call, row.result, row.error) if settled(effect) else None

    # --- sending ---------------------------------------------------------------------------------

    async def _reserve_slot(self, call: EffectCall, interval: Duration) -> None:
        """Reserve the next send that the rate of the effect allows."""
        wait = await self._tasks.reply(
            self._host.engine_calls.reserve_rate(self.run, call.name, interval)
        )
        call.reserve(self._host.now(), wait)

    async def _send(self, call: EffectCall) -> EffectEnd | None:
        """Commit that it is in flight, then call its handler."""
        call.slot_at = None
        began = self._host.clock.monotonic()
        failpoint("effect.before")
        intended = advance(call.effect, Sent(), call.terms, now=self._host.now())
        if isinstance(intended, Moved):
            call.since = call.since or self._host.now()
            attempts = add_send(call.attempts, self._host.now())
            if not await self._write(call, intended.to, attempts):
                return None
            written = self._host.clock.monotonic()
            failpoint("effect.intended")
            attempt = self._host.sender.send(self, call, window(call.terms, at=began))
            return await self._settle(call, attempt, written - began)
        if call.effect.state is EffectState.NEEDS_RECONCILE:
            return await self._record(call, GivenUp())  # its receiver may have forgotten the key
        call.must_be_read = True
        return None

    async def _settle(
        self, call: EffectCall, attempt: EffectAttempt, wrote_for: Duration = 0
    ) -> EffectEnd | None:
        """Wait for a handler or a reconciler, and record what it says."""
        done = await self._tasks.done(attempt.reply)
        if done.cancelled():
            await self._tasks.closed()  # the worker stops, and the run with it
        reply = done.result()
        if isinstance(reply.fact, NotStarted):
            call.widen(wrote_for)  # the row keeps it, in case the run leaves this worker
        # If an earlier send may have happened, that is why the outcome is unknown, and not this.
        is_about_doubt = isinstance(reply.fact, RaisedNotApplied) and call.effect.in_doubt
        error = None if is_about_doubt else reply.error
        return await self._record(call, reply.fact, reply.result, error, reply.error_type, reply.at)

    async def _drop(self, call: EffectCall) -> EffectEnd | None:
        """End a call of a cancelled run without waiting: nothing more is sent for it."""
        effect = call.effect
        if call.is_reconciled_in(effect) and call.next_at <= self._host.now():
            if self._run.holds_back(call):
                await self._tasks.resumed()
                return None
            # That takes no time of the run, and may settle it.
            return await self._settle(call, self._host.sender.reconcile(self, call))
        if effect.state in UNCERTAIN:
            if effect.state in ABANDONED:
                self._report_abandoned(call)
            return _dropped(Drop.UNCERTAIN)
        if effect.version == 0:
            return _dropped(Drop.WITHDRAWN)
        return await self._record(call, Withdrawn())

    def _is_dropped(self, call: EffectCall) -> bool:
        """Return whether the run was cancelled after it made a call."""
        stop = self._run.body.cancelled
        return stop is not None and call.asked < (stop.seq or 0)

    # --- writing ---------------------------------------------------------------------------------

    async def _record(
        self,
        call: EffectCall,
        fact: Fact,
        result: bytes | None = None,
        error: bytes | None = None,
        error_type: str | None = None,
        at: Instant | None = None,
    ) -> EffectEnd | None:
        """Write what follows from a fact; return how the record is closed, if it has settled."""
        ended = self._host.now()
        now = ended if at is None else at
        decision = advance(call.effect, fact, call.terms, now=now)
        if not isinstance(decision, Moved):
            call.must_be_read = True  # it was settled elsewhere
            return None
        failpoint("effect.replied")
        to = decision.to
        if not settled(to):
            call.doubt = error or call.doubt
        kept = error if to.state is EffectState.APPLIED else error or call.doubt
        attempts = add_outcome(call.attempts, fact, to, began=now, ended=ended, error=error_type)
        if not (await self._write(call, to, attempts, result, kept) and settled(to)):
            return None
        failpoint("effect.settled")
        return _ending(call, result, kept)

    async def _write(
        self,
        call: EffectCall,
        to: LedgerEntry,
        attempts: Attempts,
        result: bytes | None = None,
        error: bytes | None = None,
    ) -> bool:
        """Write the row of an effect; return False if it must be read again, as it has changed."""
        row = call.to_row(self.run, to, attempts, self._host.now(), result=result, error=error)
        outcome: CommitOutcome = await suspend(
            lambda task: self._journal.keep_effect(call, row, task.resume)
        )
        if outcome.fate is Fate.BUSY:
            call.must_be_read = True
            return False
        call.note_written(_kept(to, row, max(outcome.at, self._host.now())), attempts)
        if call.needs_operator:
            report_effect(self._host.observer, self.scope, row, self._host.now())
        return True


def _by_our_time(
    effect: LedgerEntry, ours: Instant, earliest: Instant, latest: Instant
) -> LedgerEntry:
    """Return an effect as the ledger has it, by this worker's time instead of the database's.

    Ours is ahead if the database's clock was set back, and behind by the time that this process was
    suspended between a reply and its arrival here. The database's time is between `earliest` and
    `latest` now. In every case no open window may seem closed, and no forgotten key known.

    If the clock was set forward and this worker has not heard of that yet, the ledger counts the
    step already, and the worker will add it to what it waits for.
    """
    due, settle, known = effect.due, effect.settle_until, effect.known_until
    return changed(
        effect,
        due=None if due is None else due - max(0, earliest - ours - STEP),
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


def is_sending(body: Body) -> bool:
    """Return whether an effect that a body waits for is being sent, or asked about."""
    calls = list(body.calls.values())
    return any(isinstance(call, EffectCall) and call.running is not None for call in calls)


def _dropped(drop: Drop) -> EffectEnd:
    return EffectEnd(RecordState.CANCELLED, drop.kept())


def _ending(call: EffectCall, result: bytes | None, error: bytes | None) -> EffectEnd:
    """Return how the record of a settled effect is closed."""
    state = call.effect.state
    if state is EffectState.APPLIED and (result is not None or error is None):
        return EffectEnd(RecordState.SUCCEEDED, result)
    if state is EffectState.APPLIED:  # its result could not be kept
        return EffectEnd(RecordState.FAILED, error=error)
    if state is EffectState.WITHDRAWN:
        return _dropped(Drop.WITHDRAWN)
    if state is EffectState.SKIPPED:
        return EffectEnd(RecordState.FAILED, error=pack(encode_error(EffectSkipped(call.name))))
    return EffectEnd(RecordState.FAILED, error=_not_applied(call, error))


def _not_applied(call: EffectCall, error: bytes | None) -> bytes:
    """Return the `NotApplied` that the body gets, which the last error of a handler may be."""
    what, sends = f"effect {call.name!r}", call.effect.attempt
    if not call.effect.approved:
        return pack(encode_error(NotApplied(f"{what} was rejected")))
    last = None if error is None else decode_error(unpack(error))
    if error is not None and isinstance(last, NotApplied):
        return error
    why = f"{what} did not happen"
    if sends:
        why += f" after {sends} send{'s'[: sends > 1]}"
    failed = NotApplied(why if last is None else f"{why}; last error: {describe(last)}")
    failed.__cause__ = last
    return pack(encode_error(failed))
