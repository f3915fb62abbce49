"""Which process runs is drawn, what it runs next is not; the dead and the stopped wait."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from onward.testing.clock import VirtualClock
from tests.simulation.simulator.draw import Draw
from tests.simulation.simulator.process import MAX_SPIN, Process, SeededLoop

if TYPE_CHECKING:
    from collections.abc import Coroutine
    from typing import Any


def run(seed: int, work: Coroutine[Any, Any, None]) -> SeededLoop:
    loop = SeededLoop(VirtualClock(), Draw(seed, "turns"))
    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        runner.run(work)
        loop.turns.is_over = True
    return loop


def order(seed: int) -> list[tuple[str, int]]:
    """Return in which order three processes with ten callbacks each have their turns."""
    seen: list[tuple[str, int]] = []

    async def play() -> None:
        for name in "abc":
            process = Process(name)
            for number in range(10):
                asyncio.get_running_loop().call_soon(
                    seen.append, (name, number), context=process.context.copy()
                )
        await asyncio.sleep(1)

    run(seed, play())
    return seen


def test_a_seed_decides_the_order_between_processes() -> None:
    assert order(1) == order(1)
    assert len({tuple(order(seed)) for seed in range(10)}) == 10


def test_the_callbacks_of_one_process_keep_their_order() -> None:
    for seed in range(10):
        seen = order(seed)
        for name in "abc":
            assert [number for who, number in seen if who == name] == list(range(10))


async def _count(into: list[int]) -> None:
    for number in range(20):
        into.append(number)
        await asyncio.sleep(1)


def test_a_dead_process_has_no_turn_any_more() -> None:
    counted: list[int] = []

    async def play() -> None:
        process = Process("mortal")
        loop = asyncio.get_running_loop()
        loop.call_later(4.5, process.die)
        task = loop.create_task(_count(counted), context=process.context.copy())
        await asyncio.sleep(100)
        assert counted == [0, 1, 2, 3, 4]
        assert not task.done()

    run(0, play())


def test_a_stopped_process_goes_on_where_it_was() -> None:
    counted: list[int] = []

    async def play() -> None:
        process = Process("sleeper")
        loop = asyncio.get_running_loop()
        loop.call_later(4.5, process.stop)
        loop.call_later(50, process.go_on)
        task = loop.create_task(_count(counted), context=process.context.copy())
        await asyncio.sleep(49)
        assert counted == [0, 1, 2, 3, 4]
        await task
        assert loop.time() >= 64

    run(0, play())


def test_what_befalls_a_process_befalls_it_before_that_turn() -> None:
    counted: list[int] = []

    async def play() -> None:
        process = Process("fated")
        process.at_turn[3] = process.die
        for number in range(5):
            asyncio.get_running_loop().call_soon(
                counted.append, number, context=process.context.copy()
            )
        await asyncio.sleep(1)
        assert counted == [0, 1]

    run(0, play())


def test_a_wait_for_less_than_a_microsecond_lets_time_pass() -> None:
    async def others() -> None:
        for _ in range(100):
            await asyncio.sleep(0)

    async def play() -> None:
        busy = asyncio.create_task(others())
        begin = asyncio.get_running_loop().time()
        await asyncio.sleep(1e-15)
        assert asyncio.get_running_loop().time() > begin
        await busy

    run(0, play())


def test_a_process_that_spins_is_reported() -> None:
    told: list[str] = []

    async def spin() -> None:
        for _ in range(MAX_SPIN):
            await asyncio.sleep(0)

    async def play() -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, SeededLoop)
        loop.turns.on_spin = told.append
        await loop.task_of(Process("top"), spin(), name="top")

    run(0, play())
    assert "<process top> spins" in told[0]


def test_a_function_in_a_thread_is_called_later_in_virtual_time() -> None:
    async def play() -> None:
        loop = asyncio.get_running_loop()
        assert await loop.run_in_executor(None, divmod, 7, 2) == (3, 1)
        assert loop.time() > 0

    run(0, play())
