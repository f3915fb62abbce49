"""`app.workers` lists workers with what they serve and do, and drains them from elsewhere."""

from __future__ import annotations

import asyncio
import os

import pytest

from onward import App, step, workflow
from onward.core.instant import SECOND
from onward.engine.worker_engine import WorkerHooks
from onward.errors import NotFound
from onward.model.workers import LostWorker, Registration
from tests.kit.watching import until

may_end = asyncio.Event()


@step
async def weigh() -> str:
    await may_end.wait()
    return "heavy"


@workflow
async def parcel() -> str:
    return await weigh()


@pytest.fixture(autouse=True)
def _closed() -> None:
    global may_end
    may_end = asyncio.Event()


async def test_a_worker_is_listed_with_what_it_serves_and_does(app: App) -> None:
    async with app, app.worker(workflows=[parcel], queues=["default", "mail"], slots=7, tags=["x"]):
        run = await app.start(parcel)
        await until(lambda: _state_is(run.state, "running"))
        [worker] = await app.workers.list()
        assert worker.state == "alive"
        assert (worker.pid, worker.workflows) == (os.getpid(), ("parcel",))
        assert (worker.queues, worker.tags) == (("default", "mail"), ("x",))
        assert (worker.slots, worker.running) == (7, 1)
        assert worker.renewed_at is not None
        may_end.set()
        await run.result(timeout="60s")


async def _state_is(state: object, wanted: str) -> bool:
    return bool(await state() == wanted)  # type: ignore[operator] # a method of a run


async def test_a_worker_that_left_is_listed_on_request(app: App) -> None:
    async with app:
        async with app.worker(workflows=[parcel]):
            pass
        assert await app.workers.list() == []
        [worker] = await app.workers.list(gone=True)
        assert worker.state == "left"
        assert worker.left_at is not None


async def test_a_drained_worker_finishes_its_step_and_takes_nothing_new(
    app: App, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    async with app, app.worker(workflows=[parcel]) as worker:
        run = await app.start(parcel)
        await until(lambda: _state_is(run.state, "running"))
        assert await app.workers.drain(worker.id)
        assert (await app.workers.list())[0].draining
        await until(lambda: "worker.stopping" in caplog.text)
        late = await app.start(parcel)
        may_end.set()
        assert await run.result(timeout="60s") == "heavy"
        await until(lambda: _is_in(app, "left"))
        assert await late.state() == "ready"
        assert not await app.workers.drain(worker.id)


async def test_a_worker_that_is_stopped_is_listed_as_draining(app: App) -> None:
    async with app, app.worker(workflows=[parcel]) as worker:
        run = await app.start(parcel)
        await until(lambda: _state_is(run.state, "running"))
        worker.stop()
        await until(lambda: _is_in(app, "draining"))
        may_end.set()
        await until(lambda: _is_in(app, "left"))


@pytest.mark.parametrize("is_drained", [True, False])
async def test_a_drain_holds_for_the_session_that_follows_a_lost_lease(
    app: App, is_drained: bool
) -> None:
    orders: list[str] = []

    async with app:
        for name, before in (("old", None), ("new", LostWorker("old", {}))):
            hooks = WorkerHooks(on_drain=lambda name=name: orders.append(name))  # type: ignore[misc]
            engine = app._engine.worker(name, hooks)
            given = Registration(name, "host", 1, None, ("default",), (), ("parcel",))
            await engine.join(given, 10 * SECOND, before)
            engine.disconnect()
            if is_drained:
                await app.workers.drain("old")
        states = {worker.id: worker.state for worker in await app.workers.list(gone=True)}

    assert orders == (["new"] if is_drained else [])
    assert states == {"old": "left", "new": "draining" if is_drained else "alive"}


async def test_a_drained_worker_is_replaced_by_another(app: App) -> None:
    may_end.set()
    first, second = app.worker(workflows=[parcel]), app.worker(workflows=[parcel])
    async with app, first as old, second as new:
        assert await app.workers.drain(old.id)
        await until(lambda: _is_in(app, "left"))
        assert await app.run(parcel) == "heavy"
        assert [worker.id for worker in await app.workers.list()] == [new.id]


async def _is_in(app: App, state: str) -> bool:
    return state in {worker.state for worker in await app.workers.list(gone=True)}


async def test_an_unknown_worker_cannot_be_drained(app: App) -> None:
    async with app:
        with pytest.raises(NotFound, match="worker 'nobody'"):
            await app.workers.drain("nobody")


async def test_workflows_that_are_defined_later_are_listed(app: App) -> None:
    async with app, app.worker():

        @workflow(name="defined-later-in-this-test")
        async def later() -> int:
            return 1

        assert await app.run(later) == 1
        [worker] = await app.workers.list()
        assert "defined-later-in-this-test" in worker.workflows
