"""Four workers live through outages of Postgres, again and again.

The server is away, it refuses the login of the workers, or the pooler before it is full. Every run
is in the middle of a step when an outage begins, except for a few that were started just before:
the reply to their claim may be lost.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from onward import App, step, workflow
from onward.store import open_store
from onward.store.invariants import check
from tests.e2e.engine.gates import gate
from tests.e2e.engine.outside import deeds, note
from tests.e2e.engine.sweep import until
from tests.postgres.hand import hand
from tests.postgres.pooler import Pooler

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from contextlib import AbstractAsyncContextManager

    from onward import Run
    from onward.testing.postgres import PostgresServer
    from tests.e2e.engine.supervisor import Crew

WORKERS = 4
RUNS = 20
RUNS_MAX = 100
FRESH_RUNS = 5
"""How many runs are started just before an outage."""
BEAT_SECONDS = 0.5
BACK_SECONDS = 5.0
"""How soon after the return of the database every worker and every run must be at work again."""
PATIENCE_SECONDS = 60.0

ROLE = "onward_rotated"
HANG_UP = f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = '{ROLE}'"
RUN_ROWS = "SELECT uid, fence, crashes FROM onward.onward_run"
WORKER_COUNT = "SELECT count(*) FROM onward.onward_worker"


@step
async def beat(name: str) -> bool:
    note()
    await asyncio.sleep(BEAT_SECONDS)
    return gate(name).exists()


@workflow
async def beats(name: str) -> str:
    """Execute one step after the other until a gate opens."""
    while not await beat(name):
        pass
    return name


class Kind(NamedTuple):
    """A kind of outage, and how long it lasts."""

    fault: str
    seconds: float


KINDS = {
    "pooler-full": Kind("full", 22),
    "pooler-two-places": Kind("two places", 6),
    "login-refused": Kind("refused", 22),
    "away-5": Kind("away", 5),
    "away-14": Kind("away", 14),
    "away-22": Kind("away", 22),
    "away-60": Kind("away", 60),
}


class Tally(NamedTuple):
    """What happened in all outages of one kind."""

    outages: int
    runs: int
    steps: int
    steps_repeated: int
    crashes: int
    claims_lost: int
    """Runs whose claim was not answered: they were claimed again, and begun only then."""
    back_seconds: float
    """The longest time from the return of the database until all were at work again."""


async def endure_outages(server: PostgresServer, crew: Crew, kind: Kind, outages: int) -> Tally:
    """Let workers live through outages of one kind on the database of a crew."""
    direct = crew.url
    if kind.fault == "away":
        return await _endure(crew, direct, partial(_away, server), kind.seconds, outages)
    if kind.fault == "refused":
        async with hand(direct) as admin:
            await admin.run(f"CREATE ROLE {ROLE} LOGIN SUPERUSER")
        crew.url = direct.replace("postgres@", f"{ROLE}@")
        return await _endure(crew, direct, partial(_refused, direct), kind.seconds, outages)
    async with Pooler(direct) as pooler:
        crew.url = f"{pooler.url}?pgbouncer=true"
        places = 2 if kind.fault == "two places" else 0
        return await _endure(crew, direct, partial(_full, pooler, places), kind.seconds, outages)


# --- faults ---------------------------------------------------------------------------------------


@asynccontextmanager
async def _away(server: PostgresServer) -> AsyncIterator[None]:
    """Stop the server and start it again, in a thread because that takes a while."""
    down = server.down()
    await asyncio.to_thread(down.__enter__)
    try:
        yield
    finally:
        await asyncio.to_thread(down.__exit__, None, None, None)


@asynccontextmanager
async def _refused(url: str) -> AsyncIterator[None]:
    """Refuse the login of the workers' role, and close their connections."""
    async with hand(url) as admin:
        await admin.run(f"ALTER ROLE {ROLE} NOLOGIN")
        await admin.run(HANG_UP)
        yield
        await admin.run(f"ALTER ROLE {ROLE} LOGIN")


@asynccontextmanager
async def _full(pooler: Pooler, places: int) -> AsyncIterator[None]:
    """Close all connections of the pooler, and let it accept only so many."""
    pooler.be_full(places)
    yield
    pooler.have_room()


# --- a trial --------------------------------------------------------------------------------------


async def _endure(
    crew: Crew,
    admin_url: str,
    outage: Callable[[], AbstractAsyncContextManager[None]],
    seconds: float,
    outages: int,
) -> Tally:
    workers = [await crew.worker("--slots", "50") for _ in range(WORKERS)]
    pids = {worker.pid for worker in workers}
    back_seconds = 0.0
    begun: set[str] = set()
    async with App(crew.url) as app:
        for number in range(outages):
            name = f"round-{number}"
            runs = await _start_everywhere(app, crew, name, pids)
            begun |= {run.uid for run in runs}
            runs += [await app.start(beats, name) for _ in range(FRESH_RUNS)]
            async with outage():
                await asyncio.sleep(seconds)
            took = await _until_back(crew, pids, {run.uid for run in runs})
            back_seconds = max(back_seconds, took)
            gate(name).touch()
            for run in runs:
                assert await run.result(timeout=PATIENCE_SECONDS) == name
            assert not any(worker.is_over for worker in workers), "a worker ended"
    return await _tally(crew, admin_url, begun, outages, back_seconds)


async def _start_everywhere(app: App, crew: Crew, name: str, pids: set[int]) -> list[Run[str]]:
    """Start runs, each after the one before has begun, until every worker has one."""
    before = len(deeds(crew.log))
    runs: list[Run[str]] = []
    idle = set(pids)
    while idle or len(runs) < RUNS:
        assert len(runs) < RUNS_MAX, f"these workers take no runs: {idle}"
        runs.append(await app.start(beats, name))
        await until(lambda: any(deed.run == runs[-1].uid for deed in deeds(crew.log)[before:]))
        idle -= {deed.pid for deed in deeds(crew.log)[before:]}
    return runs


async def _until_back(crew: Crew, pids: set[int], uids: set[str]) -> float:
    """Wait until every worker and every run has begun a step; return how many seconds it took."""
    began, before = time.monotonic(), len(deeds(crew.log))
    missing: set[int | str] = {*pids, *uids}
    while missing:
        late = time.monotonic() - began > BACK_SECONDS
        assert not late, f"after {BACK_SECONDS} s these have not begun a step: {missing}"
        await asyncio.sleep(0.05)
        missing -= {part for deed in deeds(crew.log)[before:] for part in (deed.pid, deed.run)}
    return time.monotonic() - began


async def _tally(
    crew: Crew, admin_url: str, begun: set[str], outages: int, back_seconds: float
) -> Tally:
    """Check that nothing was repeated, and count."""
    async with hand(admin_url) as eyes:
        rows = await eyes.run(RUN_ROWS)
        assert await eyes.value(WORKER_COUNT) == WORKERS, "a worker was replaced"
    again = [uid for uid, fence, _ in rows if fence > 1]
    assert not begun & set(again), f"runs that had begun were claimed again: {rows}"
    steps = Counter((deed.run, deed.identity) for deed in deeds(crew.log))
    repeated = sum(times - 1 for times in steps.values())
    crashes = sum(row[2] for row in rows)
    assert (repeated, crashes) == (0, 0), f"{repeated} steps repeated, {crashes} crashes counted"
    async with open_store(admin_url) as store:
        assert await check(store) == []
    took = round(back_seconds, 1)
    return Tally(outages, len(rows), steps.total(), repeated, crashes, len(again), took)
