"""Workflows that give steps all that a replay must repeat: time, ids, random numbers, sets.

If a body is handed something else in a replay than it was handed live, its run parks as divergent,
though its code has not changed.
"""

from __future__ import annotations

import asyncio
import random
from concurrent.futures import ProcessPoolExecutor

import onward
from onward import Retry, step, workflow

BRANCHES = 4
ROUNDS = 5


def sample() -> str:
    """Return what a body can be handed beside results."""
    loop = asyncio.get_running_loop()
    return f"{onward.now().isoformat()} {onward.uuid()} {onward.random().random()} {loop.time()}"


@step
async def echo(seen: str) -> str:
    return seen


@workflow
async def leaf(seen: str) -> str:
    return await echo(f"{seen} {sample()}")


async def _twice(what: str) -> str:
    await echo(f"{what} {sample()}")
    return await echo(sample())


async def _shapes(number: int) -> None:
    """Take samples in the shapes in which branches can be waited for."""
    await asyncio.gather(*(_twice(str(n)) for n in range(BRANCHES)))
    tasks = [asyncio.create_task(_twice(str(n)), name=str(n)) for n in range(BRANCHES)]
    pending = set(tasks)
    while pending:
        done, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
        await echo(f"{[t.get_name() for t in done]} {[t.get_name() for t in pending]} {sample()}")
    async for ended in onward.as_completed(_twice(str(n)) for n in range(BRANCHES)):
        await echo(f"{await ended} {sample()}")
    try:
        async with asyncio.timeout(0.01):
            await onward.sleep("1h")
    except TimeoutError:
        await echo(f"{number} {sample()}")


@workflow
async def sampled(number: int) -> str:
    """Take samples; with a sleep in between, so that the body is evicted and replayed."""
    for _ in range(ROUNDS):
        await _shapes(number)
        await onward.sleep(0.01)
    return "sampled"


@workflow
async def sampled_again(number: int) -> str:
    """Take samples, and fail as a whole until the third attempt."""
    await _shapes(number)
    await leaf(sample())
    if onward.current().attempt < 3:
        raise ValueError(f"attempt {onward.current().attempt} fails")
    return "sampled"


@step(retry=Retry(attempts=1))
async def fail_at_times(seen: str) -> str:
    if random.random() < 0.5:
        raise ConnectionError("down")
    return seen


@workflow
async def sampled_broken(number: int) -> str:
    """Take samples, and fail in the middle as likely as not."""
    await _shapes(number)
    async with asyncio.timeout(60):
        await asyncio.gather(_twice("beside"), echo(sample()))
        await fail_at_times(sample())
        await leaf(sample())
    await _shapes(number)
    return "sampled"


@workflow
async def sampled_on(number: int, rounds: int = 0) -> str:
    """Take samples and go on as a new run, some times."""
    await _shapes(number)
    await onward.sleep(0.01)
    if rounds < 3:
        onward.continue_as_new(number, rounds + 1)
    return "sampled"


@workflow
async def tiny(number: int) -> int:
    return number


@workflow
async def parent(number: int) -> int:
    """Have many tiny children, whose ends come in beside everything else."""
    for _ in range(20):
        await tiny(number)
    return number


@workflow
async def ticking(number: int) -> int:
    """Give the time to steps, one after the other, and be evicted now and then."""
    for nth in range(40):
        await echo(sample())
        if nth % 10 == 9:
            await onward.sleep(0.01)
    return number


AGAIN = Retry(attempts=3, delay="10ms", factor=1)

# --- forks of the process -------------------------------------------------------------------------

_pools: list[ProcessPoolExecutor] = []


def _square(number: int) -> int:
    return number * number


@step
async def squared_in_another_process(number: int) -> int:
    """Use a pool of processes, which lives as long as this one."""
    if not _pools:
        _pools.append(ProcessPoolExecutor(2))
    loop = asyncio.get_running_loop()
    return await loop.run_in_executor(_pools[0], _square, number)


@workflow
async def pooled(number: int) -> int:
    return await squared_in_another_process(number)


@workflow
async def busy(number: int) -> int:
    """Write without a pause."""
    for _ in range(number):
        await echo(sample())
    return number
