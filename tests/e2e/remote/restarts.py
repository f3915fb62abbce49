"""Servers die and come back; their workers continue with the runs that they had."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple, Self

from onward import App
from onward.store import open_store
from onward.store.invariants import check
from tests.e2e.engine.gates import gate
from tests.e2e.engine.outages import start_everywhere
from tests.e2e.engine.outside import deeds
from tests.e2e.engine.supervisor import PATIENCE_SECONDS
from tests.e2e.remote.installation import Servers

if TYPE_CHECKING:
    from onward import Run
    from onward.store import Store
    from tests.e2e.engine.supervisor import Crew, Process

WORKERS = 3
RUNS = 9
STEP_SECONDS = 0.2
STEPS = 2
"""How many steps a run begins before it counts as continued.

The first one may have been allowed before the server died. The second one needs the answer to a
commit after that.
"""

OTHER_SERVER_SECONDS = 2.0
"""How soon workers continue if there is another server."""
SAME_SERVER_SECONDS = 10.0
"""How soon workers continue after the only server is back: they wait up to 5 s between tries."""


class RestartTally(NamedTuple):
    """What happened while servers were killed and started again."""

    kills: int
    workers: int
    runs: int
    steps: int
    slowest_seconds: float
    """The longest time until every run of every worker had continued."""
    slowest_pace: float
    """The longest time that the same number of steps took just before a kill."""


async def lose_servers(
    crew: Crew, kills: int, within: float = OTHER_SERVER_SECONDS
) -> RestartTally:
    """Kill one of two servers, again and again; workers continue through the other one in time."""
    async with _Trial(crew, servers=2) as trial:
        for number in range(kills):
            place = number % 2  # after the first kill, all workers are at the other server
            await trial.measure_pace()
            killed_at = time.monotonic()
            await trial.servers.kill(place)
            await trial.see_continued(killed_at, within)
            trial.servers.launch(place)
            await trial.servers.up()
        return await trial.end(kills)


async def restart_server(
    crew: Crew, seconds: float, within: float = SAME_SERVER_SECONDS
) -> RestartTally:
    """Kill the only server, start it again after some time, and see workers continue in time."""
    async with _Trial(crew, servers=1) as trial:
        await trial.measure_pace()
        await trial.servers.kill(0)
        await asyncio.sleep(seconds)
        trial.servers.launch(0)
        await trial.servers.up()
        await trial.see_continued(time.monotonic(), within)
        return await trial.end(1)


class _Trial:
    """Workers with runs that execute one step after the other, through servers."""

    def __init__(self, crew: Crew, servers: int) -> None:
        self._crew = crew
        self.servers = Servers(crew, servers)
        self._workers: list[Process] = []
        self._runs: list[Run[str]] = []
        self._pace = 0.0
        """How long all runs took for so many steps just before the kill."""
        self._slowest_pace = self._slowest = 0.0

    async def __aenter__(self) -> Self:
        await self.servers.up()
        addresses = [f"127.0.0.1:{port}" for port in self.servers.ports]
        urls = [f"onward://{','.join(order)}" for order in (addresses, addresses[::-1])]
        self._workers = [self._crew.launch(url=urls[n % 2]) for n in range(WORKERS)]
        for worker in self._workers:
            await worker.up()
        self._app = await App(urls[0]).__aenter__()
        self._runs = await start_everywhere(
            self._app, self._crew, self._workers, "end", count=RUNS, seconds=STEP_SECONDS
        )
        async with open_store(self._crew.url) as store:
            self._ids = await _worker_ids(store)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._app.__aexit__(None, None, None)

    async def measure_pace(self) -> None:
        """Measure how long the steps take that a run has to begin: the machine may be busy."""
        self._pace = await self._until_begun(time.monotonic(), PATIENCE_SECONDS)
        self._slowest_pace = max(self._slowest_pace, self._pace)

    async def see_continued(self, since: float, seconds: float) -> None:
        """Wait until every run has begun some steps, at most for so long and what steps take."""
        took = await self._until_begun(since, seconds + self._pace)
        self._slowest = max(self._slowest, took)

    async def _until_begun(self, since: float, seconds: float) -> float:
        before = Counter(deed.run for deed in deeds(self._crew.log))
        while True:
            begun = Counter(deed.run for deed in deeds(self._crew.log)) - before
            late = [run for run in self._runs if begun[run.uid] < STEPS]
            took = time.monotonic() - since
            if not late:
                return took
            assert took < seconds, f"after {took:.1f} s, {len(late)} runs have not continued"
            await asyncio.sleep(0.02)

    async def end(self, kills: int) -> RestartTally:
        """End all runs, and check that no worker was replaced and no run claimed again."""
        gate("end").touch()
        for run in self._runs:
            assert await run.result(timeout=PATIENCE_SECONDS) == "end"
        assert not any(worker.is_over for worker in self._workers), "a worker ended"
        async with open_store(self._crew.url) as store:
            assert await _worker_ids(store) == self._ids, "a worker was replaced"
            fences = [(await store.run(run.uid)).fence for run in self._runs]
            assert set(fences) == {1}, "a run was claimed again"
            assert await check(store) == []
        done = deeds(self._crew.log)
        steps = Counter((deed.run, deed.identity) for deed in done)
        assert set(steps.values()) == {1}, "a step was repeated"
        places = {(deed.run, deed.pid) for deed in done}
        assert len(places) == len(self._runs), "a run was executed by two workers"
        return RestartTally(
            kills,
            len(self._workers),
            len(self._runs),
            steps.total(),
            round(self._slowest, 2),
            round(self._slowest_pace, 2),
        )


async def _worker_ids(store: Store) -> set[str]:
    return {row.worker for row in await store.workers(gone=True)}
