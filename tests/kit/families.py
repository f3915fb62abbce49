"""What tests of runs that start other runs share: patience, and a look at the whole database."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from onward.errors import NotFound
from onward.store.invariants import check

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from onward import App, Run

PATIENCE_SECONDS = 30.0


async def until(holds: Callable[[], Awaitable[bool]]) -> None:
    """Wait until a worker has made something true."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not await holds():  # noqa: ASYNC110 - the worker has no one to tell us
            await asyncio.sleep(0.005)


async def is_in(run: Run[Any], *states: str) -> None:
    """Wait until a run is in one of these states."""

    async def holds() -> bool:
        return await run.state() in states

    await until(holds)


async def appears(app: App, id: str) -> Run[Any]:  # noqa: A002 - it is the user's word
    """Wait until a run of that id is there, and return it."""
    found: list[Run[Any]] = []

    async def holds() -> bool:
        try:
            found.append(await app.get(id))
        except NotFound:
            return False
        return True

    await until(holds)
    return found[0]


async def asks_for(run: Run[Any], name: str) -> None:
    """Wait until a run waits for something of that name."""

    async def holds() -> bool:
        return any(row.name == name and row.state == "open" for row in await run.history())

    await until(holds)


async def rests(app: App) -> None:
    """Wait until nothing is in motion, and see that all is as it should be."""

    async def holds() -> bool:
        return not {"ready", "running"} & set(await app.counts())

    await until(holds)
    assert await check(app._store) == []


async def children(app: App, run: Run[Any]) -> list[tuple[str, str]]:
    """Return name and state of every run that a run has started, in order."""
    return [(row.name, row.state) for row in await app._store.children(run.uid)]
