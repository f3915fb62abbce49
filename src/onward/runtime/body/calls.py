"""The durable calls of a body: what each does when it is new, and what its outcome means.

A call knows how to begin (do it, or register that the run waits for it), how to go on after a
crash, and how to turn the record of its outcome into what the body is handed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from onward.codec import decode, decode_error
from onward.core.replay import Record, RecordKind, RecordState, put_off_after
from onward.engine.payloads import unpack
from onward.errors import RunCancelled, TimedOut, Undecodable
from onward.runtime.body.divergence import UnfitSignal

if TYPE_CHECKING:
    from collections.abc import Callable

    from onward.core.instant import Duration, Instant
    from onward.core.run import Reason
    from onward.runtime.body.futures import CallFuture
    from onward.runtime.body.handle import Handle
    from onward.runtime.definition import StepDefinition

    Decoder = Callable[[Any], Any]


# Looked up once: see `core.replay.machine`.
_SUCCEEDED = RecordState.SUCCEEDED


class Stoppable(Protocol):
    """An attempt that is under way."""

    def stop(self) -> None: ...


class Call:
    """One durable call of a body, from asking to outcome.

    No ABC: asking which kind one is would cost more than most of what is done with it. What most
    calls never change stands in the class, so that it is not set for each of them.
    """

    kind: RecordKind
    identity = ""
    attempt = 1
    asked = 0
    """The position up to which history was read when it was asked for."""
    branch = ""
    """The path of the task that asked for it."""
    due: Instant | None = None
    """When the run must look at it again, if nothing happens before."""
    delayed: Duration = 0
    """By how much it is due later because the database's clock was set forward."""
    is_kept = False
    """Whether an open record of it is in history."""
    compare = True
    """Whether a replay compares its arguments with those recorded."""
    shown_args: bytes | None = None
    """Its arguments as history shows them."""
    took: Duration = 0
    """How long its last attempt took, if nothing was written when that began."""
    lasts: Duration = 0
    """How long before `due` it began, by the time of the body; 0 if it counts from now."""
    operator_reason: Reason | None = None
    """Why its run pauses if it is all that is left: an operator must act first."""
    pause_error: bytes | None = None
    """The error for which it does."""

    def __init__(self, name: str, args_hash: str | None = None) -> None:
        self.name = name
        self.args_hash = args_hash

    @property
    def only_listens(self) -> bool:
        """Whether it is about a run that continues without its parent."""
        return False

    def take_up(self, record: Record) -> None:
        """Go on where a record left off: an open wait, or an attempt that failed."""
        self.attempt = record.attempt
        if record.state is RecordState.OPEN:
            self.is_kept = True
        else:
            self.attempt += 1
        if record.due is not None:
            self.due = record.due

    def hand_over(self, record: Record) -> None:
        """Give the body its outcome.

        Raises:
            Undecodable: the outcome does not fit the code any more.
        """
        raise NotImplementedError

    def is_abandoned(self) -> bool:
        """Say whether the body has stopped waiting for it."""
        raise NotImplementedError

    def throw(self, error: BaseException) -> None:
        """End the body's wait with an error that is not in history."""

    def clock_stepped(self, step: Duration) -> None:
        """Be due no earlier because the database's clock was set forward."""
        if self.due is not None:
            before, self.delayed = self.delayed, put_off_after(self.delayed, step)
            self.due += self.delayed - before


class Awaited(Call):
    """A call that the body awaits."""

    future: CallFuture
    """Set by the body as it is asked."""
    followers: tuple[CallFuture, ...] = ()
    """The futures of calls with the same key that wait for the same outcome."""

    def is_abandoned(self) -> bool:
        """Return whether the body has stopped waiting for it."""
        return self.future.done() and all(future.done() for future in self.followers)

    def hand_over(self, record: Record) -> None:
        """Give the body its outcome."""
        succeeded = record.state is _SUCCEEDED
        for future in (self.future, *self.followers):
            if not future.done():
                if succeeded:
                    future.set_result(self.value(record))
                else:
                    future.set_exception(self.raised(record))
                future.on_cancel = None

    def throw(self, error: BaseException) -> None:
        """End the body's wait with an error that is not in history."""
        for future in (self.future, *self.followers):
            if not future.done():
                future.set_exception(error)
                future.on_cancel = None

    def raised(self, record: Record) -> BaseException:
        """Return what an outcome that is no success is to the body."""
        if record.state is RecordState.TIMED_OUT:
            return TimedOut(f"the wait for {self.name!r}", "its timeout")
        return decode_error(unpack(record.payload.error))

    def value(self, record: Record) -> Any:
        """Return what a successful outcome is worth to the body."""
        raise NotImplementedError


class StepCall(Awaited):
    """A call of a step."""

    kind = RecordKind.STEP
    running: Stoppable | None = None
    expired: TimeoutError | None = None
    """The error of an attempt that took too long."""
    since: Instant | None = None
    """When the first attempt began, as far as that is known; only where a policy limits it."""

    def __init__(
        self,
        definition: StepDefinition,
        args_hash: str,
        arguments: tuple[tuple[Any, ...], dict[str, Any]],
        shown_args: bytes | None = None,
    ) -> None:
        self.shown_args = shown_args
        self.name = definition.name
        self.args_hash = args_hash
        self.definition = definition
        self.arguments = arguments
        self.compare = definition.compare

    def value(self, record: Record) -> Any:
        """Return the step's result, decoded against its annotation."""
        return self.definition.shape.decode_result(unpack(record.payload.payload))

    def raised(self, record: Record) -> BaseException:
        """Return what the step raised."""
        return step_error(self.name, record)


def step_error(name: str, record: Record) -> BaseException:
    """Return what a step raised, wherever it was done: older code may have sent it elsewhere."""
    match record.state:
        case RecordState.TIMED_OUT:
            return TimedOut(f"step {name!r}", "its time limit")
        case RecordState.CANCELLED:
            run, reason = whose(record)
            return RunCancelled(run, str(record.state), reason)
        case _:
            return decode_error(unpack(record.payload.error))


def whose(record: Record) -> tuple[str, str]:
    """Return which run had the bad end that a record tells of, and the reason of that end."""
    kept = decode(unpack(record.payload.payload))
    return kept["run"], kept["reason"]


class TimedCall(Call):
    """A call that waits for a time, or for something else until a time."""

    asked_at: Instant
    delay: Duration | None
    """How long it is, unless it ends at a certain time whenever it begins, or never."""
    is_timed = False
    """Whether a clock record says from when it counts."""

    @property
    def is_limit(self) -> bool:
        """Say whether it ends something else, and is no sleep."""
        return True

    def put_off(self, time: Duration, now: Instant | None = None) -> None:
        """Be due so much later, counted from now on; None: whenever that is by now."""
        assert self.due is not None
        self.due += time
        self.lasts = 0 if now is None else max(0, self.due - now)

    def clock_stepped(self, step: Duration) -> None:
        """Last as long as before; but what is in history does not end before its due time."""
        if self.delay is None:
            return
        if self.is_kept:
            super().clock_stepped(step)
        else:
            self.put_off(step)
            self.asked_at += min(0, step)  # so that a clock record does not set it back once more


class SignalCall(Awaited, TimedCall):
    """A wait for a signal, which may have a limit."""

    kind = RecordKind.SIGNAL

    def __init__(
        self,
        name: str,
        decoder: Decoder,
        asked_at: Instant,
        delay: Duration | None,
    ) -> None:
        super().__init__(name)
        self.due = None if delay is None else asked_at + delay
        self._decoder = decoder
        self.asked_at = asked_at
        self.delay = delay
        self.lasts = delay or 0

    def value(self, record: Record) -> Any:
        """Return what the signal carried."""
        try:
            return self._decoder(unpack(record.payload.payload))
        except Undecodable as misfit:
            about = (misfit.annotation, misfit.fact)
            raise UnfitSignal(*about, self.name, record.identity) from misfit


class TimerCall(TimedCall):
    """A timer that the body set: a sleep, or the end of a timeout."""

    kind = RecordKind.TIMER

    def __init__(
        self,
        asked_at: Instant,
        delay: Duration,
        handle: Handle,
        wake: Callable[[Handle], None],
    ) -> None:
        name = "sleep_until" if handle.is_absolute else "sleep"
        super().__init__(name)
        self.due = asked_at + delay
        self.asked_at = asked_at
        self.delay = None if handle.is_absolute else delay
        self.lasts = self.delay or 0
        self._handle = handle
        self._wake = wake

    @property
    def is_sleep(self) -> bool:
        """Say whether the body sleeps until then, and does not just set a limit."""
        return self._handle.is_sleep

    @property
    def is_limit(self) -> bool:
        """Say whether it ends something else, and is no sleep."""
        return not self._handle.is_sleep

    def is_abandoned(self) -> bool:
        """Say whether the timer was cancelled."""
        return self._handle.cancelled()

    def throw(self, error: BaseException) -> None:
        """End a sleep with an error that is not in history."""
        sleeper = self._handle.future()
        if sleeper is not None and not sleeper.done():
            sleeper.set_exception(error)

    def hand_over(self, record: Record) -> None:  # noqa: ARG002 - that it came is all it says
        """Let the timer go off."""
        self._wake(self._handle)


class CancelCall(Call):
    """A cancel of the run; history keeps when the body received it."""

    kind = RecordKind.CANCEL

    def __init__(self, identity: str) -> None:
        super().__init__("cancel")
        self.identity = identity

    def is_abandoned(self) -> bool:
        """Note that the body no longer awaits it."""
        return True

    def hand_over(self, record: Record) -> None:
        """Do nothing: the run cancels its tasks."""


_IMMUTABLE = frozenset({str, int, float, bool, bytes, type(None)})


def are_immutable(arguments: tuple[tuple[Any, ...], dict[str, Any]]) -> bool:
    """Return whether code that is given these arguments cannot change them."""
    args, kwargs = arguments
    types = map(type, (*args, *kwargs.values()) if kwargs else args)
    return _IMMUTABLE.issuperset(types)
