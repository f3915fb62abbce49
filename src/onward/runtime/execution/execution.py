"""One run in a worker: the calls of its body are executed, recorded and awaited.

Everything here happens on the host's event loop. `pump` lets the body run as far as it can. What is
then unfinished is either being worked on (steps, commits, requests) or is a durable wait; if there
is nothing of the first kind, the run parks.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Protocol

from onward.core.replay import CANCEL_IDENTITY, Policy, RecordState, Replay
from onward.core.run import Reason, RunState
from onward.core.stay import IDLE, STOPPING, StayAction, StayFact, StayState, advance
from onward.engine.payloads import unpack
from onward.errors import Undecodable
from onward.model.runs import Move
from onward.runtime.body.body import Body
from onward.runtime.body.calls import CancelCall
from onward.runtime.body.clock import ClockCall
from onward.runtime.body.divergence import place_of, unfit_arguments
from onward.runtime.body.effects import EffectCall
from onward.runtime.body.notes import Notes
from onward.runtime.body.waits import RunInbox, Waits
from onward.runtime.execution.alarm import Alarm
from onward.runtime.execution.children import Children
from onward.runtime.execution.dispatch import Dispatch
from onward.runtime.execution.guard import end_by, guarded
from onward.runtime.execution.host import End, Host
from onward.runtime.execution.journal import Journal
from onward.runtime.execution.leaving import Leaving, end_by_force, leaves_plans
from onward.runtime.execution.ledger import Ledger
from onward.runtime.execution.loaded_history import EMPTY_HISTORY, read_history
from onward.runtime.execution.replies import take_payloads
from onward.runtime.execution.reporting import report_unread, scope_of
from onward.runtime.execution.steps import Steps
from onward.runtime.execution.stopping import (
    Stop,
    grace_ends,
    keep_stop,
    late_cleanup,
    wanted_stop,
)
from onward.runtime.reading import reading
from onward.telemetry.failpoints import failpoint

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from onward.core.instant import Instant
    from onward.core.replay import Record
    from onward.model.messages import InboxRow
    from onward.model.records import RecordRow
    from onward.model.runs import ClaimedRun
    from onward.runtime.body.calls import Call, StepCall
    from onward.runtime.definition import Program


class ExecutionHost(Host, Protocol):
    """The worker of an execution."""

    def look(self, execution: Execution) -> None:
        """Read the run's inbox, and deliver what is new."""
        ...

    def ended(self, execution: Execution, end: End) -> None:
        """Take note that the run has left the worker."""
        ...


class Execution:
    """A run that this worker owns."""

    def __init__(
        self,
        claimed: ClaimedRun,
        program: Program,
        host: ExecutionHost,
        history: Sequence[RecordRow] = (),
        inbox: Sequence[InboxRow] = (),
        *,
        version: str | None = None,
    ) -> None:
        self.uid, self.program, self.claimed = claimed.uid, program, claimed
        self._host = host
        self._history = loaded = read_history(history) if history else EMPTY_HISTORY
        policy = Policy.STRICT if program.strict else Policy.ADDITIVE
        self.replay = Replay(loaded.records, policy=policy)
        self.journal = Journal(
            claimed, loaded.last, self.replay, host.commit, self.drop, self.break_off, version
        )
        self.inbox = RunInbox(claimed, inbox, loaded.messages, is_stopping=loaded.is_stopping)
        with reading(f"the attributes of run {claimed.id}"):
            self.notes = Notes(loaded.notes, claimed.attributes, self._write_note)
        self.scope = scope_of(claimed, host.id)
        self.calls = Dispatch(self, self.journal, host, loaded)
        self.steps = Steps(self, self.journal, host, loaded.tried)
        self.body = Body(claimed, self.replay, self.notes, self.calls, self.scope, program.retry)
        if loaded.signals:
            self.body.undelivered.update(loaded.signals)
        self.waits = Waits()
        self._undone: list[StepCall | EffectCall] = []
        self._todo: list[Callable[[], None]] = []
        self.move: Move | None = None
        """The last move of the run in this worker; None if others decide it."""
        self._alarm = Alarm(host)
        self._stay = StayState.LIVE
        # What follows from the state of its stay, set with it: every step reads these.
        self.is_stopped = self.is_gone = False
        self._pumping = self._reported = self.is_loading = False
        self._is_stopping = loaded.is_stopping
        self._children: Children | None = None
        self._ledger: Ledger | None = None
        self._leaving: Leaving | None = None

    # --- parts that not every run needs ----------------------------------------------------------

    @property
    def children(self) -> Children:
        if self._children is None:
            self._children = Children(self, self.journal, self._host, self._history.bound)
        return self._children

    @property
    def ledger(self) -> Ledger:
        if self._ledger is None:
            self._ledger = Ledger(self, self.journal, self._host)
        return self._ledger

    @property
    def leaving(self) -> Leaving:
        if self._leaving is None:
            self._leaving = Leaving(self, self.journal, self._host)
        return self._leaving

    @property
    def _is_asking(self) -> bool:
        """Whether a reply about other runs, or about messages, is awaited."""
        return self.is_loading or (self._children is not None and self._children.is_busy)

    @property
    def _is_settling(self) -> bool:
        """Whether the outcome of an effect or of another run will soon be known."""
        return self._is_asking or (self._ledger is not None and self._ledger.is_busy)

    def children_left(self) -> list[str]:
        has_any = self._children is not None or self._history.bound
        return self.children.left(self.body.calls.values()) if has_any else []

    def leaves_plans(self) -> bool:
        return leaves_plans(self.body, self._history)

    def report_abandoned(self) -> None:
        if self._ledger is not None and not self.is_gone:
            self._ledger.report_abandoned(self.body.calls.values())

    # --- life ------------------------------------------------------------------------------------

    def begin(self) -> None:
        """Start the body, unless the run was cancelled before it began."""
        wanted = self._wanted_stop() if self._history is EMPTY_HISTORY else None
        if wanted is not None:
            self.leaving.end(wanted[0].move)
            return
        try:
            with reading(f"the arguments of run {self.claimed.id}"):
                args, kwargs = self.program.shape.decode(unpack(self.claimed.input))
        except Undecodable as misfit:
            self.body.place = place_of(self.program.fn)
            self.body.diverged = unfit_arguments(misfit, self.program.shape)
            self.pump()
            return
        self.body.start(self.program.fn(*args, **kwargs))
        late = late_cleanup(self.claimed, self._history)
        if late is None:
            self.pump()
        else:
            self._pumping = True  # the time of the cleanup must be recorded first
            self.journal.keep_time(ClockCall(late), self._go_on)

    def _go_on(self) -> None:
        self._pumping = False
        self.pump()

    def _wanted_stop(self) -> tuple[Stop, int | None] | None:
        return wanted_stop(self.inbox, self.claimed.deadline, self._host.now())

    def resume(self, claimed: ClaimedRun, inbox: Sequence[InboxRow] = ()) -> None:
        """Continue with a body that stayed in memory while the run waited."""
        self.claimed = claimed
        self.steps.run = claimed
        self.journal.own_again(claimed)
        self.inbox.own(claimed)
        self.inbox.add(inbox)
        self._meet(StayFact.CLAIMED_AGAIN)
        self.pump()

    @property
    def fence(self) -> int:
        return self.claimed.fence

    @property
    def crashes(self) -> int:
        return self.journal.crashes

    @property
    def is_replaying(self) -> bool:
        return not self.replay.live

    @property
    def is_idle(self) -> bool:
        return not (self.journal.writing or self.steps.under_way or self._is_settling)

    @property
    def _is_held(self) -> bool:
        return self.inbox.is_held()

    @property
    def seen(self) -> int:
        """The number of the last message that it has read."""
        return self.inbox.seen

    def receive(self, rows: Iterable[InboxRow], counted: int = 0) -> bool:
        """Take messages, and the number of the last one; return whether any of them is new."""
        if self.is_gone:
            return False
        seen = self.inbox.seen
        guarded(self, partial(self._take_in, rows, counted))
        return self.inbox.seen > seen

    def _take_in(self, rows: Iterable[InboxRow], counted: int) -> None:
        self.inbox.add(rows)
        self.inbox.seen = max(self.inbox.seen, counted)
        self.pump()

    def _meet(self, fact: StayFact) -> StayAction:
        """Advance the state of the stay by a fact, and return what to do."""
        decision = advance(self._stay, fact)
        self._stay = decision.to
        self.is_stopped = decision.to in IDLE
        self.is_gone = decision.to is StayState.GONE
        return decision.action

    def evict(self) -> None:
        """Unwind the body without ending the run: nothing it does on the way is recorded."""
        if self._meet(StayFact.DECIDED) is StayAction.STOP:
            self._unwind()

    def _unwind(self) -> None:
        if not self.body.is_evicted:
            self._alarm.cancel()
            self.body.evict()

    def forget(self) -> None:
        """Evict the body for good, and free all that this run holds."""
        if self._meet(StayFact.LEFT) is StayAction.FORGET:
            self._unwind()
            self._free()

    def _free(self) -> None:
        """Drop everything that refers back to this run.

        Then all is freed at once. The garbage collector would run late, and stop all runs.
        """
        if self._ledger is not None:
            self._ledger.close()
        if self._children is not None:
            self._children.close()
        self.body.part()
        del self.body, self.calls, self.steps, self.journal, self.replay, self.notes
        self._children = self._ledger = self._leaving = None

    # --- calls are done, or abandoned ------------------------------------------------------------

    def later(self, write: Callable[[], None]) -> None:
        self._todo.append(write)

    def write_todo(self) -> None:
        """Write what the body asked for: nothing can be written while it runs."""
        todo, self._todo = self._todo, []
        if self.body.diverged is None:
            for write in todo:
                write()

    def is_wanted(self, call: Call) -> bool:
        return not self.is_stopped and self.body.calls.get(call.identity) is call

    def _write_note(self, identity: str, payload: bytes) -> None:
        row = self.journal.note_row(identity, payload)
        self.later(partial(self.journal.note, row, self.pump))

    # --- the pump --------------------------------------------------------------------------------

    def pump(self) -> None:
        """Let the body run as far as it can, then see what is left to do."""
        if self.is_stopped or self._pumping:
            return
        self._pumping = True
        inbox = self.inbox
        try:
            if inbox.held_by or self.waits.held_since is not None:
                self.waits.hold(self._host.now(), is_held=self._is_held)
            if inbox.is_stopping or self.claimed.deadline is not None:
                self._take_stop()
            if not ((self._is_stopping or inbox.held_by) and self._is_barred):
                self._host.loop_monitor.run(self, self.body.advance)
                if self._todo:
                    self.write_todo()
            self._conclude()
        except BaseException as error:  # noqa: BLE001 - user code may raise anything
            end_by(self, error)
        finally:
            self._pumping = False

    def _conclude(self) -> None:
        body = self.body
        if body.diverged is not None:
            self.leaving.pause(body.diverged)
        elif body.main.done() and body.is_over and not self._is_held:
            # The outcome of an effect in flight, or of a child, must be known first.
            if not self._is_settling:
                self.leaving.finish()
        elif body.cancelled is not None and self._is_grace_over and not self._is_asking:
            if body.main.done():
                self.leaving.finish()
            else:
                self.leaving.end(end_by_force(body))
        else:
            if self._children is not None or self._ledger is not None or self.inbox.orders:
                self._serve_others()
            if self.waits.calls:
                self._end_waits()
            if self._undone:
                self._take_up_undone()
            self._rest()

    def report(self, left: Sequence[Record] = ()) -> None:
        """Report, once per stay, that the run continues though code and history differ."""
        if not self._reported and (left or self.body.unread):
            self._reported = report_unread(self.scope, [*self.body.out_of_turn(), *left])

    @property
    def _is_barred(self) -> bool:
        """Whether nothing new may begin: the run is held, or its body has not received a cancel."""
        is_unheard = self._is_stopping and CANCEL_IDENTITY in self.journal.recording
        return is_unheard or self._is_held

    def _take_stop(self) -> None:
        """Record once that the run is to stop, for its body to receive, unless that has ended."""
        is_over = self._is_stopping or self.body.diverged is not None or self.body.is_over
        wanted = None if is_over else self._wanted_stop()
        if wanted is not None:
            self._is_stopping = self.inbox.is_stopping = True
            call, (stop, seq) = CancelCall(CANCEL_IDENTITY), wanted
            kept, state = keep_stop(stop), RecordState.SUCCEEDED
            self.journal.close(call, state, self.pump, payload=kept, message=seq)

    def _serve_others(self) -> None:
        """Cancel children that are not awaited, and take decisions of operators from the inbox."""
        if self._children is not None and self.replay.live:
            self._children.cancel_unwanted()
        if self.inbox.orders:
            self.inbox.take_cancel()
            verdicts = self.inbox.take_verdicts()
            if verdicts:
                self.ledger.on_verdicts(verdicts, self.body.calls.values())
        if self.body.cancelled is not None and self._ledger is not None:
            self._ledger.drop_waiting()

    def _end_waits(self) -> None:
        if not (self._is_barred or self.is_loading):
            for call, message in self.waits.ready(self.inbox, self._host.now()):
                self.waits.discard(call)
                self.calls.on_ready(call, message)
            if self.inbox.wanted:
                take_payloads(self, self._host.engine_calls.messages(self.uid, self.inbox.wanted))

    def holds_back(self, call: StepCall | EffectCall) -> bool:
        """Keep a call for later if nothing new may begin, and return whether that is so."""
        may_be_barred = self._is_stopping or self.inbox.held_by
        if self._stay in STOPPING or (may_be_barred and self._is_barred):
            self._undone.append(call)
            return True
        return False

    def _take_up_undone(self) -> None:
        if not (self._stay in STOPPING or self._is_barred):
            undone, self._undone = self._undone, []
            for call in undone:
                if isinstance(call, EffectCall):
                    self.ledger.resume(call)
                else:
                    self.calls.do(call)

    def _rest(self) -> None:
        """Wait for what is being worked on or, if there is nothing, leave the worker.

        Raises:
            Stuck: nothing would ever wake it.
        """
        if self.steps.under_way or not self.is_idle:
            if self.waits.calls or self._alarm.timer is not None or self.body.cancelled is not None:
                self._alarm.set(self._next_due(), self.pump)
        else:
            self._leave_waiting()

    def _leave_waiting(self) -> None:
        fact = StayFact.HELD if self._is_held else StayFact.NOTHING_LEFT
        if self._undone and self._stay in STOPPING:
            fact = StayFact.HELD_BACK
        match self._meet(fact):
            case StayAction.RELEASE:
                self.release()
            case StayAction.PAUSE:
                self.leaving.park(Move(RunState.PAUSED, Reason.OPERATOR, seen=self.inbox.seen))
            case StayAction.PARK:
                self.body.check_wait()
                # A cancelled run ends when its grace is over, even with uncertain effects.
                is_stopping = self.body.cancelled is not None
                reason = None if is_stopping else self.waits.operator_reason()
                state = RunState.WAITING if reason is None else RunState.PAUSED
                due = None if reason is not None else self._next_due()
                error = None if reason is None else self.waits.pause_error()
                self.leaving.park(Move(state, reason, due=due, seen=self.inbox.seen, error=error))

    def _next_due(self) -> Instant | None:
        # While nothing new may begin, no wait ends, even if it is due.
        due = self.waits.next_due() if self.waits.calls and not self._is_barred else None
        grace = self._grace_ends
        return due if grace is None else min(due or grace, grace)

    @property
    def _grace_ends(self) -> Instant | None:
        stop = self.body.cancelled
        return None if stop is None else grace_ends(stop) + self.body.clock.cleanup_delay

    @property
    def _is_grace_over(self) -> bool:
        grace = self._grace_ends
        return grace is not None and grace <= self._host.now()

    # --- ways to leave ---------------------------------------------------------------------------

    @property
    def undelivered_signals(self) -> tuple[int, ...]:
        """The numbers of signals that are in history, but that the body has not received."""
        return tuple(sorted(self.body.undelivered.values()))

    def stop(self, move: Move) -> None:
        """Do no more for the body; `move` is the last one of the run."""
        self._meet(StayFact.DECIDED)
        self._alarm.cancel()
        self.move = move

    def look_again(self) -> None:
        """Continue: a message arrived before the run could leave."""
        if not self.body.is_evicted and self._meet(StayFact.MESSAGE_FIRST) is StayAction.LOOK:
            self._host.look(self)

    def break_off(self, error: BaseException) -> None:
        if not self.is_gone:
            self.leaving.break_off(error)

    def leave_parked(self, *, paused: bool) -> None:
        if paused:
            self._leave(End.PAUSED)
        else:
            self._host.ended(self, End.PARKED)

    def leave_over(self) -> None:
        self._leave(End.OVER)

    def wind_down(self) -> None:
        """Begin no more steps; after those under way, release the run if it needs more."""
        self._meet(StayFact.WORKER_STOPS)

    def release(self) -> None:
        """Release the run unfinished, for another worker to continue."""
        if not self.is_stopped:
            failpoint("release.before")
            self.evict()
            self.move = Move(RunState.READY)
            self.journal.end(self.move, self._released)

    def _released(self) -> None:
        failpoint("release.after")
        self._leave(End.LOST)

    def drop(self) -> None:
        """Forget the run without writing anything: it belongs to another worker."""
        self.move = None
        self._leave(End.LOST)

    def _leave(self, end: End) -> None:
        if self._meet(StayFact.LEFT) is StayAction.FORGET:
            self._unwind()
            self._host.ended(self, end)
            self._free()
