"""Watching runs: until they are in a state, and whether all say the same of how they ended."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest

from onward import App
from onward.errors import RunCancelled
from onward.store.invariants import check

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from onward import Run
    from onward.runtime.worker.session import WorkerSession

PATIENCE_SECONDS = 30.0

FALSY: tuple[object, ...] = (None, False, 0, 0.0, "", [], {})

# For what must outlive its App: a database in memory does not.
lasting = pytest.mark.parametrize("url", ["file", "postgres"], indirect=True)


@asynccontextmanager
async def working(app: App, **options: Any) -> AsyncIterator[WorkerSession]:
    """Work on runs; afterwards everything in the database must fit together."""
    async with app, asyncio.timeout(250):
        async with app.worker(**options) as worker:
            yield worker.session
        assert await check(app._store) == []


async def until(true: Callable[[], Awaitable[bool]]) -> None:
    """Look again and again until something is true."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not await true():  # noqa: ASYNC110 - the worker has no one to tell us
            await asyncio.sleep(0.005)


async def until_state(run: Run[Any], *states: str) -> None:
    """Wait until a run is in one of these states."""

    async def there() -> bool:
        return await run.state() in states

    await until(there)


async def steps_of(run: Run[Any]) -> list[str]:
    """Return the names of what a run has done, in the order it was handed over."""
    return [row.name for row in await run.history() if row.seq is not None]


async def ends(app: App, url: str, run: Run[Any], state: str, reason: str | None) -> None:
    """Check that a run has ended without a result, and that everyone says the same of it."""
    await _says(app, run.id, state, reason)
    with pytest.raises(RunCancelled) as told:
        await run.result(timeout="20s")
    assert (told.value.state, told.value.reason) == (state, reason or "")
    assert await run.cancel() == "too_late"
    if url != ":memory:":
        async with App(url) as later:
            await _says(later, run.id, state, reason)


async def _says(app: App, run_id: str, state: str, reason: str | None) -> None:
    run = await app.get(run_id)
    with pytest.raises(RunCancelled) as told:
        await run.result(timeout="20s")
    assert (told.value.state, told.value.reason) == (state, reason or "")
    assert await run.state() == state
    info = await run.info()
    assert (info.state, info.reason) == (state, reason)
    assert info.finished_at is not None
    assert info.due is None
    row = await app._store.newest(run_id)
    assert (row.state, row.reason, row.worker) == (state, reason, None)
    recorded = [each for each in await run.history() if each.kind == "cancel"]
    assert len(recorded) <= 1
