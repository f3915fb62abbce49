"""Works on runs, waits for states, and checks how runs ended."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest

from onward import App
from onward.errors import NotFound, RunCancelled
from onward.store.invariants import check

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from onward import Run, RunInfo
    from onward.runtime.worker.session import WorkerSession

PATIENCE_SECONDS = 30.0

FALSY: tuple[object, ...] = (None, False, 0, 0.0, "", [], {})

# For what must outlive its App: a database in memory does not.
lasting = pytest.mark.parametrize("url", ["file", "postgres"], indirect=True)


@asynccontextmanager
async def working(app: App, **options: Any) -> AsyncIterator[WorkerSession]:
    """Work on runs, and check the database afterwards."""
    async with app, asyncio.timeout(250):
        async with app.worker(**options) as worker:
            yield worker.session
        await check_database(app)


async def until(
    holds: Callable[[], bool | Awaitable[bool]],
    seconds: float = PATIENCE_SECONDS,
    every: float = 0.005,
) -> None:
    """Check again and again until something is true; a worker sends no event about it."""
    async with asyncio.timeout(seconds):
        while True:
            answer = holds()
            if answer if isinstance(answer, bool) else await answer:
                return
            await asyncio.sleep(every)


async def until_state(run: Run[Any], *states: str) -> str:
    """Wait until a run is in one of these states, and return which."""
    found: list[str] = []

    async def is_there() -> bool:
        found[:] = [await run.state()]
        return found[0] in states

    await until(is_there)
    return found[0]


async def until_started(app: App, id: str) -> Run[Any]:  # noqa: A002 - it is the user's word
    """Wait until there is a run with that id, and return it."""
    found: list[Run[Any]] = []

    async def is_there() -> bool:
        try:
            found[:] = [await app.get(id)]
        except NotFound:
            return False
        return True

    await until(is_there)
    return found[0]


async def until_open(run: Run[Any], name: str) -> None:
    """Wait until a run has an open call of that name."""

    async def is_open() -> bool:
        return any(row.name == name and row.state == "open" for row in await run.history())

    await until(is_open)


async def until_idle(app: App) -> None:
    """Wait until no run is ready or running, and check the database."""

    async def is_idle() -> bool:
        return not {"ready", "running"} & set(await app.counts())

    await until(is_idle)
    await check_database(app)


async def check_database(app: App) -> None:
    """Check everything that must hold in every database."""
    assert await check(app._store) == []


async def children_of(app: App, run: Run[Any]) -> list[RunInfo]:
    """Return the runs that a run has started, in order."""
    found = await app.runs(parent=run.uid, limit=10_000)
    return [info for info in reversed(found) if info.parent == run.uid]  # not of earlier attempts


async def info_of(app: App, uid: str) -> RunInfo:
    """Return one run, which need not be the newest of its id."""
    [found] = [info for info in await app.runs(limit=10_000) if info.uid == uid]
    return found


async def steps_of(run: Run[Any]) -> list[str]:
    """Return the names of what a run has done, in the order it was handed over."""
    return [row.name for row in await run.history() if row.seq is not None]


async def ends(app: App, url: str, run: Run[Any], state: str, reason: str | None) -> None:
    """Check that a run has ended without a result, and that everyone says the same of it."""
    await _says(app, run.id, state, reason)
    with pytest.raises(RunCancelled) as told:
        await run.result(timeout="60s")
    assert (told.value.state, told.value.reason) == (state, reason or "")
    assert await run.cancel() == "too_late"
    if url != ":memory:":
        async with App(url) as later:
            await _says(later, run.id, state, reason)


async def _says(app: App, run_id: str, state: str, reason: str | None) -> None:
    run = await app.get(run_id)
    with pytest.raises(RunCancelled) as told:
        await run.result(timeout="60s")
    assert (told.value.state, told.value.reason) == (state, reason or "")
    assert await run.state() == state
    info = await run.info()
    assert (info.state, info.reason) == (state, reason)
    assert info.finished_at is not None
    assert info.due is None
    recorded = [each for each in await run.history() if each.kind == "cancel"]
    assert len(recorded) <= 1
