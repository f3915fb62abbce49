"""Workers are killed while runs under limits come in: no limit is exceeded, and no slot is lost."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple

import onward
from onward import App, step, workflow
from onward.core.run import TERMINAL
from onward.store import open_store
from onward.store.invariants import check
from tests.e2e.engine.supervisor import SHORT_LEASE

if TYPE_CHECKING:
    from onward import Run
    from onward.store import Store
    from onward.store.database import Tx
    from tests.e2e.engine.supervisor import Crew

WORKERS = 4
END_SECONDS = 300.0
PAUSES_SECONDS = (0.02, 0.3)

MAX_NARROW, MAX_HELD, MAX_KEY, MAX_QUEUE = 3, 2, 1, 6


@step
async def pass_through(n: int) -> int:
    await asyncio.sleep(0.01)
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


class LimitTally(NamedTuple):
    """What a campaign went through."""

    runs: int
    kills: int
    looks: int
    crashed: int
    most: dict[str, int]


class Watcher:
    """Looks at which runs count towards limits, again and again, and remembers the most."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.looks = 0
        self.most: Counter[str] = Counter()

    async def watch(self) -> None:
        """Look until it is cancelled."""
        while True:
            await self.look()
            await asyncio.sleep(0)

    async def look(self) -> Counter[str]:
        """Count, in one consistent view, and see that no limit is exceeded."""
        found = await self._store.view(_counted)
        self.looks += 1
        for what, count in found.items():
            self.most[what] = max(self.most[what], count)
            maximum = _maximum(what)
            assert count <= maximum, f"{count} of {what}, but the limit is {maximum}"
        return found


async def _counted(tx: Tx) -> Counter[str]:
    found: Counter[str] = Counter()
    for queue, name, key, count in await tx.fetch("count_running"):
        found[f"queue {queue}"] += count
        found[name] += count
        if key:
            found[key] += count
    for _, name, _, count in await tx.fetch("count_holding"):
        if name == narrow_held.name:
            found[name] += count
    return found


def _maximum(what: str) -> int:
    named = {
        narrow.name: MAX_NARROW,
        narrow_held.name: MAX_HELD,
        "queue default": MAX_QUEUE,
    }
    return MAX_KEY if what.startswith("key ") else named.get(what, MAX_QUEUE)


async def kill_under_limits(crew: Crew, runs: int, kills: int, seed: int) -> LimitTally:
    """Start runs under limits while workers are killed at random, and see all of them end."""
    rng = random.Random(seed)
    async with App(crew.url) as app, open_store(crew.url) as store:
        await app.queues.limit("default", MAX_QUEUE)
        workers = [await crew.worker(*SHORT_LEASE) for _ in range(WORKERS)]
        watcher = Watcher(store)
        watching = asyncio.ensure_future(watcher.watch())
        started: list[Run[Any]] = []
        for kill in range(kills):
            while len(started) * kills < runs * (kill + 1):
                n = len(started)
                started.append(await app.start(KINDS[n % len(KINDS)].options(id=f"n-{n}"), n))
            victim = rng.randrange(WORKERS)
            await asyncio.sleep(rng.uniform(*PAUSES_SECONDS))
            await workers[victim].kill()
            workers[victim] = await crew.worker(*SHORT_LEASE)
            assert not watching.done() or watching.result() is None
        async with asyncio.timeout(END_SECONDS):
            for run in started:
                await asyncio.wait([asyncio.ensure_future(run.result())])
        watching.cancel()
        await asyncio.wait([watching])
        assert watching.cancelled() or watching.exception() is None, watching.exception()
        states = Counter([str(await run.state()) for run in started])
        assert set(states) <= set(TERMINAL), states
        assert not any((await watcher.look()).values()), "a slot is lost"
        assert await check(store) == []
        return LimitTally(len(started), kills, watcher.looks, states["failed"], dict(watcher.most))
