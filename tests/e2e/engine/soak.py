"""Many runs at once, with nothing going wrong, whose bodies are evicted whenever they wait.

Each is handed time, ids, random numbers and sets, and gives them to its steps. If a single one of
them parks as divergent, a body was handed something else in a replay than it was handed live.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any, NamedTuple

from onward import App
from onward.errors import RunPaused
from tests.e2e.engine.sampled import AGAIN, parent, sampled, sampled_again, sampled_on, ticking

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from onward import Run
    from tests.e2e.engine.supervisor import Crew

WORKERS = 3
FEW, MANY = 5, 20
"""How many runs of a kind are under way at a time."""

PATIENCE_SECONDS = 120
COLD = ("--warm", "0")
"""Options for a worker that keeps no body in memory while its run waits."""


class Soaked(NamedTuple):
    """What a soak went through."""

    runs: int
    forks: int
    diverged: list[str]


class Soak:
    """Runs of every kind, one after the other in many places at once."""

    def __init__(self, app: App, seconds: float) -> None:
        self._app = app
        self._end = time.monotonic() + seconds
        self._runs = self._forks = 0
        self._diverged: list[str] = []

    async def play(self) -> Soaked:
        """Start runs until the time is over, and see all of them to their ends."""
        places = FEW * [self._sampled, self._again, self._on] + MANY * [self._parent, self._ticking]
        await asyncio.gather(*map(self._repeat, places))
        return Soaked(self._runs, self._forks, self._diverged)

    async def _repeat(self, kind: Callable[[int], Awaitable[None]]) -> None:
        while time.monotonic() < self._end:
            self._runs += 1
            await kind(self._runs)

    async def _sampled(self, number: int) -> None:
        run = await self._app.start(sampled, number)
        await self._see(run)
        self._forks += 1
        await self._see(await self._app.fork(run.id, "echo", new_id=f"fork of {run.id}"))

    async def _again(self, number: int) -> None:
        await self._see(await self._app.start(sampled_again.options(retry=AGAIN), number))

    async def _on(self, number: int) -> None:
        await self._see(await self._app.start(sampled_on, number))

    async def _parent(self, number: int) -> None:
        await self._see(await self._app.start(parent, number))

    async def _ticking(self, number: int) -> None:
        await self._see(await self._app.start(ticking, number))

    async def _see(self, run: Run[Any]) -> None:
        try:
            await run.result(timeout=PATIENCE_SECONDS, raise_paused=True)
        except RunPaused as paused:
            self._diverged.append(str(paused))


async def soak(crew: Crew, seconds: float) -> Soaked:
    """Let runs go on for some seconds in three processes, and say how many parked."""
    workers = [crew.launch(*COLD) for _ in range(WORKERS)]
    for worker in workers:
        await worker.up()
    async with App(crew.url) as app:
        return await Soak(app, seconds).play()
