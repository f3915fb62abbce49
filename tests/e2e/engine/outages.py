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
from onward.core.instant import SECOND
from onward.core.lease import LEASE
from onward.store import open_store
from onward.store.invariants import check
from tests.e2e.engine.gates import gate
from tests.e2e.engine.outside import deeds, note
from tests.e2e.engine.sweep import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence
    from contextlib import AbstractAsyncContextManager

    from onward import Run
    from onward.testing.postgres import PostgresServer
    from tests.e2e.engine.supervisor import Crew, Process
    from tests.postgres.hand import Hand
    from tests.postgres.pooler import Pooler

WORKERS = 4
RUNS = 20
RUNS_MAX = 100
FRESH_RUNS = 5
"""How many runs are started just before an outage."""
BEAT_SECONDS = 0.5
BACK_SECONDS = 5.0
"""How soon after the return of the database every worker and every run must be at work again."""
TAKEN_OVER_SECONDS = LEASE / SECOND + BACK_SECONDS
"""How soon after that the runs of a worker that was killed are at work again: one lease later."""
PATIENCE_SECONDS = 60.0

ROLE = "onward_rotated"
HANG_UP = f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = '{ROLE}'"
RUN_FENCES = "SELECT uid, fence FROM onward.onward_run"
WORKER_COUNT = "SELECT count(*) FROM onward.onward_worker"


@step
async def beat(name: str, seconds: float) -> bool:
    note()
    await asyncio.sleep(seconds)
    return gate(name).exists()


@workflow
async def beats(name: str, seconds: float = BEAT_SECONDS) -> str:
    """Execute one step after the other until a gate opens."""
    while not await beat(name, seconds):
        pass
    return name


async def start_everywhere(
    app: App,
    crew: Crew,
    workers: Sequence[Process],
    name: str,
    *,
    count: int = RUNS,
    seconds: float = BEAT_SECONDS,
) -> list[Run[str]]:
    """Start runs, each after the one before has begun, until every worker has one."""
    before = len(deeds(crew.log))
    runs: list[Run[str]] = []
    idle = {worker.pid for worker in workers}
    while idle or len(runs) < count:
        assert len(runs) < RUNS_MAX, f"these workers take no runs: {idle}"
        runs.append(await app.start(beats, name, seconds))
        await until(lambda: any(deed.run == runs[-1].uid for deed in deeds(crew.log)[before:]))
        idle -= {deed.pid for deed in deeds(crew.log)[before:]}
    return runs


class Kind(NamedTuple):
    """A kind of outage: what fails, for how long, and whether a worker is killed meanwhile."""

    fault: str
    seconds: float
    kills: bool = False


KINDS = {
    "pooler-full": Kind("full", 22),
    "pooler-two-places": Kind("two places", 6),
    "login-refused": Kind("refused", 22),
    "away-5": Kind("away", 5),
    "away-14": Kind("away", 14),
    "away-22": Kind("away", 22),
    "away-60": Kind("away", 60),
    "away-22-killed": Kind("away", 22, kills=True),
}


class Tally(NamedTuple):
    """What happened in all outages of one kind.

    Seconds are the longest time from the return of the database until a step was begun: by all
    workers and all runs of theirs, and by all runs of a worker that was killed.
    """

    outages: int
    runs: int
    steps: int
    steps_repeated: int
    crashes: int
    claims_lost: int
    """Runs whose claim was not answered: they were claimed again, and begun only then."""
    back_seconds: float
    taken_over_seconds: float


async def endure_outages(server: PostgresServer, crew: Crew, kind: Kind, outages: int) -> Tally:
    """Let workers live through outages of one kind on the database of a crew."""
    direct = crew.url
    if kind.fault == "away":
        return await _Trial(crew, direct, kind).endure(partial(_away, server), outages)
    if kind.fault == "refused":
        async with hand(direct) as admin:
            await admin.run(f"CREATE ROLE {ROLE} LOGIN SUPERUSER")
        crew.url = direct.replace("postgres@", f"{ROLE}@")
        return await _Trial(crew, direct, kind).endure(partial(_refused, direct), outages)
    from tests.postgres.pooler import Pooler

    async with Pooler(direct) as pooler:
        crew.url = f"{pooler.url}?pgbouncer=true"
        places = 2 if kind.fault == "two places" else 0
        return await _Trial(crew, direct, kind).endure(partial(_full, pooler, places), outages)


def hand(url: str) -> AbstractAsyncContextManager[Hand]:
    from tests.postgres import hand  # imports asyncpg, which a worker on SQLite does not need

    return hand.hand(url)


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


class _Trial:
    """Outages of one kind, one after the other, on one database."""

    def __init__(self, crew: Crew, admin_url: str, kind: Kind) -> None:
        self._crew = crew
        self._admin_url = admin_url
        self._kind = kind
        self._workers: list[Process] = []
        self._begun: set[str] = set()
        """The runs that had begun before their outage."""
        self._orphans: set[str] = set()
        """The runs that a worker had, or may have had, when it was killed."""
        self._started = 0
        self._back_seconds = self._taken_over_seconds = 0.0

    async def endure(
        self, outage: Callable[[], AbstractAsyncContextManager[None]], outages: int
    ) -> Tally:
        async with App(self._crew.url) as app:
            for number in range(outages):
                while len(self._workers) < WORKERS:
                    self._workers.append(await self._crew.worker("--slots", "50"))
                    self._started += 1
                await self._endure_one(app, outage, f"round-{number}")
        return await self._tally(outages)

    async def _endure_one(
        self, app: App, outage: Callable[[], AbstractAsyncContextManager[None]], name: str
    ) -> None:
        runs = await start_everywhere(app, self._crew, self._workers, name)
        self._begun |= {run.uid for run in runs}
        runs += [await app.start(beats, name) for _ in range(FRESH_RUNS)]
        orphans: set[str] = set()
        async with outage():
            if self._kind.kills:
                orphans = await self._kill_one({run.uid for run in runs})
            await asyncio.sleep(self._kind.seconds)
        back, before = time.monotonic(), len(deeds(self._crew.log))
        alive = {worker.pid for worker in self._workers}
        theirs = {run.uid for run in runs} - orphans
        took = await self._until_begun({*alive, *theirs}, back, before, BACK_SECONDS)
        self._back_seconds = max(self._back_seconds, took)
        if orphans:
            took = await self._until_begun({*orphans}, back, before, TAKEN_OVER_SECONDS)
            self._taken_over_seconds = max(self._taken_over_seconds, took)
        gate(name).touch()
        for run in runs:
            assert await run.result(timeout=PATIENCE_SECONDS) == name
        assert not any(worker.is_over for worker in self._workers), "a worker ended"

    async def _kill_one(self, uids: set[str]) -> set[str]:
        """Kill a worker, and return the runs that it has or may have."""
        victim = self._workers.pop(0)
        await victim.kill()
        elsewhere = {deed.run for deed in deeds(self._crew.log) if deed.pid != victim.pid}
        self._orphans |= uids - elsewhere
        return uids - elsewhere

    async def _until_begun(
        self, missing: set[int | str], back: float, before: int, seconds: float
    ) -> float:
        """Wait until every worker and run has begun a step; return the seconds since the return."""
        while missing:
            late = time.monotonic() - back > seconds
            assert not late, f"after {seconds} s these have not begun a step: {missing}"
            await asyncio.sleep(0.05)
            new = deeds(self._crew.log)[before:]
            missing -= {part for deed in new for part in (deed.pid, deed.run)}
        return time.monotonic() - back

    async def _tally(self, outages: int) -> Tally:
        """Check that nothing was repeated without need, and count."""
        async with hand(self._admin_url) as eyes:
            rows = await eyes.run(RUN_FENCES)
            assert await eyes.value(WORKER_COUNT) == self._started, "a worker was replaced"
        # A claim raises the fence by one, and so does a release: only a crash makes it even.
        crashed = {uid for uid, fence in rows if fence % 2 == 0}
        lost = {uid for uid, fence in rows if fence > 1} - crashed
        assert crashed <= self._orphans, f"a crash was counted for {crashed - self._orphans}"
        assert not lost & self._begun, f"claimed again though they had begun: {lost & self._begun}"
        steps = Counter((deed.run, deed.identity) for deed in deeds(self._crew.log))
        repeated = {step for step, times in steps.items() if times > 1}
        needless = [step for step in repeated if step[0] not in crashed or steps[step] > 2]
        assert not needless, f"repeated without need: {needless}"
        assert len(repeated) <= len(crashed), "more was repeated than what was under way"
        async with open_store(self._admin_url) as store:
            assert await check(store) == []
        return Tally(
            outages,
            len(rows),
            steps.total(),
            len(repeated),
            len(crashed),
            len(lost),
            round(self._back_seconds, 1),
            round(self._taken_over_seconds, 1),
        )
