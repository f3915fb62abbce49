"""One run in the hands of a worker: what its body asked for is done, written, and waited for.

Everything here happens on the host's event loop, in callbacks. `pump` lets the body run as far as
it can. What is then unfinished is either being worked on (steps, commits) or is a durable wait; if
there is nothing of the first kind, the run parks.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

from onward.codec import encode_error
from onward.core.inbox import MessageKind
from onward.core.lease import Fate
from onward.core.replay import CANCEL_IDENTITY, Diverged, RecordState, Replay
from onward.core.run import Reason, RunState, suspect
from onward.engine.payloads import pack, unpack
from onward.engine.sending import stirring
from onward.errors import Undecodable
from onward.runtime.body import Body
from onward.runtime.calls import CancelCall, StepCall, TimerCall
from onward.runtime.journal import Journal, as_record, end_of
from onward.runtime.runloop import Spinning
from onward.runtime.waits import Mailbox, Waits
from onward.store.rows import Message, Move
from onward.telemetry.failpoints import failpoint

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Iterable, Sequence

    from onward.core.instant import Duration, Instant
    from onward.runtime.calls import Call
    from onward.runtime.definition import WorkflowDefinition
    from onward.runtime.host import Host
    from onward.store.rows import Claimed, InboxRow, RecordRow


class End(StrEnum):
    """How a run left the hands of its worker."""

    PARKED = "parked"
    OVER = "over"
    LOST = "lost"


class Execution:
    """A run that this worker owns."""

    def __init__(
        self,
        claimed: Claimed,
        workflow: WorkflowDefinition,
        host: Host,
        history: Sequence[RecordRow] = (),
        inbox: Sequence[InboxRow] = (),
        *,
        version: str | None = None,
    ) -> None:
        self.uid = claimed.uid
        self.fence = claimed.fence
        self.workflow = workflow
        self._claimed = claimed
        self._host = host
        self._replay = Replay(as_record(row) for row in history)
        self._journal = Journal(
            claimed, history, self._replay, host.commit, self.drop, self._break, version
        )
        self._mail = Mailbox(claimed.inbox, inbox, {row.message for row in history})
        since = claimed.started_at or claimed.created_at
        self._body = Body(self._replay, since, self._do, self._abandoned)
        self._waits = Waits()
        self._steps = 0
        self._alarm: asyncio.TimerHandle | None = None
        # Stopped: nothing more is asked of the body. Gone: it is unwound, and its worker knows.
        self._stopped = self._gone = self._pumping = False
        self._leaving = self._left_undone = self._broken = False

    # --- life ------------------------------------------------------------------------------------

    def begin(self) -> None:
        """Start the body."""
        try:
            args, kwargs = self.workflow.shape.decode(unpack(self._claimed.input))
        except Undecodable as misfit:
            self._pause(misfit)
            return
        self._body.start(self.workflow.fn(*args, **kwargs))
        self.pump()

    def resume(self, claimed: Claimed, inbox: Sequence[InboxRow] = ()) -> None:
        """Go on with a body that was kept warm while the run waited."""
        self._claimed, self.fence = claimed, claimed.fence
        self._journal.own_again(claimed)
        self._mail.add(inbox)
        self._stopped = False
        self.pump()

    @property
    def is_suspect(self) -> bool:
        """Say whether workers vanished with this run, and it has not got on since."""
        return suspect(self._journal.crashes)

    @property
    def is_idle(self) -> bool:
        """Say whether nothing is being worked on."""
        return not (self._journal.writing or self._steps)

    def receive(self, rows: Iterable[InboxRow], counted: int = 0) -> None:
        """Take note of messages, and of how many there have been in all."""
        self._mail.add(rows)
        self._mail.seen = max(self._mail.seen, counted)
        self.pump()

    def evict(self) -> None:
        """Unwind the body without ending the run: nothing it does on the way is recorded."""
        if not self._body.is_evicted:
            self._stopped = True
            self._cancel_alarm()
            self._body.evict()

    # --- calls are done, or abandoned ------------------------------------------------------------

    def _do(self, call: Call) -> None:
        """Do what a call asks for: run a step, or wait."""
        if call.is_abandoned():
            self._body.abandon(call)
        elif isinstance(call, StepCall) and call.due is None:
            self._perform(call)
        else:
            self._waits.add(call)

    def _perform(self, call: StepCall) -> None:
        if self._leaving:
            self._left_undone = True
            return
        call.due = None
        self._waits.discard(call)
        self._steps += 1
        call.task = self._host.perform(self, call)
        call.task.add_done_callback(lambda _: self._performed(call))

    def _performed(self, call: StepCall) -> None:
        call.task = None
        self._steps -= 1
        if not self._journal.writing:
            self.pump()

    def _abandoned(self, call: Call) -> None:
        self._waits.discard(call)
        if isinstance(call, StepCall) and call.task is not None:
            call.task.cancel()

    def _is_wanted(self, call: Call) -> bool:
        return not self._stopped and self._body.calls.get(call.identity) is call

    def close_step(
        self, call: StepCall, *, payload: bytes | None = None, error: bytes | None = None
    ) -> None:
        """Write the outcome of a step; the body is handed it once it is written."""
        if self._is_wanted(call):
            state = RecordState.SUCCEEDED if error is None else RecordState.FAILED
            self._journal.close(call, state, self.pump, payload=payload, error=error)

    def try_step_again(self, call: StepCall, error: bytes, after: Duration) -> None:
        """Write that an attempt failed, and make the next one after a while."""

        def wait(due: Instant) -> None:
            call.attempt += 1
            call.due = due
            call.expired = None
            self._do(call)
            self.pump()

        if self._is_wanted(call):
            self._journal.fail_attempt(call, error, after, wait)

    # --- the pump --------------------------------------------------------------------------------

    def pump(self) -> None:
        """Let the body run as far as it can, then see what is left to do."""
        if self._stopped or self._pumping:
            return
        self._pumping = True
        try:
            self._body.advance()
            self._conclude()
        except Spinning as spinning:
            self._end(Move(RunState.FAILED, Reason.LOGIC, error=pack(encode_error(spinning))))
        except Exception as error:  # noqa: BLE001 - in a callback nobody else would hear of it
            self._break(error)
        finally:
            self._pumping = False

    def _conclude(self) -> None:
        if self._body.diverged is not None:
            self._pause(self._body.diverged)
        elif self._body.main.done():
            self._finish()
        else:
            self._end_waits()
            if self.is_idle and self._left_undone:
                self.release()
            elif self.is_idle:
                self._park()
            else:
                self._set_alarm()

    def _end_waits(self) -> None:
        cancel = self._mail.take_cancel()
        if cancel is not None:
            wish = CancelCall(CANCEL_IDENTITY)
            self._journal.close(wish, RecordState.SUCCEEDED, self.pump, message=cancel.seq)
        if not self._waits:
            return
        for call, letter in self._waits.come(self._mail, self._host.now()):
            self._waits.discard(call)
            if isinstance(call, StepCall):
                self._perform(call)
            elif letter is not None:
                state, payload, message = RecordState.SUCCEEDED, letter.payload, letter.seq
                self._journal.close(call, state, self.pump, payload=payload, message=message)
            elif isinstance(call, TimerCall):
                self._journal.close(call, RecordState.SUCCEEDED, self.pump)
            else:
                self._journal.close(call, RecordState.TIMED_OUT, self.pump)

    def _set_alarm(self) -> None:
        """Look at the waits again when the next one is due."""
        self._cancel_alarm()
        due = self._waits.next_due() if self._waits else None
        if due is not None:
            seconds = max(0, due - self._host.now()) / 1_000_000
            self._alarm = self._host.loop.call_later(seconds, self.pump)

    def _cancel_alarm(self) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None

    # --- ways to leave ---------------------------------------------------------------------------

    def _park(self) -> None:
        failpoint("park.before")
        self._cancel_alarm()
        self._stopped = True
        opened = [call for call in self._waits if not call.is_kept and call.attempt == 1]
        self._journal.park(
            opened,
            self._waits.next_due(),
            self._mail.seen,
            lambda fate: self._parked(fate, opened),
        )

    def _parked(self, fate: Fate, opened: list[Call]) -> None:
        if fate is Fate.BUSY:
            self._stopped = False
            self._host.look(self)  # something arrived in between: look, then decide
            return
        failpoint("park.after")
        for call in opened:
            call.is_kept = True
        self._host.ended(self, End.PARKED)

    def _pause(self, misfit: Diverged | Undecodable) -> None:
        """Stop where code and history do not fit, until somebody brings other code."""
        why = pack(encode_error(RuntimeError(str(misfit))))
        self._end(Move(RunState.PAUSED, Reason.DIVERGENCE, error=why))

    def _finish(self) -> None:
        ended = self._replay.end()
        if isinstance(ended, Diverged):
            self._pause(ended)
        else:
            self._end(end_of(self._body.main, self.workflow.shape))

    def _end(self, move: Move) -> None:
        failpoint("finish.before")
        self._stopped = True
        self._cancel_alarm()
        parent = self._claimed.parent
        kind = MessageKind.CHILD
        messages: tuple[Message, ...] = ()
        if parent is not None and move.state != RunState.PAUSED:
            messages = (Message(parent, self.uid, kind, move.state, stirs=stirring(kind)),)
        self._journal.end(move, self._ended, messages)

    def _ended(self) -> None:
        failpoint("finish.after")
        self._leave(End.OVER)

    def _break(self, error: Exception) -> None:
        """End the run for an error of ours: it must neither hang nor be tried for ever."""
        if self._broken:
            self.drop()  # even that it is broken cannot be written
            return
        self._broken = True
        self._end(Move(RunState.FAILED, Reason.INTERNAL, error=pack(encode_error(error))))

    def wind_down(self) -> None:
        """Begin no more steps; when those that run are over, give the run back if it needs more."""
        self._leaving = True

    def release(self) -> None:
        """Give the run back unfinished, for another worker to go on with."""
        if not self._stopped:
            failpoint("release.before")
            self.evict()
            self._journal.end(Move(RunState.READY), self._released)

    def _released(self) -> None:
        failpoint("release.after")
        self.drop()

    def drop(self) -> None:
        """Forget the run without a word: it is another's, or it is given back."""
        self._leave(End.LOST)

    def _leave(self, end: End) -> None:
        if not self._gone:
            self._gone = True
            self.evict()
            self._host.ended(self, end)
