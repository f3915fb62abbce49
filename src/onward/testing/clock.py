"""Time that a test moves: a clock, and an event loop that jumps from timer to timer.

    clock = VirtualClock()
    with asyncio.Runner(loop_factory=lambda: VirtualLoop(clock)) as runner:
        runner.run(asyncio.sleep(30 * 24 * 3600))  # returns at once; the clock is a month older

Everything on such a loop happens in one thread and in an order that depends on nothing outside.
An `App(":memory:", clock=clock, spawn=None)` lives there: runs that sleep for months end at once.
"""

from __future__ import annotations

import asyncio
import math
import selectors
from concurrent.futures import Future
from datetime import UTC, datetime
from types import CoroutineType
from typing import TYPE_CHECKING, Any, TypeVar, TypeVarTuple, cast

from onward.core.instant import SECOND, duration
from onward.system.clock import spawn_thread

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Executor
    from contextvars import Context

    from _typeshed import FileDescriptorLike

    from onward.core.instant import Duration, DurationLike, Instant

_T = TypeVar("_T")
_Arguments = TypeVarTuple("_Arguments")

EPOCH: Instant = 1_767_225_600 * SECOND
"""Where a virtual clock starts unless told otherwise: the first moment of 2026."""


class VirtualClock:
    """A clock that advances only when a test or its event loop moves it.

    The wall clock and the monotonic clock start far apart, so that tests detect code that confuses
    the two. `jump` and `set_back` move only the wall clock.
    """

    def __init__(self, wall: Instant = EPOCH) -> None:
        self._wall = wall
        self._monotonic = 0

    def wall(self) -> Instant:
        """Return the current instant, in microseconds UTC."""
        return self._wall

    def now(self) -> datetime:
        """Return the current time, in UTC."""
        return datetime.fromtimestamp(self._wall / SECOND, UTC)

    async def sleep(self, length: DurationLike) -> None:
        """Let virtual time pass in a test. Timers that become due fire without any real delay.

        Args:
            length: How much time passes, such as "2d" or 0.5.
        """
        await asyncio.sleep(duration(length) / SECOND)

    def monotonic(self) -> int:
        """Return the microseconds that have passed since the clock was created."""
        return self._monotonic

    def advance(self, duration: Duration) -> None:
        """Let time pass on both clocks."""
        _check_forward(duration)
        self._wall += duration
        self._monotonic += duration

    def jump(self, duration: Duration) -> None:
        """Set the wall clock forward, as an administrator would; no time passes."""
        _check_forward(duration)
        self._wall += duration

    def set_back(self, duration: Duration) -> None:
        """Set the wall clock back, as an administrator would; no time passes."""
        _check_forward(duration)
        self._wall -= duration


def _check_forward(duration: Duration) -> None:
    if duration < 0:
        raise ValueError(f"duration {duration} is negative; set_back moves the wall clock back")


# --- the event loop -------------------------------------------------------------------------------


class Deadlock(Exception):
    """No callback is ready and no timer is set, but tasks are still waiting."""


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop on virtual time: when nothing is ready, the clock jumps to the next timer.

    The loop does no I/O: sockets raise an error, because virtual time cannot wait for them. A call
    in a thread blocks the loop, so no virtual time passes until the call has ended. If a wait can
    never end, `Deadlock` is raised with the names of the waiting tasks.
    """

    def __init__(self, clock: VirtualClock) -> None:
        self._clock = clock
        self._selector_of_time = _TimeSelector(self)
        super().__init__(self._selector_of_time)
        # asyncio runs timers that are due within this. Its own is lost in a float after some
        # months, and a timer for this very moment would never go off.
        self._clock_resolution = 0.5 / SECOND
        self._selector_of_time.closed_to_newcomers = True

    def time(self) -> float:
        """Return the clock's monotonic time in seconds."""
        return self._clock.monotonic() / SECOND

    def call_at(
        self,
        when: float,
        callback: Callable[[*_Arguments], object],
        *args: *_Arguments,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        """Set a timer, for a whole microsecond.

        Time here stands still between microseconds. A timer for a fraction of one, which is what
        float arithmetic leaves over, would never fire.
        """
        whole = math.ceil(when * SECOND) / SECOND
        if whole <= self.time() < when:
            whole = (self._clock.monotonic() + 1) / SECOND
        return super().call_at(whole, callback, *args, context=context)

    def run_in_executor(
        self, _executor: Executor | None, func: Callable[[*_Arguments], _T], *args: *_Arguments
    ) -> asyncio.Future[_T]:
        """Call `func` in a thread, and wait here until it has ended."""
        answer: Future[_T] = Future()

        def work() -> None:
            try:
                answer.set_result(func(*args))
            except BaseException as error:  # noqa: BLE001 - whatever it raises is its outcome
                answer.set_exception(error)

        spawn_thread(work, name="onward-virtual-thread").join()
        return asyncio.wrap_future(answer, loop=self)

    def pass_time(self, seconds: float) -> None:
        """Let the clock go on, rounded up: a timer may fire late by a microsecond, never early."""
        self._clock.advance(max(1, math.ceil(seconds * SECOND)))


class _TimeSelector(selectors.SelectSelector):
    """Where a loop waits for the outside: here the clock moves instead."""

    def __init__(self, loop: VirtualLoop) -> None:
        super().__init__()
        self._loop = loop
        self.closed_to_newcomers = False

    def register(
        self, fileobj: FileDescriptorLike, events: int, data: Any = None
    ) -> selectors.SelectorKey:
        if self.closed_to_newcomers:
            raise RuntimeError("there are no sockets in virtual time")
        return super().register(fileobj, events, data)

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            waiting = sorted(map(_describe, asyncio.all_tasks(self._loop)))
            raise Deadlock(
                f"no task can ever continue; waiting: {'; '.join(waiting)}. If a test waits for "
                "a run, pass timeout= to its result(): the error says what the run is waiting for."
            )
        if timeout > 0:
            self._loop.pass_time(timeout)
        return []


def _describe(task: asyncio.Task[Any]) -> str:
    """Name a task and the innermost line it waits at."""
    where, coroutine = "?", cast("object", task.get_coro())
    while isinstance(coroutine, CoroutineType) and coroutine.cr_frame is not None:
        where = f"{coroutine.cr_code.co_filename}:{coroutine.cr_frame.f_lineno}"
        coroutine = coroutine.cr_await
    return f"{task.get_name()} at {where}"
