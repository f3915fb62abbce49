"""The body of a run: what it asks of its history, and how it is handed what history has.

The body runs on the run's own loop. Every durable call it makes is asked of the replay machine,
which says whether it is read, gone on with, or done. Outcomes are handed over one at a time, in
the order of history, and the body runs until it is quiet before the next. Nothing is written here.
"""

from __future__ import annotations

from contextvars import copy_context
from typing import TYPE_CHECKING, Any

from onward.core.replay import (
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
    Resume,
)
from onward.errors import BadInput, Undecodable
from onward.runtime.calls import Awaited, SignalCall, StepCall, TimerCall, are_immutable
from onward.runtime.context import body_now
from onward.runtime.runloop import RunLoop, branch_now
from onward.runtime.waits import Strays
from onward.telemetry.failpoints import failpoint

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Coroutine

    from onward.core.instant import Duration, Instant
    from onward.core.replay import Replay
    from onward.runtime.calls import Call, Decoder
    from onward.runtime.definition import StepDefinition
    from onward.runtime.runloop import Handle


class Evicted(BaseException):
    """The run leaves memory, but is not over: thrown into a body to unwind it."""


class Body:
    """The code of a run, in motion.

    Args:
        replay: What history says.
        since: The time that the body sees before anything is handed to it.
        do: Is told of every call that is to be done: a step to run, or a wait.
        abandoned: Is told of every call that the body has stopped waiting for.
    """

    main: asyncio.Task[Any]

    def __init__(
        self,
        replay: Replay,
        since: Instant,
        do: Callable[[Call], None],
        abandoned: Callable[[Call], None],
    ) -> None:
        self.calls: dict[str, Call] = {}
        """What the body waits for."""
        self.diverged: Diverged | Undecodable | None = None
        """Why code and history do not fit, if they do not: then nothing more is asked."""
        self.is_evicted = False
        self._replay = replay
        self._do = do
        self._abandoned = abandoned
        self._strays = Strays()
        self._loop = RunLoop(replay.branch, self._set_timer)
        self._loop.set_time(since)

    def start(self, code: Coroutine[Any, Any, Any]) -> None:
        """Put the code on the run's loop; it does not run before `advance`."""
        context = copy_context()
        context.run(body_now.set, self)
        self.main = self._loop.start(code, context)

    def evict(self) -> None:
        """Unwind the code without ending the run: nothing it does on the way is recorded."""
        self.is_evicted = True
        for call in list(self.calls.values()):
            if isinstance(call, StepCall) and call.task is not None:
                call.task.cancel()
            call.throw(Evicted())
        self._loop.unwind()

    # --- the code asks ---------------------------------------------------------------------------

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
            self.abandon(call)

    def _set_timer(self, delay: Duration, handle: Handle) -> Callable[[], None]:
        call = TimerCall(self._loop.now + delay, handle, self._loop.wake)
        self._ask(call, None)
        return lambda: self.abandon(call)

    def abandon(self, call: Call) -> None:
        """Wait for this no more; what is in history of it stays."""
        self.calls.pop(call.identity, None)
        self._abandoned(call)

    def _ask(self, call: Call, key: str | None, *, compare: bool = True) -> None:
        if self.is_evicted:
            raise Evicted
        if self.diverged is not None:
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
                self.diverged = diverged

    def _register(self, call: Call, identity: str) -> None:
        call.identity = identity
        self.calls[identity] = call

    def _join(self, call: Call, identity: str, record: Record | None) -> None:
        if record is not None:
            call.hand_over(record)
            return
        first = self.calls[identity]
        if isinstance(first, Awaited) and isinstance(call, Awaited):
            first.followers.append(call.future)

    # --- history is handed over ------------------------------------------------------------------

    def advance(self) -> None:
        """Let the code run as far as it can on what history has.

        Raises:
            Spinning: it did not come to rest.
        """
        self._loop.drain()
        while self.diverged is None and not self.main.done():
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
                    self.diverged = diverged
                case _:
                    return

    def _release(self, answer: Fresh | Resume) -> None:
        identity = answer.identity if isinstance(answer, Fresh) else answer.record.identity
        call = self.calls.get(identity)
        if call is not None:
            self._do(call)

    def _deliver(self, record: Record) -> None:
        failpoint("deliver.before")
        self._loop.set_time(record.payload.at)
        if record.kind is RecordKind.CANCEL:
            self._loop.cancel_all()
            return
        call = self.calls.pop(record.identity, None)
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
            self.diverged = misfit

    def _hand_on_stray(self) -> None:
        """Let the next wait have a signal whose own wait was given up before it was handed over."""
        found = self._strays.take(self.calls.values())
        if found is not None:
            self.abandon(found[0])
            self._hand_over(*found)
