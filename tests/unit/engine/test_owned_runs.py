"""The engine sends the end of a run to its parent, whoever the worker is and whatever it forgot."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest

from onward.core.lease import LEASE, Fate
from onward.engine.local_worker import LocalWorker
from onward.engine.worker_engine import WorkerHooks
from onward.model.ends import read_child_end
from onward.model.runs import Move
from onward.model.workers import Registration
from onward.store import Commit, Wanted, open_store
from onward.system.clock import SystemClock
from tests.conformance.suite.samples import NAME, QUEUE, SUCCEEDED, a_message, a_run

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from onward.model.runs import ClaimedRun
    from onward.store import Store

WORKER = "w"
REGISTRATION = Registration(WORKER, "host", 1, None, (QUEUE,), (), (NAME,))
LONG = 20.0  # seconds: only a failing test waits that long


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest) -> str:
    return ":memory:" if request.param == "sqlite" else request.getfixturevalue("postgres_url")


@asynccontextmanager
async def connected(store: Store) -> AsyncIterator[LocalWorker]:
    """A remote worker's engine in one server process; each has the same worker id."""
    engine = LocalWorker(
        store, SystemClock(), None, WORKER, WorkerHooks(), group=store.group_commit
    )
    await engine.join(REGISTRATION, LEASE)
    try:
        yield engine
    finally:
        await engine.flush()
        engine.disconnect()


async def claimed(engine: LocalWorker, store: Store) -> ClaimedRun:
    """Return a child of a run that waits, claimed by the worker."""
    await store.start(a_run("parent")._replace(queue="elsewhere"))
    child = a_run("child")._replace(parent="uid-parent", parent_identity="child#1")
    await store.start(child)
    [run] = (await engine.claim(Wanted(WORKER, (QUEUE,), (NAME,), limit=1))).runs
    return run


async def fate_of(engine: LocalWorker, run: ClaimedRun, move: Move) -> Fate:
    answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    engine.submit(Commit(run.uid, run.fence, (), move), answer.set_result)
    outcome = await asyncio.wait_for(answer, LONG)
    fate: Fate = outcome.fate
    return fate


async def ends_at_parent(store: Store) -> list[tuple[str, str, bytes]]:
    rows = (await store.look(["uid-parent"]))["uid-parent"]
    ends = [(row.name, read_child_end(row.payload or b"")) for row in rows]
    return [(name, end.state, end.data) for name, end in ends]


async def test_the_end_of_a_run_is_sent_to_its_parent(url: str) -> None:
    async with open_store(url) as store, connected(store) as engine:
        run = await claimed(engine, store)

        assert await fate_of(engine, run, SUCCEEDED) is Fate.DONE

        assert await ends_at_parent(store) == [("child#1", "succeeded", b"j42")]


async def test_a_run_that_only_parks_sends_nothing(url: str) -> None:
    async with open_store(url) as store, connected(store) as engine:
        run = await claimed(engine, store)

        assert await fate_of(engine, run, Move("waiting")) is Fate.DONE

        assert await ends_at_parent(store) == []


async def test_a_run_that_was_claimed_through_another_process_ends_at_its_parent(url: str) -> None:
    async with open_store(url) as store:
        async with connected(store) as before:
            run = await claimed(before, store)
        async with connected(store) as engine:
            assert await engine.resume({run.uid: run.fence}) == []

            assert await fate_of(engine, run, SUCCEEDED) is Fate.DONE

        assert await ends_at_parent(store) == [("child#1", "succeeded", b"j42")]


async def test_an_end_that_comes_before_its_run_was_resumed_reaches_the_parent(url: str) -> None:
    async with open_store(url) as store:
        async with connected(store) as before:
            run = await claimed(before, store)
        async with connected(store) as engine:
            assert await fate_of(engine, run, SUCCEEDED) is Fate.DONE

        assert await ends_at_parent(store) == [("child#1", "succeeded", b"j42")]


async def test_an_end_whose_reply_was_lost_is_recognised_by_another_process(url: str) -> None:
    async with open_store(url) as store:
        async with connected(store) as before:
            run = await claimed(before, store)
            assert await fate_of(before, run, SUCCEEDED) is Fate.DONE
        async with connected(store) as engine:
            assert await engine.resume({run.uid: run.fence}) == [run.uid]
            assert await fate_of(engine, run, SUCCEEDED) is Fate.DONE

        assert len(await ends_at_parent(store)) == 1


async def test_runs_that_are_not_the_workers_any_more_are_returned_and_write_nothing(
    url: str,
) -> None:
    async with open_store(url) as store:
        async with connected(store) as before:
            run = await claimed(before, store)
        assert await store.audit(WORKER, ()) == [run.uid]
        async with connected(store) as engine:
            held = {run.uid: run.fence, "uid-parent": 1, "never seen": 1}
            assert await engine.resume(held) == list(held)
            assert await fate_of(engine, run, SUCCEEDED) is Fate.LOST

        assert await ends_at_parent(store) == []


async def test_the_changes_of_resumed_runs_are_news(url: str) -> None:
    async with open_store(url) as store:
        async with connected(store) as before:
            run = await claimed(before, store)
        async with connected(store) as engine:
            await engine.resume({run.uid: run.fence})
            await store.send(a_message(run.uid, "m1"))

            async with asyncio.timeout(LONG):
                while run.uid not in (await engine.wait(LONG)).runs:
                    pass
