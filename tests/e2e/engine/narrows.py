"""Workers are killed while runs under limits come in: no limit is exceeded, and no slot is lost."""

from __future__ import annotations

import asyncio
import random
import sqlite3
from collections import Counter
from contextlib import closing
from typing import TYPE_CHECKING, Any, NamedTuple

import asyncpg

import onward
from onward import App, step, workflow
from onward.core.run import TERMINAL
from onward.store import open_store
from onward.store.invariants import check
from tests.e2e.engine.supervisor import SHORT_LEASE

if TYPE_CHECKING:
    from onward import Run
    from tests.e2e.engine.supervisor import Crew

WORKERS = 4
END_SECONDS = 300.0
PAUSES_SECONDS = (0.02, 0.3)

MAX_NARROW, MAX_HELD, MAX_KEY, MAX_QUEUE = 2, 2, 1, 4

BURST = 40
"""How many runs are started at once: many more than may run, so that every limit is reached."""


@step
async def pass_through(n: int) -> int:
    await asyncio.sleep(0.05)
    return n


@workflow(limit=MAX_NARROW)
async def narrow(n: int) -> int:
    return await pass_through(n)


@workflow(limit=MAX_HELD, hold="open")
async def narrow_held(n: int) -> int:
    await onward.sleep("30ms")
    return await pass_through(n)


@workflow(key=lambda n: f"key {n % 7}", limit=MAX_KEY)
async def narrow_keyed(n: int) -> int:
    return await pass_through(n)


@workflow
async def broad(n: int) -> int:
    return await pass_through(n)


KINDS = (narrow, narrow_held, narrow_keyed, broad)


LIMITS = {
    "queue default": MAX_QUEUE,
    narrow.name: MAX_NARROW,
    narrow_held.name: MAX_HELD,
    **{f"key {n}": MAX_KEY for n in range(7)},
}
"""What is limited, and how many runs of it may count at a time."""


class LimitTally(NamedTuple):
    """What a campaign went through; `reached` has the most runs that counted for each limit."""

    runs: int
    kills: int
    changes: int
    crashed: int
    reached: dict[str, str]


SQLITE_LOG = """
    CREATE TABLE limit_log (seq INTEGER PRIMARY KEY, uid TEXT, name TEXT, queue TEXT, key TEXT,
                            state TEXT, holds INTEGER);
    CREATE TRIGGER limit_log AFTER UPDATE ON onward_run
    WHEN old.state <> new.state OR old.holds <> new.holds BEGIN
        INSERT INTO limit_log (uid, name, queue, key, state, holds)
        VALUES (new.uid, new.name, new.queue, new.flow_key, new.state, new.holds);
    END;
"""
POSTGRES_LOG = """
    CREATE TABLE limit_log (seq BIGSERIAL PRIMARY KEY, uid TEXT, name TEXT, queue TEXT, key TEXT,
                            state TEXT, holds BIGINT);
    CREATE FUNCTION log_limits() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        INSERT INTO public.limit_log (uid, name, queue, key, state, holds)
        VALUES (new.uid, new.name, new.queue, new.flow_key, new.state, new.holds);
        RETURN NULL;
    END $$;
    CREATE TRIGGER limit_log AFTER UPDATE ON onward.onward_run FOR EACH ROW
    WHEN (old.state <> new.state OR old.holds <> new.holds) EXECUTE FUNCTION log_limits();
"""
LOGGED = "SELECT uid, name, queue, key, state, holds FROM limit_log ORDER BY seq"


class LimitLog:
    """Every change of a state, logged by the database itself, in the order of the changes.

    On Postgres a run may be logged as ended before its transaction is committed. That hides
    nothing: a claim that does not see the end yet counts the run.
    """

    def __init__(self, url: str) -> None:
        self._url = url
        self._is_postgres = url.startswith("postgresql")
        self.changes = 0
        self.most: Counter[str] = Counter()
        """The most runs that counted for a limit at a time."""

    async def begin(self) -> None:
        """Let the database log."""
        if self._is_postgres:
            connection = await asyncpg.connect(self._url)
            await connection.execute(POSTGRES_LOG)
            await connection.close()
            return
        with closing(sqlite3.connect(self._url)) as file:
            file.executescript(SQLITE_LOG)

    async def _rows(self) -> list[Any]:
        if self._is_postgres:
            connection = await asyncpg.connect(self._url)
            rows = await connection.fetch(LOGGED)
            await connection.close()
            return list(rows)
        with closing(sqlite3.connect(self._url)) as file:
            return file.execute(LOGGED).fetchall()

    async def check(self) -> None:
        """Count after each change, and see that no limit was exceeded and no slot is lost."""
        counted: Counter[str] = Counter()
        counts_for: dict[str, tuple[str, ...]] = {}
        for uid, name, queue, key, state, holds in await self._rows():
            self.changes += 1
            counted.subtract(counts_for.pop(uid, ()))
            is_held = holds and state in ("ready", "waiting", "paused")
            if state == "running":
                counts_for[uid] = f"queue {queue}", name, *([key] if key else ())
            elif is_held and name == narrow_held.name:
                counts_for[uid] = (name,)
            counted.update(counts_for.get(uid, ()))
            for what in counts_for.get(uid, ()):
                self.most[what] = max(self.most[what], counted[what])
                maximum = LIMITS.get(what, MAX_QUEUE)
                assert counted[what] <= maximum, f"{counted[what]} of {what}, limit {maximum}"
        assert not any(counted.values()), f"a slot is lost: {counted}"

    def reached(self) -> dict[str, str]:
        """Return the most runs that counted for each limit, which must be as many as it allows.

        A limit that is never reached may be missing altogether.
        """
        below = {what: self.most[what] for what in LIMITS if self.most[what] < LIMITS[what]}
        assert not below, f"limits were never reached: {below}"
        return {what: f"{self.most[what]} of {maximum}" for what, maximum in LIMITS.items()}


async def kill_under_limits(crew: Crew, runs: int, kills: int, seed: int) -> LimitTally:
    """Start runs under limits while workers are killed at random, and see all of them end."""
    rng = random.Random(seed)
    log = LimitLog(crew.url)
    async with App(crew.url) as app, open_store(crew.url) as store:
        await log.begin()
        await app.queues.limit("default", MAX_QUEUE)
        workers = [await crew.worker(*SHORT_LEASE) for _ in range(WORKERS)]
        started: list[Run[Any]] = []
        for kill in range(kills):
            while len(started) * kills < runs * (kill + 1):
                numbers = range(len(started), min(len(started) + BURST, runs))
                started += await asyncio.gather(*(_start(app, n) for n in numbers))
            victim = rng.randrange(WORKERS)
            await asyncio.sleep(rng.uniform(*PAUSES_SECONDS))
            await workers[victim].kill()
            workers[victim] = await crew.worker(*SHORT_LEASE)
        async with asyncio.timeout(END_SECONDS):
            for run in started:
                await asyncio.wait([asyncio.ensure_future(run.result())])
        states = Counter([str(await run.state()) for run in started])
        assert set(states) <= set(TERMINAL), states
        await log.check()
        assert await check(store) == []
        return LimitTally(len(started), kills, log.changes, states["failed"], log.reached())


async def _start(app: App, n: int) -> Run[Any]:
    return await app.start(KINDS[n % len(KINDS)].options(id=f"n-{n}"), n)
