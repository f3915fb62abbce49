"""Limits hold however many claim at once, from however many connections."""

import asyncio
from dataclasses import replace

import pytest

from onward.core.flow import FlowId, FlowKind
from onward.core.run import rooms_beside
from onward.engine.flows import FlowChange
from onward.model.claims import ClaimNotes, Wanted
from onward.model.flow import DeclaredLimits
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

QUEUES = "SELECT name FROM onward.onward_flow WHERE kind = 'queue'"


def limited(worker: str = WORKER, limit: int = 100) -> Wanted:
    return wanted(worker, limit, limited=True)


async def claim(hand: Hand, worker: str) -> list[ClaimedRun]:
    """Claim as the store does, in the transaction that is open here."""
    wish = limited(worker)
    flow = await claiming.choose_limited(hand.tx, wish)
    return await claiming.claim(hand.tx, wish, ClaimNotes(), flow)


async def limit(store: Store, key: str, most: int) -> None:
    """Limit the runs of a key."""
    await store.declare(FlowId(FlowKind.KEY, key, "default"), DeclaredLimits(most))


async def a_backlog(store: Store, key: str = "k", count: int = 5, most: int = 1) -> None:
    await limit(store, key, most)
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


@pytest.mark.parametrize(
    "flow",
    [FlowId(FlowKind.WORKFLOW, "new"), FlowId(FlowKind.KEY, "new", "default")],
    ids=lambda flow: str(flow.kind),
)
async def test_a_new_limit_waits_for_claims_that_have_not_read_it(
    postgres_url: str, flow: FlowId
) -> None:
    async with open_store(postgres_url) as store, hand(postgres_url) as one:
        await store.take_lease(WORKER, LONG)
        await store.claim(limited())
        await one.begin()
        await claim(one, WORKER)
        async with asyncio.TaskGroup() as tasks, hand(postgres_url) as eyes:
            declaring = tasks.create_task(store.declare(flow, DeclaredLimits(1)))
            await until(eyes.somebody_waits)
            assert not declaring.done()
            await one.commit()


async def test_the_row_of_a_queue_is_there_before_a_claim_reads_limits(postgres_url: str) -> None:
    async with open_store(postgres_url) as store, hand(postgres_url) as one:
        await store.take_lease(WORKER, LONG)
        await store.declare(FlowId(FlowKind.WORKFLOW, "hello"), DeclaredLimits(1))
        await one.begin()
        await one.tx.fetch("flows_to_claim", kind="workflow", names=["hello"])
        async with asyncio.TaskGroup() as tasks, hand(postgres_url) as eyes:
            tasks.create_task(store.claim(limited()))
            await until(eyes.somebody_waits)
            assert await eyes.run(QUEUES) == [("default",)]
            await one.commit()


async def test_a_claim_waits_for_one_that_counts_the_same_runs(postgres_url: str) -> None:
    url = postgres_url
    async with open_store(url) as store, hand(url) as one, hand(url) as eyes:
        await a_backlog(store)
        for worker in (WORKER, OTHER):
            await store.take_lease(worker, LONG)
        await prepare(one)
        await one.begin()
        assert [run.uid for run in await claim(one, WORKER)] == ["k000"]
        async with asyncio.TaskGroup() as tasks:
            late = tasks.create_task(store.claim(limited(OTHER)))
            await until(eyes.somebody_waits)
            assert not late.done()
            await one.commit()
        assert late.result() == []
        assert await check(store) == []


async def test_a_claim_of_another_queue_does_not_wait(postgres_url: str) -> None:
    url = postgres_url
    async with open_store(url) as store, hand(url) as one:
        await a_backlog(store)
        await store.start(a_run("elsewhere", queue="other", flow_key="k"))
        for worker in (WORKER, OTHER):
            await store.take_lease(worker, LONG)
        await prepare(one)
        await one.begin()
        assert [run.uid for run in await claim(one, WORKER)] == ["k000"]
        found = await store.claim(replace(limited(OTHER), queues=("other",)))
        assert [run.uid for run in found] == ["elsewhere"]
        await one.commit()


async def test_two_queues_share_the_limit_of_a_workflow(postgres_url: str) -> None:
    url = postgres_url
    async with open_store(url) as one, open_store(url) as two:
        await one.declare(FlowId(FlowKind.WORKFLOW, "hello"), DeclaredLimits(3))
        for number in range(20):
            for queue in ("a", "b"):
                await one.start(a_run(f"{queue}{number:02}", queue=queue))
        workers = [(store, f"w{n}") for n, store in enumerate((one, two) * CROWD)]
        for store, worker in workers:
            await store.take_lease(worker, LONG)
        claims = await asyncio.gather(
            *(
                store.claim(replace(limited(worker, 2), queues=("ab"[n // 2 % 2],)))
                for n, (store, worker) in enumerate(workers)
            )
        )
        assert sum(map(len, claims)) == 3
        assert await check(one) == []


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
            await limit(one, key, 0)
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
            changing = tasks.create_task(
                store.change_flow(FlowId(FlowKind.QUEUE, "default"), FlowChange(max=5).of)
            )
            await until(eyes.somebody_waits)
            assert not changing.done()
            await one.commit()
        assert len(await store.claim(limited())) == 0
