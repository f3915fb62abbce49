"""Several processes on one SQLite file: what only a file can show."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

import pytest

from onward.errors import StoreUnusable
from onward.store import open_store
from onward.store.hints import ANYTHING, queue_subject
from onward.store.invariants import check
from onward.store.sqlite import admission
from onward.testing.conformance.samples import a_run
from onward.testing.conformance.worker import Worker
from tests.conformance.child import Child

if TYPE_CHECKING:
    from pathlib import Path

    from onward.store import Store

LONG = 20.0  # seconds: only a failing test waits that long


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "onward.db"


async def a_worker(store: Store) -> Worker:
    await store.take_lease("heir")
    return Worker(store, "heir")


async def test_a_worker_that_lives_keeps_its_runs_and_one_that_died_is_adopted_at_once(
    path: Path,
) -> None:
    async with open_store(str(path)) as store, Child(path) as child:
        heir = await a_worker(store)
        await store.start(a_run("a"))
        await child.ask("open")
        assert await child.ask("claim", "doomed") == "a"
        assert await heir.claim() == []

        await child.die()

        [run] = await heir.claim()
        assert (run.id, run.crashes) == ("a", 1)
        assert await store.renew_lease("doomed") is None
        assert await check(store) == []


async def test_a_worker_that_closed_its_store_without_a_word_is_adopted_at_once(
    path: Path,
) -> None:
    async with open_store(str(path)) as store, Child(path) as child:
        heir = await a_worker(store)
        await store.start(a_run("a"))
        await child.ask("open")
        assert await child.ask("claim", "careless") == "a"

        await child.ask("close")

        assert [run.id for run in await heir.claim()] == ["a"]


async def test_a_claim_in_one_process_is_seen_in_the_other(path: Path) -> None:
    async with open_store(str(path)) as store, Child(path) as child:
        await child.ask("open")
        await store.start(a_run("a"))
        assert await child.ask("claim", "first") == "a"

        assert await (await a_worker(store)).claim() == []
        await child.ask("start", "b")
        assert await store.counts() == {"ready": 1, "running": 1}


async def test_an_ear_hears_what_another_process_wrote(path: Path) -> None:
    async with open_store(str(path)) as store, Child(path) as child:
        await child.ask("open")
        with store.ear([queue_subject("default")]) as ear:
            listening = asyncio.create_task(ear.wait(LONG))
            await child.ask("start", "a")
            assert await listening == {ANYTHING}


async def test_processes_that_open_a_new_file_at_once_migrate_it_once(path: Path) -> None:
    async with AsyncExitStack() as stack:
        children = [await stack.enter_async_context(Child(path)) for _ in range(4)]
        for child in children:
            await child.ask("hello")  # it has started, and is as quick as the others now

        answers = await asyncio.gather(*(child.ask("open") for child in children))

        assert answers == ["schema is there"] * 4
        names = "abcd"
        for child, name in zip(children, names, strict=True):
            assert await child.ask("start", name) == "started"
    async with open_store(str(path)) as store:
        assert await store.counts() == {"ready": 4}
        assert await check(store) == []


async def test_a_callers_transaction_is_refused_where_it_could_damage_the_file(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    connection = sqlite3.connect(path)
    async with open_store(str(path)) as store, Child(path) as child:
        monkeypatch.setattr(admission, "has_wal_reset_bug", lambda: True)
        assert await store.within(connection).state("a") is None

        await child.ask("open")

        with pytest.raises(StoreUnusable, match=r"onward\[sqlite\]"):
            await store.within(connection).start(a_run("a"))
        monkeypatch.setattr(admission, "has_wal_reset_bug", lambda: False)
        assert await store.within(connection).state("a") is None
    connection.close()
