"""Many runs at once whose bodies are evicted whenever they wait, while workers are killed.

Each is handed time, ids, random numbers and sets, and gives them to its steps. Runs are retried,
forked, continued and paused. If a single one of them parks as divergent, a body was handed
something else in a replay than it was handed live.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any, NamedTuple

from onward import App
from onward.core.run import Reason
from onward.errors import RunFailed, RunPaused
from tests.e2e.engine.sampled import (
    AGAIN,
    parent,
    sampled,
    sampled_again,
    sampled_broken,
    sampled_on,
    ticking,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from onward import Run
    from tests.e2e.engine.supervisor import Crew, Process

WORKERS = 3
FEW, MANY = 5, 20
"""How many runs of a kind are under way at a time."""

PATIENCE_SECONDS = 120
PAUSE_SECONDS = 1.5
COLD = ("--warm", "0", "--lease", "5")
"""Options for a worker that keeps no body in memory while its run waits, and is missed soon."""


class Soaked(NamedTuple):
    """What a soak went through."""

    runs: int
    retries: int
    forks: int
    pauses: int
    kills: int
    diverged: list[str]


class Soak:
    """Runs of every kind, one after the other in many places at once."""

    def __init__(self, app: App, seconds: float) -> None:
        self._app = app
        self._end = time.monotonic() + seconds
        self._runs = self._retries = self._forks = self._pauses = 0
        self._diverged: list[str] = []

    @property
    def is_over(self) -> bool:
        """Say whether no more runs are started."""
        return time.monotonic() >= self._end

    async def play(self) -> Soaked:
        """Start runs until the time is over, and see all of them to their ends."""
        few = [self._sampled, self._again, self._on, self._broken, self._paused]
        await asyncio.gather(*map(self._repeat, FEW * few + MANY * [self._parent, self._ticking]))
        counts = self._runs, self._retries, self._forks, self._pauses
        return Soaked(*counts, 0, self._diverged)

    async def _repeat(self, kind: Callable[[int], Awaitable[None]]) -> None:
        while not self.is_over:
            self._runs += 1
            await kind(self._runs)

    async def _sampled(self, number: int) -> None:
        run = await self._app.start(sampled, number)
        await self._see(run)
        await self._fork(run)

    async def _broken(self, number: int) -> None:
        """Let a run fail, retry it, fork it, and fork the fork; they fail and are retried, too."""
        run = await self._app.start(sampled_broken, number)
        await self._see(run)
        await self._fork(await self._fork(run))

    async def _fork(self, run: Run[Any]) -> Run[Any]:
        """Fork a run from somewhere in its history."""
        steps = [row for row in await run.history() if row.kind == "step" and row.seq]
        self._forks += 1
        place = steps[self._forks % len(steps)].identity
        fork = await self._app.fork(run.id, place, new_id=f"{run.id} {self._forks}")
        await self._see(fork)
        return fork

    async def _paused(self, number: int) -> None:
        """Pause a run, and let it go on when each of its limits would be over."""
        run = await self._app.start(sampled, number)
        await self._app.pause(run.id)
        await asyncio.sleep(PAUSE_SECONDS)
        await self._app.resume(run.id)
        self._pauses += 1
        await self._see(run)

    async def _again(self, number: int) -> None:
        await self._see(await self._app.start(sampled_again.options(retry=AGAIN), number))

    async def _on(self, number: int) -> None:
        await self._see(await self._app.start(sampled_on, number))

    async def _parent(self, number: int) -> None:
        await self._see(await self._app.start(parent, number))

    async def _ticking(self, number: int) -> None:
        await self._see(await self._app.start(ticking, number))

    async def _see(self, run: Run[Any]) -> None:
        """Wait for the end of a run; one that fails is retried."""
        while True:
            try:
                await run.result(timeout=PATIENCE_SECONDS, raise_paused=True)
            except RunPaused as paused:
                if paused.reason == Reason.OPERATOR:
                    continue  # it was resumed just now
                self._diverged.append(str(paused))
            except RunFailed:
                self._retries += 1
                run = await self._app.retry(run.id)
                continue
            return


async def soak(crew: Crew, seconds: float, between: float) -> Soaked:
    """Let runs go on for some seconds in three processes, and say how many parked.

    Args:
        crew: Starts the processes.
        seconds: How long runs are started.
        between: How many seconds there are between two kills of workers; 0 is none at all.
    """
    workers = [crew.launch(*COLD) for _ in range(WORKERS)]
    for worker in workers:
        await worker.up()
    async with App(crew.url) as app:
        soaking = Soak(app, seconds)
        killing = asyncio.create_task(_kill(crew, workers, soaking, between))
        found = await soaking.play()
        return found._replace(kills=await killing)


async def _kill(crew: Crew, workers: list[Process], soaking: Soak, between: float) -> int:
    """Kill one worker after the other, and start another for each; return how many died."""
    count = 0
    while between and not soaking.is_over:
        await asyncio.sleep(between)
        await workers.pop(0).kill()
        workers.append(await crew.worker(*COLD))
        count += 1
    return count
