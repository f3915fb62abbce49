"""Whoever ends a run from outside and its owner meet: one of them is first, and both know which."""

import asyncio

import pytest

from onward.core.lease import Fate
from onward.model.runs import Move
from onward.model.stopping import ForcedEnd
from onward.store import Commit, Following, Store, open_store
from onward.store.invariants import check
from onward.store.runs.following import follow
from onward.store.runs.stopping import overdue, stop
from tests.postgres.builders import OTHER, WORKER, a_message, a_record, a_run, claimed
from tests.postgres.hand import Hand, hand, until
from tests.postgres.test_deadlocks import look_soon, none_happened

FORCED = ForcedEnd("cancelled", "forced")
CHILD = a_run("child", parent="r", parent_identity="child#1", cancel_with_parent=1)
ROUNDS = 30

COMMITS = {
    "a child": Commit("r", 1, (a_record("r"),), starts=(CHILD,)),
    "an end": Commit("r", 1, (a_record("r"),), Move("succeeded", result=b"1")),
    "a park": Commit("r", 1, (a_record("r"),), Move("waiting", due_in=1000)),
}


async def force(store: Store, target: str) -> str:
    return (await store.stop(target, state="cancelled", reason="forced")).fate


async def test_reading_the_owner_without_a_lock_lets_a_child_be_born_to_the_dead(
    postgres_url: str,
) -> None:
    """How one would write it: look whose run it is, and start the child."""
    start = """
        INSERT INTO onward.onward_run (namespace, uid, id, kind, name, queue, state, due, parent,
                                       parent_identity, cancel_with_parent, created_at, updated_at)
        SELECT 'default', 'child', 'child', 'workflow', 'hello', 'default', 'ready', 0, uid,
               'child#1', 1, 0, 0
        FROM onward.onward_run WHERE uid = 'r' AND fence = 1 AND state = 'running'
    """
    async with open_store(postgres_url) as store, hand(postgres_url) as owner:
        await claimed(store, "r")
        await owner.begin()
        await owner.run(start)
        assert await force(store, "r") == "stopped"
        await owner.commit()
        assert (await store.run("child")).inbox == 0  # nobody told it that its parent is over


@pytest.mark.parametrize("kind", COMMITS)
async def test_a_stop_that_comes_second_goes_by_what_the_owner_wrote(
    postgres_url: str, kind: str
) -> None:
    url = postgres_url
    async with open_store(url) as store, hand(url) as owner, hand(url) as eyes:
        await claimed(store, "r")
        await owner.begin()
        assert (await owner.write(WORKER, COMMITS[kind])).fates == {"r": Fate.DONE}
        async with asyncio.TaskGroup() as tasks:
            stopping = tasks.create_task(force(store, "r"))
            await until(eyes.somebody_waits)
            await owner.commit()
        assert stopping.result() == ("over" if kind == "an end" else "stopped")
        told = (await store.look(["child"]))["child"]
        assert [message.message for message in told] == (["cancel"] if kind == "a child" else [])
        assert await check(store) == []


@pytest.mark.parametrize("kind", COMMITS)
async def test_an_owner_that_comes_second_is_lost(postgres_url: str, kind: str) -> None:
    url = postgres_url
    async with open_store(url) as store, hand(url) as stopper, hand(url) as eyes:
        await claimed(store, "r")
        await stopper.begin()
        stopped, _ = await stop(stopper.tx, "r", FORCED)
        assert stopped.fate == "stopped"
        async with asyncio.TaskGroup() as tasks:
            ours = tasks.create_task(store.writer(WORKER).commit(COMMITS[kind]))
            await until(eyes.somebody_waits)
            await stopper.commit()
        assert ours.result().fate is Fate.LOST
        assert await store.history(["r"]) == {"r": []}
        assert await store.counts() == {"cancelled": 1}
        assert await check(store) == []


async def test_two_who_stop_a_run_at_once_tell_its_parent_once(postgres_url: str) -> None:
    url = postgres_url
    async with open_store(url) as store, hand(url) as first, hand(url) as eyes:
        await claimed(store, "parent")
        await store.start(a_run("r", parent="parent", parent_identity="r#1"))
        await first.begin()
        await stop(first.tx, "r", FORCED)
        async with asyncio.TaskGroup() as tasks:
            second = tasks.create_task(force(store, "id of r"))
            await until(eyes.somebody_waits)
            await first.commit()
        assert second.result() == "over"
        assert len((await store.look(["parent"]))["parent"]) == 1


async def test_a_stop_by_id_reaches_the_run_that_follows_just_now(postgres_url: str) -> None:
    url = postgres_url
    async with open_store(url) as store, hand(url) as owner, hand(url) as eyes:
        await claimed(store, "r")
        await owner.begin()
        await continued(owner)
        async with asyncio.TaskGroup() as tasks:
            stopping = tasks.create_task(force(store, "id of r"))
            await until(eyes.somebody_waits)
            await owner.commit()
        assert stopping.result() == "stopped"
        assert [(await store.run(uid)).state for uid in ("r", "next")] == ["succeeded", "cancelled"]


async def continued(owner: Hand) -> None:
    """Let the run `r` go on as a new one, in the transaction that is open here."""
    end = Move("succeeded", "continued")
    wish = Following("r", "next", "continued_from", 0, worker=WORKER, fence=1, end=end)
    assert (await follow(owner.tx, wish))[0].fate == "made"


async def test_stops_and_ends_in_one_family_never_deadlock(postgres_url: str) -> None:
    """An end tells the parent, a stop tells parent and children: all lock in one order."""
    url = postgres_url
    await look_soon(url)
    async with open_store(url) as one, open_store(url) as two:
        for number in range(ROUNDS):
            family = [f"{number}-a", f"{number}-b", f"{number}-c"]
            top, middle, low = family if number % 2 else reversed(family)
            await one.start(a_run(top))
            await one.start(a_run(middle, parent=top, parent_identity="m#1", cancel_with_parent=1))
            await one.start(a_run(low, parent=middle, parent_identity="l#1", cancel_with_parent=1))
            await claimed(one)
            told = a_message(top, "child m#1", kind="child")
            end = Commit(middle, 1, move=Move("succeeded"), messages=(told,))
            lower = a_message(middle, "child l#1", kind="child")
            last = Commit(low, 1, move=Move("succeeded"), messages=(lower,))
            await asyncio.gather(
                one.writer(WORKER).commit(end),
                force(two, middle),
                one.writer(WORKER).commit(last),
                force(two, top),
                force(one, low),
            )
        assert await check(one) == []
    await none_happened(url)


# --- deadlines ------------------------------------------------------------------------------------


async def test_a_second_look_at_deadlines_finds_what_the_first_has_told(postgres_url: str) -> None:
    url = postgres_url
    async with open_store(url) as store, hand(url) as first, hand(url) as eyes:
        await store.start(a_run("began", deadline=1))
        await claimed(store)
        await store.start(a_run("new", deadline=1))
        await first.begin()
        assert (await overdue(first.tx, 100))[0] == 2
        async with asyncio.TaskGroup() as tasks:
            second = tasks.create_task(store.overdue())
            await until(eyes.somebody_waits)
            await first.commit()
        assert second.result() == 0
        assert [m.message for m in (await store.look(["began"]))["began"]] == ["deadline"]
        assert (await store.run("new")).state == "timed_out"
        assert await check(store) == []


@pytest.mark.parametrize("how", ["ended", "followed"])
async def test_a_run_that_got_on_just_now_is_not_told_of_its_deadline(
    postgres_url: str, how: str
) -> None:
    url = postgres_url
    async with open_store(url) as store, hand(url) as owner, hand(url) as eyes:
        await store.start(a_run("r", deadline_in=1))
        await claimed(store)
        await owner.begin()
        if how == "ended":
            await owner.write(WORKER, COMMITS["an end"])
        else:
            await owner.write(WORKER, Commit("r", 1, move=Move("failed", "logic")))
            wish = Following("r", "next", "retry_of", 0, delay_in=10**9)
            assert (await follow(owner.tx, wish))[0].fate == "made"
        async with asyncio.TaskGroup() as tasks:
            looking = tasks.create_task(store.overdue())
            await until(eyes.somebody_waits)
            await owner.commit()
        assert looking.result() == 0
        found = await store.look(["r", "next"])
        assert not any(found.values())


async def test_a_run_that_is_claimed_just_now_is_told_and_not_ended(postgres_url: str) -> None:
    url = postgres_url
    claim = """UPDATE onward.onward_run SET state = 'running', worker = $1, fence = 1, due = NULL
               WHERE uid = 'r'"""
    async with open_store(url) as store, hand(url) as claimer, hand(url) as eyes:
        await store.start(a_run("r", deadline=1))
        await store.take_lease(OTHER)
        await claimer.begin()
        await claimer.run(claim, OTHER)
        async with asyncio.TaskGroup() as tasks:
            looking = tasks.create_task(store.overdue())
            await until(eyes.somebody_waits)
            await claimer.commit()
        assert looking.result() == 1
        assert (await store.run("r")).state == "running"
        assert [m.message for m in (await store.look(["r"]))["r"]] == ["deadline"]
