"""Claims that leave runs because of their size."""

from __future__ import annotations

from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from onward.core.lease import LEASE
from onward.engine.local_worker import LocalWorker
from onward.engine.worker_engine import WorkerHooks
from onward.model.workers import Registration
from onward.store import Wanted, open_store
from onward.store.hints import queue_subject
from onward.system.clock import SystemClock
from tests.conformance.suite.samples import NAME, QUEUE, a_run

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from onward.store import Store

WORKER = "w"
REGISTRATION = Registration(WORKER, "host", 1, None, (QUEUE,), (), (NAME,))
WANTED = Wanted(WORKER, (QUEUE,), (NAME,), limit=10, max_bytes=1100)
"""Room for two runs."""


@asynccontextmanager
async def joined(store: Store) -> AsyncIterator[LocalWorker]:
    engine = LocalWorker(
        store, SystemClock(), None, WORKER, WorkerHooks(), group=store.group_commit
    )
    await engine.join(REGISTRATION, LEASE)
    yield engine
    engine.disconnect()


async def test_there_may_be_more_after_a_claim_that_was_cut_or_that_reached_its_limit() -> None:
    async with open_store(":memory:") as store, joined(store) as engine:
        for number in range(6):
            await store.start(a_run(str(number)))
        limited = replace(WANTED, limit=1)

        answers = [await engine.claim(wanted) for wanted in (WANTED, limited, WANTED, WANTED)]

        found = [(len(answer.runs), answer.may_be_more) for answer in answers]
        assert found == [(2, True), (1, True), (2, True), (1, False)]


async def test_other_workers_are_woken_after_a_claim_that_was_cut() -> None:
    """On Postgres their claims have passed by the runs that this one had locked and then left."""
    async with open_store(":memory:") as store, joined(store) as engine:
        for number in range(3):
            await store.start(a_run(str(number)))
        with store.subscribe([queue_subject(QUEUE), "end"]) as other:
            assert len((await engine.claim(WANTED)).runs) == 2
            assert await other.wait(20) == {queue_subject(QUEUE)}
            assert len((await engine.claim(WANTED)).runs) == 1
            store.database.publish({"end"})
            assert await other.wait(20) == {"end"}
