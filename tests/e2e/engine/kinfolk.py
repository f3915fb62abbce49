"""Workflows that start others in every way, with steps that leave traces."""

from __future__ import annotations

import asyncio
from typing import Any

import onward
from onward import step, workflow
from tests.e2e.engine.outside import note


@step
async def quarter(n: int) -> int:
    note()
    return n * 25


@step(queue="default")
async def quarter_elsewhere(n: int) -> int:
    note()
    return n * 25


@workflow
async def small(n: int) -> int:
    first = await quarter(n)
    await onward.sleep("10ms")
    return first + await quarter(1)


@workflow
async def middle(n: int) -> list[int]:
    return list(await asyncio.gather(small(n), small(n + 1)))


@workflow
async def household(n: int) -> list[Any]:
    """Have children of every kind, one inside the other and side by side."""
    started = await onward.start(small.options(id=f"started by {n}"), n)
    named = await small.options(id=f"named by {n}")(n)
    nested = await middle(n)
    await onward.sleep("20ms")
    mapped = await quarter.map(range(10), limit=4)
    many = await small.map([1, 2], limit=2)
    away = await quarter_elsewhere(n)
    ended = [await done async for done in onward.as_completed([small(1), small(2)])]
    return [named, nested, mapped, many, away, sorted(ended), await started.result()]


def comes_to(n: int) -> list[Any]:
    """Return what `household` must return."""

    def small_of(number: int) -> int:
        return number * 25 + 25

    return [
        small_of(n),
        [small_of(n), small_of(n + 1)],
        [number * 25 for number in range(10)],
        [small_of(1), small_of(2)],
        n * 25,
        [small_of(1), small_of(2)],
        small_of(n),
    ]


RUNS = 1 + 1 + 1 + 3 + 4 + 4 + 1 + 2
"""How many runs there are: household, started, named, middle with two, chunks, and so on."""


@workflow
async def long_list(count: int) -> int:
    return sum(await quarter.map(range(count), limit=8))


@workflow
async def by_name(n: int) -> int:
    return await small.options(id="the only one")(n)
