"""Limits hold however many claim at once, from however many connections."""

import asyncio

from onward.core.run import rooms_beside
from onward.model.claims import Wanted
from onward.model.runs import ClaimedRun, Move
from onward.store import Commit, Store, open_store
from onward.store.invariants import check
from onward.store.postgres import claim as claiming
from tests.postgres.builders import LONG, OTHER, WORKER, a_run, wanted
from tests.postgres.hand import Hand, hand, until
from tests.postgres.test_claims import prepare

ROUNDS = 15
CROWD = 4

# How one would write it: count, and take what is left, without holding anything.
TAKE_IF_THERE_IS_ROOM = """
    UPDATE onward.onward_run SET state = 'running', worker = $1, fence = 1, due = NULL
    WHERE uid IN (
        SELECT uid FROM onward.onward_run WHERE flow_key = 'k' AND state = 'ready'
        ORDER BY due LIMIT 1 - (SELECT count(*) FROM onward.onward_run
                                WHERE flow_key = 'k' AND state = 'running')
        FOR UPDATE SKIP LOCKED)
"""


def limited(worker: str = WORKER, limit: int = 100) -> Wanted:
    return wanted(worker, limit, limited=True)


async def claim(hand: Hand, worker: str) -> list[ClaimedRun]:
    """Claim as the store does, in the transaction that is open here."""
    wish = limited(worker)
    limited_runs = await claiming.choose_limited(hand.tx, wish)
    return await claiming.claim(hand.tx, wish, limited_runs)


async def a_backlog(store: Store, key: str = "k", count: int = 5, most: int = 1) -> None:
    await store.set_limit(key, most)
    for number in range(count):
        await store.start(a_run(f"{key}{number:03}", flow_key=key))


async def test_counting_without_holding_the_limit_passes_it(postgres_url: str) -> None:
    url = postgres_url
    async with open_store(url) as store, hand(url) as one, hand(url) as two:
        await a_backlog(store)
        await one.begin()
        await one.run(TAKE_IF_THERE_IS_ROOM, WORKER)
        await two.run(TAKE_IF_THERE_IS_ROOM, OTHER)
        await one.commit()
        assert (await store.counts())["running"] == 2


async def test_a_limit_that_another_claim_holds_is_left_alone(postgres_url: str) -> None:
    url = postgres_url
    async with open_store(url) as store, hand(url) as one:
        await a_backlog(store)
        await a_backlog(store, "other")
        for worker in (WORKER, OTHER):
            await store.take_lease(worker, LONG)
        await prepare(one)
        await store.set_limit("other", 0)
        await one.begin()
        assert [run.uid for run in await claim(one, WORKER)] == ["k000"]
        await store.set_limit("other", 1)
        assert [run.uid for run in await store.claim(limited(OTHER))] == ["other000"]
        await one.commit()
        assert await store.claim(limited(OTHER)) == []
        assert await check(store) == []


async def test_a_claim_that_met_the_limit_late_counts_what_was_claimed_before(
    postgres_url: str,
) -> None:
    """It has looked for keys, and another claims before it gets hold of the limit."""
    url = postgres_url
    async with open_store(url) as store, hand(url) as late:
        await a_backlog(store)
        for worker in (WORKER, OTHER):
            await store.take_lease(worker, LONG)
        await prepare(late)
        await late.begin()
        [[key, most]] = await late.tx.fetch("limited_keys", queues=["default"])
        assert (key, most) == ("k", 1)
        await late.roll_back()
        assert len(await store.claim(limited(OTHER))) == 1
        await late.begin()
        rows = await late.tx.fetch(
            "limited_candidates", keys=[key], max_running=[most], queues=["default"],
            names=["hello"], tags=[], version=None, limit=10, suspect_at=2,
        )  # fmt: skip
        await late.roll_back()
        assert rows == []


async def test_a_crowd_that_claims_and_ends_at_random_never_passes_a_limit(
    postgres_url: str,
) -> None:
    url = postgres_url
    limits = {"a": 1, "b": 3}
    most_seen = dict.fromkeys(limits, 0)
    async with open_store(url) as one, open_store(url) as two, hand(url) as eyes:
        for key, most in limits.items():
            await a_backlog(one, key, 20, most)
        over = asyncio.Event()
        ended: list[str] = []

        async def work(store: Store, worker: str) -> None:
            await store.take_lease(worker, LONG)
            while len(ended) < 40:
                for run in await store.claim(limited(worker, 2)):
                    await store.writer(worker).commit(
                        Commit(run.uid, run.fence, move=Move("succeeded"))
                    )
                    ended.append(run.uid)

        async def watch() -> None:
            sql = """SELECT flow_key, count(*) FROM onward.onward_run
                     WHERE state = 'running' GROUP BY flow_key"""
            while not over.is_set():
                for key, count in await eyes.run(sql):
                    most_seen[key] = max(most_seen[key], count)

        watching = asyncio.ensure_future(watch())
        async with asyncio.timeout(60):
            await asyncio.gather(
                *(work(store, f"w{n}") for n, store in enumerate((one, two) * CROWD))
            )
        over.set()
        await watching
        assert len(ended) == len(set(ended)) == 40
        assert {key: most_seen[key] <= most for key, most in limits.items()} == {
            "a": True, "b": True,
        }  # fmt: skip
        assert await check(one) == []


async def test_a_crowd_that_claims_once_takes_exactly_what_there_is_room_for(
    postgres_url: str,
) -> None:
    url = postgres_url
    async with open_store(url) as one, open_store(url) as two:
        for number in range(ROUNDS):
            key = f"key {number}"
            await a_backlog(one, key, 12, 3)
            workers = [(store, f"{key} {n}") for n, store in enumerate((one, two) * CROWD)]
            for store, worker in workers:
                await store.take_lease(worker, LONG)
            claims = await asyncio.gather(
                *(store.claim(limited(worker, 2)) for store, worker in workers)
            )
            taken = [run for claim in claims for run in claim]
            assert len(taken) <= 3
            store, worker = workers[0]
            taken += await store.claim(limited(worker))
            assert len({run.uid for run in taken}) == len(taken) == 3
            for _, other in workers:  # a worker that dies leaves no room behind
                await one.drop_lease(other)
            heir = f"{key} heir"
            await one.take_lease(heir, LONG)
            assert len(await one.claim(limited(heir))) == 3
            await one.drop_lease(heir)
            await one.take_lease("last", LONG)
            all_of_them = wanted("last", limited=True, suspects=rooms_beside((), 3))
            for run in await one.claim(all_of_them):
                end = Commit(run.uid, run.fence, move=Move("succeeded"))
                await one.writer("last").commit(end)
            await one.set_limit(key, 0)
            await one.drop_lease("last")
        assert await check(one) == []


async def test_a_limit_cannot_be_changed_under_a_claim(postgres_url: str) -> None:
    url = postgres_url
    async with open_store(url) as store, hand(url) as one, hand(url) as eyes:
        await a_backlog(store, most=2)
        await store.take_lease(WORKER, LONG)
        await prepare(one)
        await one.begin()
        assert len(await claim(one, WORKER)) == 2
        async with asyncio.TaskGroup() as tasks:
            changing = tasks.create_task(store.set_limit("k", 3))
            await until(eyes.somebody_waits)
            assert not changing.done()
            await one.commit()
        assert len(await store.claim(limited())) == 1
