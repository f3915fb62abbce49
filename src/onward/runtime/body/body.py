"""The body of a run: what it asks of its history, and how it is handed what history has.

The body runs on the run's own loop. Every durable call it makes is asked of the replay machine,
which says whether it is read, gone on with, or done. Outcomes are handed over one at a time, in
the order of history, and the body runs until it is quiet before the next. Nothing is written here.
"""

from __future__ import annotations

from contextvars import copy_context
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn

from onward.core.replay import (
    Ask,
    Clash,
    Deliver,
    Difference,
    Diverged,
    Fresh,
    Frontier,
    HeldBack,
    Joined,
    Passed,
    Read,
    Record,
    RecordKind,
    RecordState,
    Resume,
    Standing,
    Wait,
)
from onward.errors import BadInput
from onward.runtime.body.calls import Awaited, SignalCall, StepCall, TimedCall, TimerCall
from onward.runtime.body.children import PatchCall, still_elsewhere
from onward.runtime.body.clock import BodyClock
from onward.runtime.body.divergence import Place, hand_over, origin_of, place_now, place_of_wait
from onward.runtime.body.draws import Draws, beginning_of_body, start_of_body
from onward.runtime.body.effects import EffectCall
from onward.runtime.body.failure_origin import FailureOrigins
from onward.runtime.body.futures import salt_of
from onward.runtime.body.history_limit import HistoryLimit
from onward.runtime.body.runloop import Exited, RunLoop, Stuck, branch_now
from onward.runtime.body.waits import UnclaimedSignals
from onward.runtime.context import body_now
from onward.telemetry.failpoints import failpoint
from onward.telemetry.scope import scope_now

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Coroutine, Sequence

    from onward.core.instant import Duration, Instant
    from onward.core.replay import Replay
    from onward.core.retry import Retry
    from onward.errors import Undecodable
    from onward.model.runs import ClaimedRun
    from onward.runtime.body.call_sink import CallSink, ChoiceSink
    from onward.runtime.body.calls import Call
    from onward.runtime.body.handle import Handle
    from onward.runtime.body.notes import Notes
    from onward.telemetry.scope import RunScope


# Looked up once: see `core.replay.machine`.
_CANCEL, _CLOCK = RecordKind.CANCEL, RecordKind.CLOCK


class Evicted(BaseException):
    """The run leaves memory, but is not over: thrown into a body to unwind it."""


class Body:
    """The code of a run, in motion.

    Args:
        run: The run that it is the body of.
        replay: What history says.
        notes: What it has noted of itself.
        owner: Does what its code asks for.
        scope: Where what it logs comes from.
        retry: How often its steps are tried, where they say nothing themselves.
    """

    main: asyncio.Task[Any]

    def __init__(
        self,
        run: ClaimedRun,
        replay: Replay,
        notes: Notes,
        owner: CallSink,
        scope: RunScope,
        retry: Retry | None = None,
    ) -> None:
        self.run = run
        self.notes = notes
        self.retry = retry
        self.names = owner.names
        self.calls: dict[str, Call] = {}
        """What the body waits for."""
        self.diverged: Diverged | Undecodable | None = None
        """Why code and history do not fit, if they do not: then nothing more is asked."""
        self.diverged_call: Call | None = None
        """The call that does not fit, if the code made it."""
        self._progress: bytes | None = None
        self.place: Place | None = None
        """Where in the code that came up."""
        self.unread: list[Record] = []
        """What history has, and the code did not ask for in its turn."""
        self.cancelled: Record | None = None
        """The record of the cancel, once the body has received it."""
        self.undelivered: dict[str, int] = {}
        """The numbers of signals that it has not received yet, by the waits that have them."""
        self.choice: ChoiceSink | None = None
        """What takes its calls while `mutate` of a consumer chooses an effect."""
        self.is_evicted = self._is_begun = False
        self.failures = FailureOrigins()
        self._limit = HistoryLimit(scope)
        self._replay = replay
        self._owner = owner
        self.read_history = owner.read_history
        """Reads the history of another run, for steps."""
        self._scope = scope
        scope.silent = not replay.live
        self._unclaimed = UnclaimedSignals()
        begun = beginning_of_body(run)
        self._loop = RunLoop(replay.branch, self._set_timer, salt_of(begun.seeds[0][1]))
        self._loop.set_time(start_of_body(run, begun))
        self._draws = Draws(begun)
        self.clock = BodyClock(owner, is_replayed=run.fence > 1 or begun.started_at is not None)
        self._marks: list[PatchCall] = []
        self._moved: list[Record] = []
        self._held: dict[int, tuple[Ask, Place | None]] = {}
        if replay.live:
            notes.release()

    def start(self, code: Coroutine[Any, Any, Any]) -> None:
        """Put the code on the run's loop; it does not run before `advance`."""
        context = copy_context()
        context.run(body_now.set, self)
        context.run(scope_now.set, self._scope)
        self.main = self._loop.start(code, context)

    def evict(self) -> None:
        """Unwind the code without ending the run: nothing it does on the way is recorded."""
        self.is_evicted = self._scope.silent = True
        if not (self.calls or self._loop.tasks):
            return  # it has ended
        for call in list(self.calls.values()):
            if isinstance(call, StepCall | EffectCall) and call.running is not None:
                call.running.stop()
            call.throw(Evicted())
        if not self._is_begun:
            self._loop.cancel_all()  # or its code would begin now
        self._loop.unwind()

    def part(self) -> None:
        """Let go of what knows this body in turn, now that it is unwound."""
        self._loop.part(_no_timer)
        self.failures.forget()
        if hasattr(self, "main"):  # one that does not fit its arguments never began
            del self.main

    @property
    def has_open_branches(self) -> bool:
        """Say whether tasks or calls of the code are not over."""
        calls = [call for call in self.calls.values() if not call.only_listens]
        return bool(calls) or any(not task.done() for task in self._loop.tasks)

    def origins(self) -> list[str]:
        """Return the lines that began the branches which are not over, where they are known."""
        return [origin_of(task.get_coro()) for task in self._loop.tasks if not task.done()]

    @property
    def is_over(self) -> bool:
        """Whether the code has ended; cancelled code ends with the last of its tasks."""
        return self.main.done() and (self.cancelled is None or not self._loop.tasks)

    def check_wait(self) -> None:
        """Raise Stuck if nothing that the code waits for can come, nor a time to stop."""
        if not self.calls and self.cancelled is None and self.run.deadline is None:
            place = place_of_wait(self._loop.tasks)
            raise Stuck(
                f"no step, timer, signal or child can wake this run; it is waiting in "
                f"{place}. A workflow cannot wait for a lock, an event or a queue outside its run: "
                "wait for a signal, or do the work in a step with limit=."
            )

    # --- the code asks ---------------------------------------------------------------------------

    @property
    def now(self) -> Instant:
        """The time of the last thing that the code was handed."""
        return self._loop.now

    def draw(self, what: str) -> str:
        """Return a text that is new for each call, and the same in every replay."""
        return self._draws.draw(what, self._replay.read)

    def progress(self, value: bytes) -> None:
        """Let others see how far the run is; while history is read, they have seen it.

        But not of a retry or a fork that has just begun: those see it once history is read.
        """
        if self.is_evicted or self.diverged is not None:
            return
        if self._replay.live:
            self._owner.report_progress(value)
        elif self.run.fence == 1 and self.run.follows is not None:
            self._progress = value

    def patched(self, patch: str) -> bool:
        """Say whether the code behind a patch takes the new way."""
        if self.is_evicted:
            raise Evicted
        answer = self._replay.patched(patch)
        if answer.identity is not None and self._replay.live:
            self._owner.do(PatchCall(patch, answer.identity))
        elif answer.identity is not None:
            self._marks.append(PatchCall(patch, answer.identity))
        return answer.new

    @property
    def position(self) -> int:
        """The position up to which the code was handed what history has."""
        return self._replay.read

    def ask(self, call: Awaited, key: str | None = None) -> asyncio.Future[Any]:
        """Ask for the outcome of a call; with a key it is the same call wherever it is made."""
        if self.choice is not None:
            self.choice.take(call, key)
        future = call.future = self._loop.create_call_future()
        asked = self._ask(call, key)
        if not future.done():
            future.on_cancel = partial(self._cancelled, asked)
        if isinstance(call, SignalCall):
            self._hand_on_stray()
        return future

    def _cancelled(self, call: Call) -> None:
        if call.is_abandoned():
            self.abandon(call)

    def _set_timer(self, delay: Duration, handle: Handle) -> Callable[[], None]:
        call = TimerCall(self._loop.now, delay, handle, self._loop.wake)
        if self.choice is not None:
            self.choice.take(call, None)
        self._ask(call)
        return lambda: self.abandon(call)

    def abandon(self, call: Call) -> None:
        """Wait for this no more; what is in history of it stays."""
        if self.calls.get(call.identity) is call:  # one with a key may have been asked for again
            del self.calls[call.identity]
            self._replay.give_up(call.identity)
        self.failures.note_abandoned(call)
        self._owner.abandoned(call)

    def _ask(self, call: Call, key: str | None = None) -> Call:
        """Ask history what a call means, and return the call that is waited for."""
        if self.is_evicted:
            raise Evicted
        if self.diverged is not None:
            return call  # the run will be parked; nothing more is asked of its history
        self._limit.check(self._replay, len(self.calls))
        ask = Ask(branch_now.get(), call.kind, call.name, key, call.args_hash, call.compare)
        answer = self._replay.ask(ask)
        if isinstance(answer, Fresh):  # nearly always: a pattern takes longer to match than a type
            self._register(call, answer.identity, ask, begins=True)
            return call
        match answer:
            case Read(identity):
                self._register(call, identity, ask)
            case HeldBack(identity):
                self._register(call, identity, ask)
                self._held[id(ask)] = ask, place_now()
            case Resume(record):
                call = self._resume(call, ask, record)
            case Joined(identity, record):
                self._join(call, identity, record)
            case Clash(identity):
                raise BadInput(
                    f"the key of {call.name!r}",
                    f"is used twice with different arguments ({identity})",
                    "Give each call its own key",
                )
            case Diverged() as diverged:
                self.diverged = diverged
                self.diverged_call = call
                self.place = place_now()
        return call

    def refuse(self, call: Call, args_hash: str) -> None:
        """Take note that a call is made with other arguments than it was made with before."""
        ask = Ask("", call.kind, call.name, None, call.args_hash)
        was = Record(call.identity, 1, None, call.kind, call.name, RecordState.OPEN, args_hash)
        self.diverged = Diverged(Difference.ARGUMENTS, was, ask)

    def _resume(self, call: Call, ask: Ask, record: Record) -> Call:
        """Go on with a call that history has begun, and return it as history knows it."""
        call = still_elsewhere(call, record)
        self._register(call, record.identity, ask)
        call.take_up(record)
        if self._replay.live:
            self._owner.do(call)
        else:
            self._held[id(ask)] = ask, place_now()
        return call

    def _register(self, call: Call, identity: str, ask: Ask, *, begins: bool = False) -> None:
        call.identity = identity
        call.branch = ask.branch
        call.asked = self._replay.read
        self.calls[identity] = call
        if not begins:
            return
        if isinstance(call, TimedCall):
            self.clock.hold(call)
        else:
            self._owner.do(call)

    def _join(self, call: Call, identity: str, record: Record | None) -> None:
        if record is not None:
            call.identity = identity
            self.diverged = hand_over(call, record, self.run.id) or self.diverged
            self.failures.note_again(call)
            return
        first = self.calls[identity]
        if isinstance(first, Awaited) and isinstance(call, Awaited):
            first.followers += (call.future,)

    # --- history is handed over ------------------------------------------------------------------

    def advance(self) -> None:
        """Let the code run as far as it can on what history has.

        Raises:
            Spinning: it did not come to rest.
            Exited: a part of it exits, and the rest of it does not handle that.
        """
        self._is_begun = True
        while True:
            try:
                self._advance()
            except Exited:
                if not self.main.done():  # or its own end is what counts
                    raise
            else:
                return

    def _advance(self) -> None:
        loop, replay = self._loop, self._replay
        if loop.ready:
            loop.drain()
        while self.diverged is None and not (self.main.done() and self.is_over):
            turn = replay.next()
            if isinstance(turn, Deliver):
                self._deliver(turn.record)
                if loop.ready:
                    loop.drain()
            elif isinstance(turn, Wait):
                if self.clock.held or self.clock.is_replayed:
                    self.clock.begin_waits(loop.now, self.calls)
                return
            else:
                self._read_on(turn)

    def _read_on(self, turn: Passed | Frontier | Diverged) -> None:
        match turn:
            case Passed(record):
                self.unread.append(record)  # it may still be asked for later
            case Frontier(released):
                self._go_live(released)
            case Diverged() as diverged:
                self.diverged = diverged
                _, place = self._held.get(id(diverged.asked), (None, None))
                self.place = place or place_of_wait(self._loop.tasks)

    def _go_live(self, released: Sequence[Fresh | Resume]) -> None:
        """Do what had to wait until history was read: marks of changes come first."""
        self._scope.silent = False
        self._held.clear()
        if self._progress is not None:
            self._owner.report_progress(self._progress)
            self._progress = None
        self._moved = [record for record in self.unread if not self._is_passed(record)]
        for mark in self._marks:
            self._owner.do(mark)
        self._marks.clear()
        self.notes.release()
        for answer in released:
            self._release(answer)

    def _release(self, answer: Fresh | Resume) -> None:
        identity = answer.identity if isinstance(answer, Fresh) else answer.record.identity
        call = self.calls.get(identity)
        if isinstance(call, TimedCall):
            self.clock.hold(call, is_replayed=True)
        elif call is not None:
            self._owner.do(call)

    def _deliver(self, record: Record) -> None:
        failpoint("deliver.before")
        at, kind = record.payload.at, record.kind
        if at > self._loop.now:
            self._loop.now = at
        self.notes.come(record)
        if kind is _CANCEL:
            self.cancelled = record
            self.clock.begin_cleanup(at)
            self.failures.note_stopped(self.calls.values(), record.seq or 0)
            self._loop.cancel_all()
            return
        if kind is _CLOCK:
            self.diverged = self.clock.hear(record, self.calls.values(), self.run.id)
            return
        call = self.calls.pop(record.identity, None)
        if call is None or call.is_abandoned():
            self._unclaimed.add(record)
            self._hand_on_stray()
        else:
            self._hand_over(call, record)
            failpoint("deliver.after")

    def _hand_over(self, call: Call, record: Record) -> None:
        """Give the code an outcome, if that still fits it."""
        if self.undelivered:
            self.undelivered.pop(record.identity, None)
        misfit = hand_over(call, record, self.run.id)
        if misfit is not None:
            self.diverged = misfit
        elif self.diverged is None:
            self.failures.note(call, record)

    def out_of_turn(self) -> list[Record]:
        """Return what history has and the code asked for in another order, or not at all."""
        if not self._replay.live:
            return self.unread
        return [*self._moved, *filter(self._is_passed, self.unread)]

    def _is_passed(self, record: Record) -> bool:
        return self._replay.standing(record.identity) is Standing.PASSED

    def _hand_on_stray(self) -> None:
        """Let the next wait have a signal whose own wait was given up before it was handed over."""
        found = self._unclaimed.take(self.calls.values())
        if found is not None:
            self.abandon(found[0])
            self._hand_over(*found)


def _no_timer(_delay: Duration, _handle: Handle) -> NoReturn:
    raise Evicted
