"""While one run follows another, messages find one of them, and nobody else takes the place."""

import asyncio

import pytest

from onward.model.runs import Move
from onward.store import Following, Store, open_store
from onward.store.invariants import check
from onward.store.runs.following import follow
from tests.postgres.builders import LONG, OTHER, WORKER, a_message, a_run, claimed, wanted
from tests.postgres.hand import Hand, hand, until

CONTINUED = Following(
    "r",
    "next",
    "continued_from",
    0,
    worker=WORKER,
    fence=1,
    end=Move("succeeded", "continued"),
)
RETRY = Following("r", "next", "retry_of", None)


async def failed(store: Store) -> None:
    """Leave a run `r` that failed."""
    await claimed(store, "r")
    await store.stop("r", state="failed", reason="logic")


async def follows(owner: Hand, wish: Following) -> None:
    assert (await follow(owner.tx, wish))[0].fate == "made"


@pytest.mark.parametrize("target", ["r", "id of r"])
async def test_a_signal_that_waits_for_a_follow_reaches_the_new_run(
    postgres_url: str, target: str
) -> None:
    url = postgres_url
    async with open_store(url) as store, hand(url) as owner, hand(url) as eyes:
        await claimed(store, "r")
        await owner.begin()
        await follows(owner, CONTINUED)
        async with asyncio.TaskGroup() as tasks:
            sending = tasks.create_task(store.send(a_message(target)))
            await until(eyes.somebody_waits)
            await owner.commit()
        assert (sending.result().uid, sending.result().fate) == ("next", "delivered")
        assert await store.look(["r"]) == {"r": []}
        assert await check(store) == []


async def test_the_end_of_a_child_that_waits_for_a_follow_is_not_for_the_new_run(
    postgres_url: str,
) -> None:
    url = postgres_url
    async with open_store(url) as store, hand(url) as owner, hand(url) as eyes:
        await claimed(store, "r")
        await owner.begin()
        await follows(owner, CONTINUED)
        async with asyncio.TaskGroup() as tasks:
            sending = tasks.create_task(store.send(a_message("r", "child c#1", kind="child")))
            await until(eyes.somebody_waits)
            await owner.commit()
        assert (sending.result().uid, sending.result().fate) == ("r", "ended")
        assert await store.look(["next"]) == {"next": []}


async def test_a_follow_that_waits_for_a_signal_takes_it_over(postgres_url: str) -> None:
    url = postgres_url
    async with open_store(url) as store, hand(url) as sender, hand(url) as eyes:
        await claimed(store, "r")
        await sender.begin()
        [sent] = await sender.tx.send([a_message("id of r")])
        assert (sent.uid, sent.seq) == ("r", 1)
        async with asyncio.TaskGroup() as tasks:
            following = tasks.create_task(store.follow(CONTINUED))
            await until(eyes.somebody_waits)
            await sender.commit()
        assert following.result().fate == "made"
        assert [(m.seq, m.message) for m in (await store.look(["next"]))["next"]] == [(1, "m1")]
        assert await check(store) == []


async def test_a_follow_that_waits_for_a_signal_it_has_not_seen_is_told_to_look(
    postgres_url: str,
) -> None:
    url = postgres_url
    async with open_store(url) as store, hand(url) as sender, hand(url) as eyes:
        await claimed(store, "r")
        await sender.begin()
        await sender.tx.send([a_message("r")])
        wish = CONTINUED._replace(end=Move("succeeded", "continued", seen=0))
        async with asyncio.TaskGroup() as tasks:
            following = tasks.create_task(store.follow(wish))
            await until(eyes.somebody_waits)
            await sender.commit()
        assert following.result().fate == "busy"
        assert (await store.run("r")).state == "running"


@pytest.mark.parametrize("same", [True, False])
async def test_of_two_that_follow_at_once_one_does(postgres_url: str, same: bool) -> None:
    """The same wish is met twice when its reply was lost: then both are right."""
    url = postgres_url
    async with open_store(url) as store, hand(url) as first, hand(url) as eyes:
        await failed(store)
        await first.begin()
        await follows(first, RETRY)
        wish = RETRY if same else RETRY._replace(new_uid="other")
        async with asyncio.TaskGroup() as tasks:
            second = tasks.create_task(store.follow(wish))
            await until(eyes.somebody_waits)
            await first.commit()
        assert second.result()[:2] == ("next", "made" if same else "taken")
        assert await store.counts() == {"ready": 1}
        assert await check(store) == []


async def test_a_start_that_waits_for_a_follow_makes_no_run(postgres_url: str) -> None:
    url = postgres_url
    async with open_store(url) as store, hand(url) as first, hand(url) as eyes:
        await failed(store)
        await first.begin()
        await follows(first, RETRY)
        async with asyncio.TaskGroup() as tasks:
            starting = tasks.create_task(store.start(a_run("other", id="id of r")))
            await until(eyes.somebody_waits)
            await first.commit()
        assert not starting.result().created
        assert (await store.newest("id of r")).uid == "next"
        assert await store.counts() == {"ready": 1}
        assert await check(store) == []


async def test_a_fork_beside_and_a_start_of_one_id_at_once_are_one_run(postgres_url: str) -> None:
    url = postgres_url
    async with open_store(url) as store, hand(url) as starter, hand(url) as eyes:
        await failed(store)
        await starter.begin()
        started = await starter.tx.fetch("insert_run", **a_run("first", id="b")._asdict())
        assert started
        await starter.tx.fetch("insert_run_data", **a_run("first")._asdict())
        async with asyncio.TaskGroup() as tasks:
            wish = Following("r", "fork", "forked_from", 0, id="b")
            forking = tasks.create_task(store.follow(wish))
            await until(eyes.somebody_waits)
            await starter.commit()
        assert forking.result()[:2] == ("first", "taken")
        assert await check(store) == []


async def test_whoever_takes_a_worker_over_waits_for_its_follow(postgres_url: str) -> None:
    url = postgres_url
    async with open_store(url) as store, hand(url) as owner, hand(url) as eyes:
        await claimed(store, "r")
        await store.take_lease(OTHER, LONG)
        await owner.begin()
        await follows(owner, CONTINUED)
        async with asyncio.TaskGroup() as tasks:
            taking = tasks.create_task(store.drop_lease(WORKER))
            await until(eyes.somebody_waits)
            assert not taking.done()
            await owner.commit()
        assert [run.uid for run in await store.claim(wanted(OTHER))] == ["next"]


async def test_an_owner_whose_lease_is_taken_just_now_is_lost(postgres_url: str) -> None:
    url = postgres_url
    async with open_store(url) as store, hand(url) as taker, hand(url) as eyes:
        await claimed(store, "r")
        await taker.begin()
        await taker.tx.fetch("drop_lease", worker=WORKER)
        async with asyncio.TaskGroup() as tasks:
            following = tasks.create_task(store.follow(CONTINUED))
            await until(eyes.somebody_waits)
            await taker.commit()
        assert following.result().fate == "lost"
        assert await store.counts() == {"running": 1}
