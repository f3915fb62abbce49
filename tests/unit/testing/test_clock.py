"""Virtual time: the clock and the loop."""

from __future__ import annotations

import asyncio
import socket
import threading
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onward.core.instant import DAY, HOUR, SECOND
from onward.testing.clock import EPOCH, Deadlock, VirtualClock, VirtualLoop

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from onward.core.ports import Clock

T = TypeVar("T")


def run(main: Coroutine[Any, Any, T], clock: VirtualClock | None = None) -> T:
    with asyncio.Runner(loop_factory=lambda: VirtualLoop(clock or VirtualClock())) as runner:
        return runner.run(main)


@pytest.mark.parametrize("years", [0, 1, 30])
def test_a_timer_goes_off_however_late_it_is(years: int) -> None:
    clock = VirtualClock()
    clock.advance(years * 365 * DAY)

    async def main() -> list[int]:
        loop, fired = asyncio.get_running_loop(), list[int]()
        begun = clock.monotonic()
        for delay in (0.1, 0.0, 1e-6, 0.3e-6, 1 / 3, 86399.9999995):
            loop.call_at(loop.time() + delay, lambda: fired.append(clock.monotonic() - begun))
        await asyncio.sleep(86400 * 40)
        return fired

    late = zip(run(main(), clock), [0, 0, 1, 100_000, 333_333, 86_400_000_000], strict=True)
    assert all(0 <= fired - due <= 2 for fired, due in late)


# --- the clock ------------------------------------------------------------------------------------


def test_a_virtual_clock_is_a_clock_and_stands_still() -> None:
    clock: Clock = VirtualClock()

    assert [clock.wall(), clock.monotonic()] == [clock.wall(), clock.monotonic()] == [EPOCH, 0]


def test_advance_moves_both_clocks() -> None:
    clock = VirtualClock(wall=5)

    clock.advance(HOUR)

    assert (clock.wall(), clock.monotonic()) == (5 + HOUR, HOUR)


def test_set_back_moves_the_wall_clock_alone() -> None:
    clock = VirtualClock()

    clock.set_back(HOUR)

    assert (clock.wall(), clock.monotonic()) == (EPOCH - HOUR, 0)


def test_jump_moves_the_wall_clock_alone() -> None:
    clock = VirtualClock()

    clock.jump(HOUR)

    assert (clock.wall(), clock.monotonic()) == (EPOCH + HOUR, 0)


@pytest.mark.parametrize("move", ["advance", "set_back", "jump"])
def test_a_negative_duration_moves_nothing(move: str) -> None:
    clock = VirtualClock()

    with pytest.raises(ValueError, match="negative"):
        getattr(clock, move)(-1)

    assert (clock.wall(), clock.monotonic()) == (EPOCH, 0)


# --- the loop -------------------------------------------------------------------------------------


def test_a_month_of_sleep_passes_at_once_and_exactly() -> None:
    clock = VirtualClock()

    run(asyncio.sleep(30 * 24 * 3600), clock)

    assert (clock.wall(), clock.monotonic()) == (EPOCH + 30 * DAY, 30 * DAY)


@given(st.integers(0, 10 * DAY), st.lists(st.integers(1, 3 * DAY), min_size=1, max_size=5))
def test_no_timer_fires_early_nor_more_than_a_few_microseconds_late(
    age: int, naps: list[int]
) -> None:
    clock = VirtualClock()
    clock.advance(age)

    async def nap(duration: int) -> int:
        before = clock.monotonic()
        await asyncio.sleep(duration / SECOND)
        return clock.monotonic() - before - duration

    async def all_naps() -> list[int]:
        return await asyncio.gather(*map(nap, naps))

    assert all(0 <= late <= 2 for late in run(all_naps(), clock))


def test_timers_fire_in_the_order_of_their_time() -> None:
    order: list[int] = []

    async def nap(seconds: int) -> None:
        await asyncio.sleep(seconds)
        order.append(seconds)

    async def naps() -> None:
        await asyncio.gather(*(nap(s) for s in (50, 10, 40, 20, 30)))

    run(naps())

    assert order == [10, 20, 30, 40, 50]


def test_what_is_ready_goes_before_the_clock_moves() -> None:
    clock = VirtualClock()

    async def busy() -> int:
        timer = asyncio.create_task(asyncio.sleep(1))
        for _ in range(1000):
            await asyncio.sleep(0)
        seen = clock.monotonic()
        await timer
        return seen

    assert run(busy(), clock) == 0


def test_a_timeout_ends_a_wait_at_its_virtual_time() -> None:
    clock = VirtualClock()

    async def wait() -> None:
        async with asyncio.timeout(3600):
            await asyncio.Event().wait()

    with pytest.raises(TimeoutError):
        run(wait(), clock)

    assert clock.monotonic() == HOUR


def test_moving_the_wall_clock_moves_no_timer() -> None:
    clock = VirtualClock()

    async def tamper() -> None:
        timer = asyncio.create_task(asyncio.sleep(3600))
        await asyncio.sleep(60)
        clock.set_back(DAY)
        clock.jump(3 * DAY)
        await timer

    run(tamper(), clock)

    assert clock.monotonic() == HOUR


def test_a_deadlock_names_every_task_and_the_line_it_waits_at() -> None:
    async def stuck() -> None:
        await asyncio.get_running_loop().create_future()

    async def both() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(stuck(), name="reader")
            group.create_task(stuck(), name="writer")

    with pytest.raises(Deadlock) as caught:
        run(both())

    line = f"{__file__}:{stuck.__code__.co_firstlineno + 1}"
    assert f"reader at {line}; writer at {line}" in str(caught.value)


def test_no_time_passes_while_a_thread_works() -> None:
    clock = VirtualClock()

    async def both() -> int:
        thread, _ = await asyncio.gather(asyncio.to_thread(threading.get_ident), asyncio.sleep(1))
        return thread

    assert run(both(), clock) != threading.get_ident()
    assert clock.monotonic() == SECOND


def test_an_error_in_a_thread_is_raised() -> None:
    with pytest.raises(ZeroDivisionError):
        run(asyncio.to_thread(divmod, 1, 0))


def test_a_thread_may_run_an_event_loop_of_its_own() -> None:
    async def answer() -> int:
        return 42

    assert run(asyncio.to_thread(lambda: asyncio.run(answer()))) == 42


def test_a_sleep_of_the_clock_takes_a_duration() -> None:
    clock = VirtualClock()
    before = clock.now()
    run(clock.sleep("2d"), clock)
    assert clock.now() - before == timedelta(days=2)


def test_a_socket_is_refused() -> None:
    async def read() -> None:
        with socket.socket() as one:
            asyncio.get_running_loop().add_reader(one, print)

    with pytest.raises(RuntimeError, match="no sockets in virtual time"):
        run(read())
