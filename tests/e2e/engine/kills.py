"""Workers die at random while runs of every shape come in; all runs must end as they should."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple

from onward import App
from onward.store import open_store
from tests.e2e.engine.outside import deeds
from tests.e2e.engine.shapes import SHAPES, SIGNAL, go, signalled
from tests.e2e.engine.supervisor import SHORT_LEASE
from tests.e2e.engine.witness import Witness

if TYPE_CHECKING:
    from onward import Run
    from onward.store import Store
    from tests.e2e.engine.supervisor import Crew, Process

WORKERS = 3
END_SECONDS = 120.0
PAUSES_SECONDS = (0.02, 0.2)
ALL_AT_ONCE = 0.1
"""How often all workers are killed together."""

UNREADY = 0.2
"""How often a worker may be killed before it is ready."""


class Tally(NamedTuple):
    """What a campaign went through."""

    runs: int
    kills: int
    claims: int
    deeds: int
    repeated: int
    looks: int


class Campaign:
    """So many runs and so many kills, in an order that a seed decides."""

    def __init__(self, crew: Crew, store: Store, app: App, seed: int) -> None:
        self._crew = crew
        self._store = store
        self._app = app
        self._randomness = random.Random(seed)
        self._witness = Witness(store)
        self._workers: list[Process] = []
        self._unsignalled: list[Run[Any]] = []
        self._runs: list[tuple[Run[Any], Any]] = []

    async def play(self, runs: int, kills: int) -> Tally:
        """Start all runs while workers are being killed, then wait for the ends."""
        self._workers = [await self._crew.worker(*SHORT_LEASE) for _ in range(WORKERS)]
        killed = 0
        while killed < kills:
            victims = await self._choose()
            while len(self._runs) * kills < runs * (killed + 1):
                await self._start()
            await self._signal(self._randomness.randrange(3))
            await asyncio.sleep(self._randomness.uniform(*PAUSES_SECONDS))
            await self._kill(victims)
            killed += len(victims)
        while len(self._runs) < runs:
            await self._start()
        await self._signal(len(self._unsignalled))
        await self._see_ends()
        return await self._tally(killed)

    async def _start(self) -> None:
        n = len(self._runs)
        shape = SHAPES[n % len(SHAPES)]
        run = await self._app.start(shape.workflow.options(id=f"run-{n}"), n)
        self._runs.append((run, shape.comes_to(n)))
        if shape.workflow is signalled:
            self._unsignalled.append(run)

    async def _signal(self, count: int) -> None:
        for run in self._unsignalled[:count]:
            await run.signal(go, SIGNAL)
        del self._unsignalled[:count]

    async def _choose(self) -> list[int]:
        """Choose who is to die next, and mostly see to it that it has begun to work by then."""
        victims = [self._randomness.randrange(WORKERS)]
        if self._randomness.random() < ALL_AT_ONCE:
            victims = list(range(WORKERS))
        if self._randomness.random() >= UNREADY:
            for victim in victims:
                await self._workers[victim].up()
        return victims

    async def _kill(self, victims: list[int]) -> None:
        await asyncio.gather(*(self._workers[victim].kill() for victim in victims))
        await self._witness.look()
        for victim in victims:
            self._workers[victim] = self._crew.launch(*SHORT_LEASE)

    async def _see_ends(self) -> None:
        await self._crew.worker()  # slow ones may have lost their short leases to each other
        async with asyncio.timeout(END_SECONDS):
            for run, expected in self._runs:
                assert await run.result() == expected, run
        await self._witness.look()
        rows = await self._witness.see_starts([run.uid for run, _ in self._runs])
        assert {row.state for row in rows} == {"succeeded"}

    async def _tally(self, kills: int) -> Tally:
        done = Counter((deed.run, deed.identity, deed.attempt) for deed in deeds(self._crew.log))
        rows = [await self._store.run(run.uid) for run, _ in self._runs]
        return Tally(
            len(self._runs),
            kills,
            sum(row.fence for row in rows),
            sum(done.values()),
            sum(times - 1 for times in done.values()),
            self._witness.looks,
        )


async def kill_at_random(crew: Crew, runs: int, kills: int, seed: int) -> Tally:
    """Play a campaign and say what it went through."""
    async with open_store(crew.url) as store, App(crew.url) as app:
        return await Campaign(crew, store, app, seed).play(runs, kills)
