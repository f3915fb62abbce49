"""One run in the hands of a worker: its body, its history, and what it waits for.

Everything here happens on the host's event loop, in callbacks. The body runs inside `pump`, which
drains the run's own loop and hands over outcomes one at a time, in the order of history, until
nothing is left to hand over. What is then unfinished is either being worked on (steps, commits) or
is a durable wait; if there is nothing of the first kind, the run parks.
"""

from __future__ import annotations

from contextvars import copy_context
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from onward.codec import encode_error
from onward.core.inbox import MessageKind
from onward.core.lease import Fate
from onward.core.replay import (
    CANCEL_IDENTITY,
    Ask,
    Clash,
    Deliver,
    Diverged,
    Fresh,
    Frontier,
    Held,
    Joined,
    Passed,
    Read,
    Record,
    RecordKind,
    RecordState,
    Replay,
    Resume,
)
from onward.core.run import Reason, RunState, suspect
from onward.engine.payloads import pack, unpack
from onward.engine.sending import stirring
from onward.errors import BadInput, Undecodable
from onward.runtime.calls import (
    Awaited,
    CancelCall,
    SignalCall,
    StepCall,
    TimerCall,
    are_immutable,
)
from onward.runtime.context import execution_now
from onward.runtime.journal import Journal, as_record, end_of
from onward.runtime.runloop import RunLoop, Spinning, branch_now
from onward.runtime.waits import Mailbox, Strays, Waits
from onward.store.rows import Message, Move
from onward.telemetry.failpoints import failpoint

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Iterable, Sequence

    from onward.core.instant import Duration, Instant
    from onward.runtime.calls import Call, Decoder
    from onward.runtime.definition import StepDefinition, WorkflowDefinition
    from onward.runtime.host import Host
    from onward.runtime.runloop import Handle
    from onward.store.rows import Claimed, InboxRow, RecordRow


class Evicted(BaseException):
    """The run leaves memory, but is not over: thrown into a body to unwind it."""


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
        self._loop = RunLoop(self._replay.branch, self._set_timer)
        self._loop.set_time(claimed.started_at or claimed.created_at)
        self._calls: dict[str, Call] = {}
        self._waits = Waits()
        self._strays = Strays()
        self._steps = 0
        self._diverged: Diverged | Undecodable | None = None
        self._alarm: asyncio.TimerHandle | None = None
        # Stopped: nothing more is asked of the body. Evicted: it has been unwound. Gone: its worker
        # has been told.
        self._stopped = self._evicted = self._gone = self._pumping = False
        self._leaving = self._left_undone = self._broken = False

    # --- life ------------------------------------------------------------------------------------

    def begin(self) -> None:
        """Start the body."""
        context = copy_context()
        context.run(execution_now.set, self)
        try:
            args, kwargs = self.workflow.shape.decode(unpack(self._claimed.input))
        except Undecodable as misfit:
            self._diverged = misfit
            self._pause_diverged()
            return
        self._main = self._loop.start(self.workflow.fn(*args, **kwargs), context)
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
        if self._evicted:
            return
        self._evicted = self._stopped = True
        self._cancel_alarm()
        for call in list(self._calls.values()):
            if isinstance(call, StepCall) and call.task is not None:
                call.task.cancel()
            call.throw(Evicted())
        self._loop.unwind()

    # --- the body asks ---------------------------------------------------------------------------

    def step(
        self,
        definition: StepDefinition,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        key: str | None,
    ) -> asyncio.Future[Any]:
        """Ask for the result of a step."""
        bound = definition.shape.bind(args, kwargs)
        arguments = args, kwargs
        if not are_immutable(arguments):
            # The step must not be able to change what the body holds: on replay it would not.
            arguments = definition.shape.decode(bound.payload())
        future = self._loop.create_future()
        call = StepCall(definition, future, bound.fingerprint(), arguments)
        return self._await(call, key, compare=definition.compare)

    def signal(self, name: str, decoder: Decoder, timeout: Duration | None) -> asyncio.Future[Any]:
        """Ask for a signal."""
        due = None if timeout is None else self._loop.now + timeout
        future = self._await(SignalCall(name, self._loop.create_future(), decoder, due), None)
        self._hand_on_stray()
        return future

    def _await(
        self, call: Awaited, key: str | None, *, compare: bool = True
    ) -> asyncio.Future[Any]:
        self._ask(call, key, compare=compare)
        call.future.add_done_callback(lambda _: self._settled(call))
        return call.future

    def _settled(self, call: Awaited) -> None:
        if call.future.cancelled() and call.is_abandoned():
            self._abandon(call)

    def _set_timer(self, delay: Duration, handle: Handle) -> Callable[[], None]:
        call = TimerCall(self._loop.now + delay, handle, self._loop.wake)
        self._ask(call, None)
        return lambda: self._abandon(call)

    def _ask(self, call: Call, key: str | None, *, compare: bool = True) -> None:
        if self._evicted:
            raise Evicted
        if self._diverged is not None:
            return  # the run will be parked; nothing more is asked of its history
        ask = Ask(branch_now.get(), call.kind, call.name, key, call.args_hash, compare)
        match self._replay.ask(ask):
            case Fresh(identity):
                self._register(call, identity)
                self._do(call)
            case Read(identity) | Held(identity):
                self._register(call, identity)
            case Resume(record):
                self._register(call, record.identity)
                call.take_up(record)
                if self._replay.live:
                    self._do(call)
            case Joined(identity, record):
                self._join(call, identity, record)
            case Clash(identity):
                raise BadInput(
                    f"the key of {call.name!r}",
                    f"is used twice with different arguments ({identity})",
                    "Give each call a key of its own",
                )
            case Diverged() as diverged:
                self._diverged = diverged

    def _register(self, call: Call, identity: str) -> None:
        call.identity = identity
        self._calls[identity] = call

    def _join(self, call: Call, identity: str, record: Record | None) -> None:
        if record is not None:
            call.hand_over(record)
            return
        first = self._calls[identity]
        if isinstance(first, Awaited) and isinstance(call, Awaited):
            first.followers.append(call.future)

    # --- calls are done, or abandoned ------------------------------------------------------------

    def _do(self, call: Call) -> None:
        """Do what a call asks for: run a step, or wait."""
        if call.is_abandoned():
            self._abandon(call)
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

    def _abandon(self, call: Call) -> None:
        """The body does not wait for this any more; what is in history of it stays."""
        self._calls.pop(call.identity, None)
        self._waits.discard(call)
        if isinstance(call, StepCall) and call.task is not None:
            call.task.cancel()

    def _is_wanted(self, call: Call) -> bool:
        return not self._stopped and self._calls.get(call.identity) is call

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
            self._advance()
            self._conclude()
        except Spinning as spinning:
            self._end(Move(RunState.FAILED, Reason.LOGIC, error=pack(encode_error(spinning))))
        except Exception as error:  # noqa: BLE001 - in a callback nobody else would hear of it
            self._break(error)
        finally:
            self._pumping = False

    def _advance(self) -> None:
        self._loop.drain()
        while self._diverged is None and not self._main.done():
            match self._replay.next():
                case Deliver(record):
                    self._deliver(record)
                    self._loop.drain()
                case Passed():
                    pass  # code has dropped a step or a timer; it may still ask for it later
                case Frontier(released):
                    for answer in released:
                        self._release(answer)
                case Diverged() as diverged:
                    self._diverged = diverged
                case _:
                    return

    def _release(self, answer: Fresh | Resume) -> None:
        identity = answer.identity if isinstance(answer, Fresh) else answer.record.identity
        call = self._calls.get(identity)
        if call is not None:
            self._do(call)

    def _deliver(self, record: Record) -> None:
        failpoint("deliver.before")
        self._loop.set_time(record.payload.at)
        if record.kind is RecordKind.CANCEL:
            self._loop.cancel_all()
            return
        call = self._calls.pop(record.identity, None)
        if call is None or call.is_abandoned():
            self._strays.add(record)
            self._hand_on_stray()
        else:
            self._hand_over(call, record)
            failpoint("deliver.after")

    def _hand_over(self, call: Call, record: Record) -> None:
        try:
            call.hand_over(record)
        except Undecodable as misfit:
            self._diverged = misfit

    def _hand_on_stray(self) -> None:
        """Let the next wait have a signal whose own wait was given up before it was handed over."""
        found = self._strays.take(self._calls.values())
        if found is not None:
            self._abandon(found[0])
            self._hand_over(*found)

    def _conclude(self) -> None:
        if self._diverged is not None:
            self._pause_diverged()
        elif self._main.done():
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

    def _pause_diverged(self) -> None:
        why = RuntimeError(str(self._diverged))
        self._end(Move(RunState.PAUSED, Reason.DIVERGENCE, error=pack(encode_error(why))))

    def _finish(self) -> None:
        ended = self._replay.end()
        if isinstance(ended, Diverged):
            self._diverged = ended
            self._pause_diverged()
        else:
            self._end(end_of(self._main, self.workflow.shape))

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
