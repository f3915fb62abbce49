"""Signals that together are larger than one message of a server."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from onward import Signal, workflow

if TYPE_CHECKING:
    from onward import App

letter = Signal("letter", str)


@workflow
async def collects_at_once(count: int) -> int:
    return sum(map(len, await asyncio.gather(*(letter.wait() for _ in range(count)))))


async def test_signals_of_the_largest_size_are_taken_at_once(app: App) -> None:
    largest = 2 * 1024 * 1024 - 2
    async with app:
        run = await app.start(collects_at_once, 12)
        for _ in range(12):
            await run.signal(letter, "x" * largest)
        async with app.worker():
            assert await run.result(timeout="30s") == 12 * largest
