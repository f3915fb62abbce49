"""Workflows of every shape, each with the result that it must have whatever happens to it."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any, NamedTuple

import onward
from onward import Retry, Signal, step, workflow
from onward.runtime.context import step_now
from tests.e2e.engine.outside import note

if TYPE_CHECKING:
    from collections.abc import Callable

go = Signal("go", int)


@step
async def double(n: int) -> int:
    note()
    await asyncio.sleep(0.05)
    return n * 2


@step
def double_in_a_thread(n: int) -> int:
    note()
    time.sleep(0.05)
    return n * 2


@step(retry=Retry(attempts=3, delay="10ms", factor=1, max_delay="20ms"))
async def double_at_the_third_attempt(n: int) -> int:
    note()
    now = step_now.get()
    assert now is not None
    if now.number < 3:
        raise RuntimeError(f"attempt {now.number}")
    return n * 2


@workflow
async def sequence(n: int) -> int:
    for _ in range(5):
        n = await double(n)
    return n


@workflow
async def gathered(n: int) -> list[int]:
    return await asyncio.gather(*(double(n + i) for i in range(5)))


@workflow
async def grouped(n: int) -> list[int]:
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(branch(n + i)) for i in range(3)]
    return [task.result() for task in tasks]


@workflow
async def sleeping(n: int) -> int:
    for _ in range(3):
        n = await double(n)
        await onward.sleep("100ms")
    return n


@workflow
async def timed(n: int) -> int:
    try:
        async with asyncio.timeout(0.2):
            await onward.sleep("1h")
    except TimeoutError:
        n = await double(n)
    return await asyncio.wait_for(double(n), 3600)


@workflow
async def signalled(n: int) -> int:
    first = await double(n)
    return first + await go.wait()


@workflow
async def retried(n: int) -> int:
    return await double_at_the_third_attempt(await double(n))


@workflow
async def threaded(n: int) -> list[int]:
    return await asyncio.gather(*(double_in_a_thread(n + i) for i in range(3)))


@workflow
async def nested(n: int) -> list[Any]:
    inner = asyncio.gather(branch(n + 1), asyncio.gather(double(n + 2), branch(n + 3)))
    return list(await asyncio.gather(branch(n), inner))


@workflow
async def fourfold(n: int) -> int:
    return await double(await double(n))


@workflow
async def related(n: int) -> list[int]:
    """Have children, start a run, map a step and send one elsewhere."""
    started = await onward.start(fourfold, n)
    children = await asyncio.gather(fourfold(n + 1), fourfold(n + 2))
    mapped = await double.map([n, n + 1, n + 2], limit=2)
    sent = await double.options(queue="default")(n)
    return [*children, *mapped, sent, await started.result()]


async def branch(n: int) -> int:
    n = await double(n)
    await asyncio.sleep(0.1)
    return await double(n)


class Shape(NamedTuple):
    """A workflow of one argument, and what it must come to."""

    workflow: onward.Workflow[[int], Any]
    comes_to: Callable[[int], Any]


SIGNAL = 1000
SHAPES = (
    Shape(sequence, lambda n: n * 32),
    Shape(gathered, lambda n: [(n + i) * 2 for i in range(5)]),
    Shape(grouped, lambda n: [(n + i) * 4 for i in range(3)]),
    Shape(sleeping, lambda n: n * 8),
    Shape(timed, lambda n: n * 4),
    Shape(signalled, lambda n: n * 2 + SIGNAL),
    Shape(retried, lambda n: n * 4),
    Shape(threaded, lambda n: [(n + i) * 2 for i in range(3)]),
    Shape(related, lambda n: [4 * n + 4, 4 * n + 8, 2 * n, 2 * n + 2, 2 * n + 4, 2 * n, 4 * n]),
    Shape(nested, lambda n: [n * 4, [(n + 1) * 4, [(n + 2) * 2, (n + 3) * 4]]]),
)
