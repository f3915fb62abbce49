"""Several processes on one SQLite file: what only a file can show."""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

import pytest

from onward.core.instant import SECOND
from onward.errors import StoreUnusable, Unavailable
from onward.store import open_store
from onward.store.hints import ANYTHING, queue_subject
from onward.store.invariants import check
from onward.store.sqlite import admission, waiting, watch
from tests.conformance.child import Child
from tests.conformance.suite.samples import a_run
from tests.conformance.suite.worker import Worker

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


async def test_a_dead_worker_is_adopted_although_one_of_another_namespace_looks_first(
    path: Path,
) -> None:
    async with (
        open_store(str(path), namespace="a") as other,
        open_store(str(path), namespace="b") as store,
        Child(path) as child,
    ):
        stranger, heir = await a_worker(other), await a_worker(store)
        await store.start(a_run("a"))
        assert await child.ask("claim", "doomed", "b") == "a"
        await child.die()

        assert await stranger.claim() == []

        assert [run.id for run in await heir.claim()] == ["a"]


# --- forked and frozen processes ------------------------------------------------------------------


async def test_a_forked_child_that_outlives_its_parent_blocks_no_process(path: Path) -> None:
    async with open_store(str(path)) as store, Child(path) as child:
        heir = await a_worker(store)
        await store.start(a_run("a"))
        await child.ask("open")
        assert await child.ask("claim", "doomed") == "a"
        await child.fork()
        await child.freeze_in_commit()
        await child.die()

        async with asyncio.timeout(LONG):
            assert (await store.start(a_run("b"))).created
            assert {run.id for run in await heir.claim()} == {"a", "b"}


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting, "WAIT_LIMIT", SECOND // 10)
    monkeypatch.setattr(waiting, "SHORT_LIMIT", SECOND // 100)


@pytest.mark.usefixtures("impatient")
async def test_a_process_frozen_in_a_commit_makes_the_store_unavailable_until_it_goes_on(
    path: Path,
) -> None:
    async with open_store(str(path)) as store, Child(path) as child:
        await child.ask("open")
        await child.freeze_in_commit()

        for _ in range(2):
            with pytest.raises(Unavailable, match=rf"is locked by process {child.pid}\b"):
                await store.start(a_run("a"))
        assert await store.counts() == {}  # whoever only reads is not held up

        child.thaw()
        async with asyncio.timeout(LONG):
            while True:
                with contextlib.suppress(Unavailable):
                    await store.start(a_run("a"))
                    break
        assert await store.counts() == {"ready": 2}


# --- hints ----------------------------------------------------------------------------------------


async def test_an_ear_hears_what_another_process_wrote(path: Path) -> None:
    async with open_store(str(path)) as store, Child(path) as child:
        await child.ask("open")
        with store.subscribe([queue_subject("default")]) as subscription:
            listening = asyncio.create_task(subscription.wait(LONG))
            await child.ask("start", "a")
            assert await listening == {ANYTHING}


async def test_what_another_process_commits_between_two_commits_of_ours_is_heard(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watch, "LOOK_EVERY", 3600 * SECOND)  # only transactions look
    async with open_store(str(path)) as store, Child(path) as child:
        await child.ask("open")
        with store.subscribe([queue_subject("elsewhere")]) as subscription:
            for number in range(3):
                await store.start(a_run(f"before-{number}"))
                await child.ask("start", f"theirs-{number}")
                await store.start(a_run(f"after-{number}"))
                assert await subscription.wait(LONG) == {ANYTHING}


async def test_what_a_caller_commits_through_a_connection_of_its_own_is_heard(path: Path) -> None:
    async with open_store(str(path)) as store:
        connection = sqlite3.connect(path)
        with store.subscribe([queue_subject("default")]) as subscription:
            await store.within(connection).start(a_run("a"))
            assert await subscription.wait(0) == set()
            connection.commit()
            assert await subscription.wait(LONG) == {ANYTHING}
        connection.close()


async def test_our_own_commits_are_no_news_from_others(path: Path) -> None:
    async with open_store(str(path)) as store:
        with store.subscribe([queue_subject("elsewhere")]) as subscription:
            for name in "abc":
                await store.start(a_run(name))
            assert await subscription.wait(0.1) == set()


# --- files ----------------------------------------------------------------------------------------


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
        assert await store.within(connection).find("a") is None

        await child.ask("open")

        with pytest.raises(StoreUnusable, match=r"onward\[sqlite\]"):
            await store.within(connection).start(a_run("a"))
        monkeypatch.setattr(admission, "has_wal_reset_bug", lambda: False)
        assert await store.within(connection).find("a") is None
    connection.close()
