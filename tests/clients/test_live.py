"""Python and Node work on the same runs, through a real server."""

import asyncio
import re
import subprocess
import sys
from pathlib import Path

import pytest

from onward import App, Run, StepFailed, step, workflow
from onward.core.instant import SECOND
from onward.errors import RunCancelled
from onward.server.process import OnwardServer
from onward.store import open_store
from onward.store.invariants import check
from onward.testing.clock import VirtualClock
from tests.clients.frame_kills import RESULT, FrameKills, node_worker, order, pass_leases
from tests.kit.watching import until

LEASE = "2s"


@step(queue="node")
async def add(a: int, b: int) -> int:
    raise NotImplementedError  # the worker in Node has it


@step(queue="node")
async def fail(message: str) -> None:
    raise NotImplementedError  # the worker in Node has it


@workflow
async def through_node(numbers: list[int]) -> str:
    total = 0
    for number in numbers:
        total = await add(total, number)
    try:
        await fail("no luck")
    except StepFailed as failed:
        return f"{total}, {failed.is_a('Fatal')}, {failed.message}"
    return "no error"


async def work_together(client: Path, url: str) -> None:
    async with (
        OnwardServer(url, grpc="127.0.0.1:0") as server,
        App(f"onward://{server.address}") as app,
        app.worker(workflows=[through_node], lease=LEASE),
    ):
        run = await app.start(order, 5)
        await run.signal("approval", "yes")
        async with node_worker(client, server.address, lease=LEASE, kill_at=6) as killed:
            assert await killed.wait() == -9  # the run is in the middle of its steps
        async with node_worker(client, server.address, lease=LEASE):
            assert await app.run(through_node, [1, 2]) == "3, True, no luck"
            assert await run.result(timeout="60s") == RESULT


@workflow(queue="node")
async def careful() -> None:
    raise NotImplementedError  # the worker in Node has it


async def clean_up_after_an_outage(client: Path, url: str, *, seconds: int) -> Run[None]:
    """Return a run whose worker died in its cleanup, and which ended after such an outage."""
    clock = VirtualClock()
    server = OnwardServer(url, grpc="127.0.0.1:0", clock=clock)
    async with server, App(f"onward://{server.address}") as app:
        run = await app.start(careful)

        async def waits() -> bool:
            return (await run.info()).state == "waiting"

        async with node_worker(client, server.address, lease=LEASE, dies=True) as killed:
            await until(waits, 60, every=0.05)
            await run.cancel(grace="5s")
            assert await killed.wait() == -9
        clock.advance(seconds * SECOND)
        async with node_worker(client, server.address, lease=LEASE) as last:
            passing = asyncio.create_task(pass_leases(app, clock, last.pid))
            with pytest.raises(RunCancelled):
                await run.result(timeout="60s")
            passing.cancel()
        kinds = [event.kind for event in await run.history()]
        assert kinds == ["cancel", "clock", "step", "signal"]
    async with open_store(url) as store:
        assert await check(store) == []
    return run


def test_a_cleanup_in_node_goes_on_after_an_outage_that_is_longer_than_its_grace(
    client: Path | None, tmp_path: Path
) -> None:
    if client is not None:
        url = str(tmp_path / "onward.db")
        run = asyncio.run(clean_up_after_an_outage(client, url, seconds=30))
        command = [sys.executable, "-m", "onward", "runs", "show", run.id, "--db", url]
        shown = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        assert re.search(r"clock +clock +succeeded.*\n.*step +undo +succeeded", shown), shown


def test_a_node_worker_that_was_killed_and_a_python_worker_finish_their_runs(
    client: Path | None, tmp_path: Path
) -> None:
    if client is not None:
        asyncio.run(work_together(client, str(tmp_path / "onward.db")))


def test_a_run_in_node_that_sleeps_for_a_week_ends_right_wherever_its_worker_is_killed(
    client: Path | None, tmp_path: Path
) -> None:
    if client is not None:  # `python -m tests.clients.frame_kills` kills at every frame
        frames = (3, 9, 14)
        url = str(tmp_path / "onward.db")
        assert asyncio.run(FrameKills(client, url, frames).play()) == list(frames)
