"""No wake-up is lost between a run that parks and whoever wakes it, in whatever order they meet."""

import asyncio

import pytest

from onward.core.lease import Fate
from onward.model.runs import Move
from onward.store import Commit, Store, open_store
from onward.store.invariants import check
from tests.postgres.builders import WORKER, a_message, a_record, a_run, claimed, wanted
from tests.postgres.hand import hand, until

# How one would write it without a counter: each looks at what the other has done so far.
PARK_IF_NO_CHILD_IS_DONE = """
    UPDATE onward.onward_run SET state = 'waiting', worker = NULL
    WHERE uid = 'parent' AND NOT EXISTS (
        SELECT 1 FROM onward.onward_run WHERE parent = 'parent' AND state = 'succeeded')
"""
FINISH_AND_WAKE_IF_WAITING = """
    WITH done AS (
        UPDATE onward.onward_run SET state = 'succeeded', worker = NULL, finished_at = 0
        WHERE uid = 'child')
    UPDATE onward.onward_run SET state = 'ready', due = 0
    WHERE uid = 'parent' AND state = 'waiting'
"""

# How one would write a batch in which one run parks and is woken.
PARK_AND_WAKE_AT_ONCE = """
    WITH parked AS (
        UPDATE onward.onward_run SET state = 'waiting', worker = NULL WHERE uid = 'parent'),
    woken AS (
        UPDATE onward.onward_run SET inbox = inbox + 1,
            state = CASE state WHEN 'waiting' THEN 'ready' ELSE state END
        WHERE uid = 'parent')
    SELECT 1
"""


async def parent_and_child(store: Store) -> tuple[Commit, Commit]:
    """Claim a parent and its child; return the parent's park and the child's end."""
    await store.start(a_run("parent"))
    await store.start(a_run("child", parent="parent"))
    owned = await claimed(store)
    wait = a_record("parent", None, kind="child")
    park = Commit("parent", owned["parent"].fence, (wait,), Move("waiting", seen=0))
    told = a_message("parent", "child", kind="child")
    end = Commit("child", owned["child"].fence, move=Move("succeeded"), messages=(told,))
    return park, end


async def test_looking_before_parking_loses_the_wake_up(postgres_url: str) -> None:
    url = postgres_url
    async with open_store(url) as store, hand(url) as parent, hand(url) as child:
        await parent_and_child(store)
        await parent.begin()
        await child.begin()
        await parent.run(PARK_IF_NO_CHILD_IS_DONE)
        await child.run(FINISH_AND_WAKE_IF_WAITING)
        await child.commit()
        await parent.commit()
        assert await store.counts() == {"succeeded": 1, "waiting": 1}
        assert await store.claim(wanted()) == []  # nobody will ever wake it


async def test_a_run_that_parks_first_is_woken_by_the_end_that_waits_for_it(
    postgres_url: str,
) -> None:
    url = postgres_url
    async with open_store(url) as store, hand(url) as parent, hand(url) as child, hand(url) as eyes:
        park, end = await parent_and_child(store)
        await parent.begin()
        assert (await parent.write(WORKER, park)).fates == {"parent": Fate.DONE}
        async with asyncio.TaskGroup() as tasks:
            ending = tasks.create_task(child.write(WORKER, end))
            await until(eyes.somebody_waits)
            await parent.commit()
        assert ending.result().queues == {"default"}
        assert [run.uid for run in await store.claim(wanted())] == ["parent"]
        assert await check(store) == []


async def test_a_run_that_parks_while_it_is_woken_is_told_to_look_again(postgres_url: str) -> None:
    url = postgres_url
    async with open_store(url) as store, hand(url) as parent, hand(url) as child, hand(url) as eyes:
        park, end = await parent_and_child(store)
        await child.begin()
        assert (await child.write(WORKER, end)).fates == {"child": Fate.DONE}
        async with asyncio.TaskGroup() as tasks:
            parking = tasks.create_task(parent.write(WORKER, park))
            await until(eyes.somebody_waits)
            await child.commit()
        assert parking.result().fates == {"parent": Fate.BUSY}
        assert (await store.run("parent")).state == "running"
        assert [m.message for m in (await store.look(["parent"]))["parent"]] == ["child"]
        assert await store.history(["parent"]) == {"parent": []}  # nothing of a refused commit


async def test_one_statement_that_changes_a_row_twice_drops_one_of_the_changes(
    postgres_url: str,
) -> None:
    async with open_store(postgres_url) as store, hand(postgres_url) as naive:
        await parent_and_child(store)
        await naive.run(PARK_AND_WAKE_AT_ONCE)
        run = await store.run("parent")
        assert (run.state, run.inbox) in {("waiting", 0), ("running", 1)}  # either, never both


@pytest.mark.parametrize("parks_first", [True, False])
async def test_a_park_and_a_wake_of_one_run_submitted_together_lose_nothing(
    postgres_url: str, parks_first: bool
) -> None:
    async with open_store(postgres_url) as store:
        park, end = await parent_and_child(store)
        writer = store.writer(WORKER)
        lane = writer.group.lanes[0]
        writer.group.lanes = [lane]  # both in one lane, so that they meet in its folding
        order = [park, end] if parks_first else [end, park]
        outcomes = await asyncio.gather(*map(writer.commit, order))
        assert lane.batches == 2
        fates = {commit.run: outcome.fate for commit, outcome in zip(order, outcomes, strict=True)}
        run = await store.run("parent")
        assert (fates["child"], run.inbox) == (Fate.DONE, 1)
        if parks_first:
            assert (fates["parent"], run.state) == (Fate.DONE, "ready")
        else:
            assert (fates["parent"], run.state) == (Fate.BUSY, "running")
        assert await check(store) == []


async def test_a_child_told_in_the_commit_that_starts_it_finds_the_message(
    postgres_url: str,
) -> None:
    async with open_store(postgres_url) as store:
        fence = (await claimed(store, "parent"))["parent"].fence
        commit = Commit(
            "parent",
            fence,
            starts=(a_run("child"), a_run("late", delay_in=10**9)),
            messages=(a_message("child", "m1"), a_message("child", "m2"), a_message("late")),
        )
        assert (await store.writer(WORKER).commit(commit)).fate is Fate.DONE
        found = await store.look(["child", "late"])
        assert [(m.seq, m.message) for m in found["child"]] == [(1, "m1"), (2, "m2")]
        assert [(m.seq, m.message) for m in found["late"]] == [(1, "m1")]
        assert [(await store.run(uid)).inbox for uid in found] == [2, 1]
        assert (await store.run("late")).state == "waiting"  # a message begins nothing early
        assert await check(store) == []
