"""Python and Node work on the same runs, through a real server."""

import asyncio
from pathlib import Path

from onward import App, StepFailed, step, workflow
from onward.server.process import OnwardServer
from tests.clients.frame_kills import RESULT, FrameKills, node_worker, order

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
