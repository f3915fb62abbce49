"""One run in the hands of a worker: what its body asked for is done, written, and waited for.

Everything here happens on the host's event loop, in callbacks. `pump` lets the body run as far as
it can. What is then unfinished is either being worked on (steps, commits) or is a durable wait; if
there is nothing of the first kind, the run parks.
"""

from __future__ import annotations

from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING

from onward.codec import encode_error
from onward.core.lease import Fate
from onward.core.replay import (
    CANCEL_IDENTITY,
    Diverged,
    Ended,
    Policy,
    RecordKind,
    RecordState,
    Replay,
)
from onward.core.run import Reason, RunState, suspect
from onward.engine.payloads import pack, unpack
from onward.errors import Undecodable
from onward.runtime import endings
from onward.runtime.body import Body
from onward.runtime.calls import CancelCall, StepCall, TimerCall
from onward.runtime.children import ChildCall, PatchCall, StartCall
from onward.runtime.divergence import place_of, told
from onward.runtime.effects import EffectCall
from onward.runtime.exits import Exits
from onward.runtime.journal import Journal, as_record
from onward.runtime.kin import Kin
from onward.runtime.ledger import Ledger
from onward.runtime.notes import Notes
from onward.runtime.runloop import Spinning
from onward.runtime.steps import Steps
from onward.runtime.telling import scope_of, tell_unread
from onward.runtime.waits import Mailbox, Waits, taken_signals
from onward.store.rows import Move
from onward.telemetry.failpoints import failpoint

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Iterable, Sequence

    from onward.core.instant import Instant
    from onward.core.replay import Record
    from onward.runtime.calls import Call
    from onward.runtime.definition import Program
    from onward.runtime.host import Host
    from onward.store.rows import Claimed, InboxRow, RecordRow


class End(StrEnum):
    """How a run left the hands of its worker."""

    PARKED = "parked"
    PAUSED = "paused"
    OVER = "over"
    LOST = "lost"


class Execution:
    """A run that this worker owns."""

    def __init__(
        self,
        claimed: Claimed,
        program: Program,
        host: Host,
        history: Sequence[RecordRow] = (),
        inbox: Sequence[InboxRow] = (),
        *,
        version: str | None = None,
    ) -> None:
        self.uid = claimed.uid
        self.fence = claimed.fence
        self.program = program
        self.claimed = claimed
        self._host = host
        policy = Policy.STRICT if program.strict else Policy.ADDITIVE
        # Notes are for others to see, and no part of what is replayed.
        records = [as_record(row) for row in history if row.kind != RecordKind.NOTE]
        self._replay = Replay(records, policy=policy)
        self._journal = Journal(
            claimed, history, self._replay, host.commit, self.drop, self.break_off, version
        )
        self._mail = Mailbox(claimed.inbox, inbox, {row.message for row in history})
        self.notes = Notes(history, claimed.attributes, self._write_note)
        self.scope = scope_of(claimed, host.id)
        self._body = Body(claimed, self._replay, self.notes, self.do, self._abandoned, self.scope)
        self._body.tell_progress = lambda value: host.progress(self, value)
        self._body.retry = program.retry
        self._body.unheard.update(taken_signals(history))
        self.waits = Waits()
        self._undone: list[StepCall | EffectCall] = []
        self._todo: list[Callable[[], None]] = []
        self._kin = Kin(self, self._journal, host, history)
        self.ledger = Ledger(self, self._journal, host)
        self._exits = Exits(self, self._journal, host, self._kin)
        self.move: Move | None = None
        """What becomes of the run as it leaves these hands; None: others say that."""
        self.steps = Steps(self, self._journal, host, history)
        self._alarm: asyncio.TimerHandle | None = None
        # Stopped: nothing more is asked of the body. Gone: it is unwound, and its worker knows.
        self.is_stopped = self._gone = self._pumping = False
        self._leaving = self._reported = self._is_stopping = False
        self._is_new = not history

    # --- life ------------------------------------------------------------------------------------

    def begin(self) -> None:
        """Start the body, unless somebody wants the run to stop before it ever began."""
        stop = self._stop_before_start() if self._is_new else None
        if stop is not None:
            self._end(stop.move)
            return
        try:
            args, kwargs = self.program.shape.decode(unpack(self.claimed.input))
        except Undecodable as misfit:
            self._body.place = place_of(self.program.fn)
            self._body.diverged = misfit
            self.pump()
            return
        self._body.start(self.program.fn(*args, **kwargs))
        self.pump()

    def _stop_before_start(self) -> endings.Stop | None:
        cancel = self._mail.take_cancel()
        if cancel is not None:
            return endings.read_stop(cancel)
        deadline = self.claimed.deadline
        is_over = deadline is not None and deadline <= self._host.now()
        return endings.TIME_IS_UP if is_over else None

    def resume(self, claimed: Claimed, inbox: Sequence[InboxRow] = ()) -> None:
        """Go on with a body that was kept warm while the run waited."""
        self.claimed, self.fence = claimed, claimed.fence
        self._journal.own_again(claimed)
        self._mail.add(inbox)
        self.is_stopped = False
        self.pump()

    @property
    def is_suspect(self) -> bool:
        """Say whether workers vanished with this run, and it has not got on since."""
        return suspect(self._journal.crashes)

    @property
    def is_idle(self) -> bool:
        """Say whether nothing is being worked on."""
        busy = self.steps.running or self._kin.asking or self.ledger.busy
        return not (self._journal.writing or busy)

    @property
    def _is_held(self) -> bool:
        """Say whether nothing new may be begun: an operator paused the run."""
        return self._mail.is_held()

    @property
    def seen(self) -> int:
        """The number of the last message that it knows of."""
        return self._mail.seen

    def receive(self, rows: Iterable[InboxRow], counted: int = 0) -> bool:
        """Take note of messages and of how many there have been in all; say if there is news."""
        seen = self._mail.seen
        self._mail.add(rows)
        self._mail.seen = max(self._mail.seen, counted)
        self.pump()
        return self._mail.seen > seen

    def evict(self) -> None:
        """Unwind the body without ending the run: nothing it does on the way is recorded."""
        if not self._body.is_evicted:
            self.is_stopped = True
            self._cancel_alarm()
            self._body.evict()

    # --- calls are done, or abandoned ------------------------------------------------------------

    def do(self, call: Call) -> None:
        """Do what a call asks for: run a step, start a run, or wait."""
        if isinstance(call, PatchCall):
            self._todo.append(partial(self._mark, call))
        elif call.is_abandoned():
            self._body.abandon(call)
        elif isinstance(call, StepCall) and call.due is None:
            self.steps.perform(call)
        elif isinstance(call, EffectCall):
            self._todo.append(partial(self.ledger.take, call))
        elif isinstance(call, StartCall):
            self._todo.append(partial(self._kin.start, call))
        elif isinstance(call, ChildCall) and not (call.is_begun and call.is_told):
            self._todo.append(partial(self._kin.start_child, call))
        else:
            self.waits.add(call)

    def _mark(self, call: PatchCall) -> None:
        self._journal.close(call, RecordState.SUCCEEDED, self.pump)

    def _write_todo(self) -> None:
        """Write what the body asked for while it ran, when nothing can be written."""
        todo, self._todo = self._todo, []
        if self._body.diverged is None:
            for write in todo:
                write()

    def _abandoned(self, call: Call) -> None:
        self.waits.discard(call)
        if isinstance(call, StepCall) and call.task is not None:
            call.task.cancel()
        elif isinstance(call, ChildCall):
            self._kin.abandon(call)

    def is_wanted(self, call: Call) -> bool:
        """Say whether the body still waits for this call."""
        return not self.is_stopped and self._body.calls.get(call.identity) is call

    def _write_note(self, identity: str, payload: bytes) -> None:
        row = self._journal.note_row(identity, payload)
        self._todo.append(partial(self._journal.note, row, self.pump))

    # --- the pump --------------------------------------------------------------------------------

    def pump(self) -> None:
        """Let the body run as far as it can, then see what is left to do."""
        if self.is_stopped or self._pumping:
            return
        self._pumping = True
        try:
            if not self._is_held:
                self._body.advance()
                self._write_todo()
            self._conclude()
        except Spinning as spinning:
            self._end(Move(RunState.FAILED, Reason.LOGIC, error=pack(encode_error(spinning))))
        except Exception as error:  # noqa: BLE001 - in a callback nobody else would hear of it
            self.break_off(error)
        finally:
            self._pumping = False

    def _conclude(self) -> None:
        if self._body.diverged is not None:
            self._pause(self._body.diverged)
        elif self._body.main.done() and not self._is_held:
            # What becomes of an effect on its way, or of a child, must be known first.
            if not (self.ledger.busy or self._kin.asking):
                self._finish()
        elif self._grace_is_over() and not self._kin.asking:
            self._end(endings.end_by_force(self._body))
        else:
            if self._replay.live:
                self._kin.dismiss()
            self._end_waits()
            self._take_up_undone()
            self._rest()

    def _report(self, left: Sequence[Record] = ()) -> None:
        """Tell, once a stay, that the run goes on though code and history are not the same."""
        if not self._reported:
            self._reported = tell_unread(self.scope, [*self._body.out_of_turn(), *left])

    def _end_waits(self) -> None:
        cancel = self._mail.take_cancel()
        if cancel is not None and not (self._body.cancelled or self._is_stopping):
            self._is_stopping = True  # the body hears of it when it is written
            wish = CancelCall(CANCEL_IDENTITY)
            kept = endings.keep_stop(endings.read_stop(cancel))
            state = RecordState.SUCCEEDED
            self._journal.close(wish, state, self.pump, payload=kept, message=cancel.seq)
        self.ledger.hear(self._mail.take_verdicts(), self._body.calls.values())
        if self.waits and not self._is_held:
            for call, letter in self.waits.come(self._mail, self._host.now()):
                self.waits.discard(call)
                self._come(call, letter)

    def _come(self, call: Call, letter: InboxRow | None) -> None:
        """Go on with a call whose message or time has come."""
        if isinstance(call, StepCall):
            self.steps.perform(call)
        elif isinstance(call, EffectCall):
            self.ledger.wake(call)
        elif isinstance(call, ChildCall) and letter is not None:
            self._kin.hear(call, letter)
        elif isinstance(call, ChildCall | StartCall):
            self._kin.look_again(call)
        elif letter is not None:
            state, payload, message = RecordState.SUCCEEDED, letter.payload, letter.seq
            self._body.unheard[call.identity] = message
            self._journal.close(call, state, self.pump, payload=payload, message=message)
        elif isinstance(call, TimerCall):
            self._journal.close(call, RecordState.SUCCEEDED, self.pump)
        else:
            self._journal.close(call, RecordState.TIMED_OUT, self.pump)

    def holds_back(self, call: StepCall | EffectCall) -> bool:
        """Keep a call for later if nothing new may be begun, and say whether that is so."""
        if self._leaving or self._is_held:
            self._undone.append(call)
            return True
        return False

    def misfit(self, call: EffectCall, args_hash: str) -> None:
        """Park the run: the ledger has other arguments for an effect than the code gives it."""
        self._body.refuse(call, args_hash)

    def _take_up_undone(self) -> None:
        if self._undone and not (self._leaving or self._is_held):
            undone, self._undone = self._undone, []
            for call in undone:
                if isinstance(call, EffectCall):
                    self.ledger.go_on(call)
                else:
                    self.do(call)

    def _rest(self) -> None:
        """Wait for what is being worked on or, if there is nothing, leave the worker's hands."""
        if not self.is_idle:
            self._set_alarm()
        elif self._leaving and self._undone:
            self.release()
        elif self._is_held:
            self._park(Move(RunState.PAUSED, Reason.OPERATOR, seen=self._mail.seen))
        else:
            # One that was told to stop has its grace; then it ends, whatever nobody knows.
            is_stopping = self._body.cancelled is not None
            reason = None if is_stopping else self.waits.waits_for_somebody()
            state = RunState.WAITING if reason is None else RunState.PAUSED
            due = None if reason is not None else self._next_due()
            self._park(Move(state, reason, due=due, seen=self._mail.seen))

    def _next_due(self) -> Instant | None:
        # While it is held no wait comes to its end, however long it is due.
        due = self.waits.next_due() if self.waits and not self._is_held else None
        if self._body.cancelled is None:
            return due
        grace = endings.grace_ends(self._body.cancelled)
        return grace if due is None else min(due, grace)

    def _grace_is_over(self) -> bool:
        cancelled = self._body.cancelled
        return cancelled is not None and endings.grace_ends(cancelled) <= self._host.now()

    def _set_alarm(self) -> None:
        """Look at the waits again when the next one is due."""
        self._cancel_alarm()
        due = self._next_due()
        if due is not None:
            seconds = max(0, due - self._host.now()) / 1_000_000
            self._alarm = self._host.loop.call_later(seconds, self.pump)

    def _cancel_alarm(self) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None

    # --- ways to leave ---------------------------------------------------------------------------

    def _park(self, move: Move) -> None:
        failpoint("park.before")
        self._report()
        self._cancel_alarm()
        self.is_stopped = True
        self.move = move
        opened = [call for call in self.waits if not call.is_kept and call.attempt == 1]
        self._journal.park(opened, move, lambda fate: self._parked(fate, opened, move))

    def _parked(self, fate: Fate, opened: list[Call], move: Move) -> None:
        if fate is Fate.BUSY:
            self.is_stopped = False
            self._host.look(self)  # something arrived in between: look, then decide
            return
        failpoint("park.after")
        for call in opened:
            call.is_kept = True
        if move.state == RunState.WAITING:
            self._host.ended(self, End.PARKED)
        else:
            self._leave(End.PAUSED)

    def _pause(self, misfit: Diverged | Undecodable) -> None:
        """Stop where code and history do not fit, until somebody brings other code."""
        cancel = self._mail.take_cancel()
        if cancel is not None:  # there is no code that could clean up
            self._end(endings.read_stop(cancel).move)
            return
        self._body.diverged = misfit
        why = pack(encode_error(told(misfit, self._body.place, self._body.unread)))
        code = self.program.code
        move = Move(RunState.PAUSED, Reason.DIVERGENCE, error=why, parked_by=code or None)
        self.move = move._replace(seen=self._mail.seen)
        self.is_stopped = True
        self._cancel_alarm()
        self._journal.park((), self.move, lambda fate: self._parked(fate, [], move))

    def _finish(self) -> None:
        ended = self._replay.end()
        if isinstance(ended, Diverged):
            self._body.place = place_of(self.program.fn)
            self._pause(ended)
            return
        self._report(ended.unread)
        self.notes.release()  # it may have come to its end on what history has
        self._write_todo()
        wish = endings.asks_to_continue(self._body.main)
        if self._journal.writing and (wish is not None or self.claimed.retry is not None):
            return  # another run follows what is written
        if wish is None or self._body.cancelled is not None:
            self._end(endings.end_of(self._body, self.program.shape))
            return
        stop = self._stop_unheard(ended)
        if stop is not None:
            self._end(stop.move)
        else:
            self._exits.go_on(wish, self._body)

    def _stop_unheard(self, ended: Ended) -> endings.Stop | None:
        """Return the wish that the run stops if it came too late for its body to hear."""
        if ended.unheard is not None:
            return endings.recalled(ended.unheard)
        cancel = self._mail.take_cancel()
        return None if cancel is None else endings.read_stop(cancel)

    @property
    def unheard(self) -> tuple[int, ...]:
        """The numbers of signals that are in history, but that the body was never handed."""
        return tuple(sorted(self._body.unheard.values()))

    def _end(self, move: Move) -> None:
        # One that was told to stop has stopped, even if its cleanup went wrong.
        may_retry = move.state == RunState.FAILED and not self._mail.is_stopping
        self._exits.end(move, self._body, may_retry=may_retry)

    def stop(self, move: Move) -> None:
        """Ask nothing more of the body; `move` is what becomes of the run."""
        self.is_stopped = True
        self._cancel_alarm()
        self.move = move

    def break_off(self, error: Exception) -> None:
        """End the run for an error of ours."""
        self._exits.break_off(error, self._body)

    def leave_over(self) -> None:
        """Leave a run that is over."""
        self._leave(End.OVER)

    def wind_down(self) -> None:
        """Begin no more steps; when those that run are over, give the run back if it needs more."""
        self._leaving = True

    def release(self) -> None:
        """Give the run back unfinished, for another worker to go on with."""
        if not self.is_stopped:
            failpoint("release.before")
            self.evict()
            self.move = Move(RunState.READY)
            self._journal.end(self.move, self._released)

    def _released(self) -> None:
        failpoint("release.after")
        self._leave(End.LOST)

    def drop(self) -> None:
        """Forget the run without a word: it is another's."""
        self.move = None
        self._leave(End.LOST)

    def _leave(self, end: End) -> None:
        if not self._gone:
            self._gone = True
            self.evict()
            self._host.ended(self, end)
