"""Kills a worker in Node at each frame of a run that sleeps for a week.

    python -m tests.clients.frame_kills     # at every frame, until a worker outlives its run

The server is in this process, on a virtual clock: the week, and the leases of killed workers, pass
at once.
"""

from __future__ import annotations

import asyncio
import os
import signal
import tempfile
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from onward import App, workflow
from onward.core.instant import DAY, duration
from onward.server.process import OnwardServer
from onward.store import open_store
from onward.store.invariants import check
from onward.testing.clock import VirtualClock
from tests.clients.conftest import copy_client
from tests.kit.watching import until

if TYPE_CHECKING:
    from asyncio.subprocess import Process
    from collections.abc import AsyncIterator, Iterable, Sequence

    from onward import Run, RunInfo

WEEK = 7 * DAY
LEASE = "2s"
LOOK_SECONDS = 0.05

RESULT = {"n": 5, "total": 15, "approval": "yes", "children": 10, "both": [6, 7]}
STEP = 10
"""How many workers are killed at a time."""

PATIENCE_SECONDS = 120.0


@workflow(name="order", queue="node")
async def order(n: int, wait: str = "50ms") -> dict[str, object]:
    raise NotImplementedError  # the worker in Node has it


@asynccontextmanager
async def node_worker(
    client: Path,
    address: str,
    queues: Iterable[str] = ("node",),
    *,
    lease: str,
    kill_at: int = 0,
    dies: bool = False,
) -> AsyncIterator[Process]:
    """Enter with a worker process.

    With `kill_at`, it kills itself at that response; with `dies`, in the cleanup of `careful`.
    """
    environment = os.environ | {
        "ONWARD_URL": f"onward://{address}",
        "LEASE": lease,
        "QUEUE": ",".join(queues),
        "KILL_AT": str(kill_at),
        "DIES": "1" if dies else "",
    }
    script = str(client / "programs" / "live_worker.js")
    process = await asyncio.create_subprocess_exec("node", script, env=environment)
    try:
        yield process
    finally:
        if process.returncode is None:
            process.terminate()
            await process.wait()


async def pass_leases(app: App, clock: VirtualClock, pid: int) -> None:
    """Let time pass as a live worker renews its lease, so that those of dead ones run out."""
    while True:
        for worker in await app.workers.list():
            if worker.pid == pid and worker.renewed_at == clock.now():
                clock.advance(duration(LEASE) * 2 // 5)
        await asyncio.sleep(LOOK_SECONDS)


class FrameKills:
    """A run and a worker of its own for each frame, and at last one worker for all runs.

    Args:
        client: The TypeScript client.
        url: The database, a file.
        frames: At which response of the server each of the workers is killed.
    """

    def __init__(self, client: Path, url: str, frames: Sequence[int]) -> None:
        self._client = client
        self._url = url
        self._queues = {f"node-{frame}": frame for frame in frames}
        self._clock = VirtualClock()

    async def play(self) -> list[int]:
        """Kill, let all runs end and check them; return the frames at which a worker was killed."""
        began = self._clock.wall()
        server = OnwardServer(self._url, grpc="127.0.0.1:0", clock=self._clock)
        async with server, App(f"onward://{server.address}") as app:
            runs = [
                await app.start(order.options(id=queue, queue=queue), 5, f"{WEEK // DAY}d")
                for queue in self._queues
            ]
            for run in runs:
                await run.signal("approval", "yes")
            killed = await self._kill(server.address, runs)
            async with node_worker(self._client, server.address, self._queues, lease=LEASE) as last:
                passing = asyncio.create_task(pass_leases(app, self._clock, last.pid))
                await self._until_over(runs, [last] * len(runs))
                passing.cancel()
            for run in runs:
                assert await run.result(timeout="10s") == RESULT, run.id
        assert self._clock.wall() - began >= WEEK
        async with open_store(self._url) as store:
            assert await check(store) == []
        return killed

    async def _kill(self, address: str, runs: Sequence[Run[Any]]) -> list[int]:
        async with AsyncExitStack() as stack:
            workers = [
                await stack.enter_async_context(
                    node_worker(self._client, address, [queue], lease=LEASE, kill_at=frame)
                )
                for queue, frame in self._queues.items()
            ]
            await self._until_over(runs, workers)
            frames = zip(self._queues.values(), workers, strict=True)
            return [frame for frame, worker in frames if worker.returncode == -signal.SIGKILL]

    async def _until_over(self, runs: Sequence[Run[Any]], workers: Sequence[Process]) -> None:
        """Wait until each run has ended or its worker is dead; weeks pass once all others sleep."""

        async def are_over() -> bool:
            alive = [
                run for run, each in zip(runs, workers, strict=True) if each.returncode is None
            ]
            infos = [await run.info() for run in alive]
            moving = [info for info in infos if info.state != "succeeded"]
            if moving and all(map(self._is_asleep, moving)):
                self._clock.advance(WEEK)
            return not moving

        await until(are_over, PATIENCE_SECONDS, every=LOOK_SECONDS)

    def _is_asleep(self, info: RunInfo) -> bool:
        return info.due is not None and info.due - self._clock.now() > timedelta(days=1)


def main() -> None:
    """Kill at every frame: at the first ones, at the next ones, until a worker outlives its run."""
    first = 1
    with tempfile.TemporaryDirectory() as folder:
        client = copy_client(Path(folder))
        while True:
            frames = range(first, first + STEP)
            url = str(Path(folder) / f"{first}.db")
            killed = asyncio.run(FrameKills(client, url, frames).play())
            print(f"killed at {killed}: all runs ended right", flush=True)
            if len(killed) < STEP:
                return
            first += STEP


if __name__ == "__main__":
    main()
