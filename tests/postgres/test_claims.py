"""Two workers never have one run at a time, however their claims meet."""

import asyncio

import pytest

from onward.model.claims import ClaimNotes
from onward.store import open_store
from onward.store.invariants import check
from onward.store.postgres.claim import claim
from tests.postgres.builders import LONG, OTHER, RUN_OUT, STEADY, WORKER, claimed, wanted
from tests.postgres.hand import Hand, hand, until

HOLD_LEASE = "SELECT 1 FROM onward.onward_lease WHERE worker = $1 FOR UPDATE"
CRASHED_TWICE = "UPDATE onward.onward_run SET crashes = 2"


async def prepare(claimer: Hand) -> None:
    """Let a connection plan as the store's own do."""
    await claimer.run("SET enable_seqscan = off")
    await claimer.run("SET plan_cache_mode = force_generic_plan")


@pytest.mark.parametrize("suspect", [False, True])
@pytest.mark.parametrize("newcomer", [False, True])
async def test_a_run_adopted_a_moment_ago_is_not_taken_from_its_new_owner(
    postgres_url: str, suspect: bool, newcomer: bool
) -> None:
    url = postgres_url
    async with open_store(url) as store, hand(url) as gate, hand(url) as slow, hand(url) as eyes:
        await claimed(store, "r", worker="gone")
        await store.drop_lease("gone")
        if suspect:
            await eyes.run(CRASHED_TWICE)
        await store.take_lease(WORKER, LONG)
        if not newcomer:
            await store.take_lease(OTHER, LONG)
        await prepare(slow)
        await gate.begin()
        await gate.run(HOLD_LEASE, WORKER)
        async with asyncio.TaskGroup() as tasks:
            # It has looked at the database once, and waits before it takes anything.
            late = tasks.create_task(claim(slow.tx, wanted(WORKER), ClaimNotes()))
            await until(eyes.somebody_waits)
            if newcomer:
                await store.take_lease(OTHER, LONG)
            assert [run.uid for run in await store.claim(wanted(OTHER))] == ["r"]
            await gate.commit()
        assert late.result() == []
        assert await store.owned(OTHER) == {"r": 2}
        assert await check(store) == []


async def test_a_claim_does_not_end_the_lease_of_the_one_who_claims(postgres_url: str) -> None:
    async with open_store(postgres_url) as store, hand(postgres_url) as eyes:
        await claimed(store, "r")
        await eyes.run(RUN_OUT, WORKER)
        await store.claim(wanted(WORKER))
        assert await store.renew_lease(WORKER) is not None


async def test_a_lease_renewed_a_moment_ago_is_not_taken_away(postgres_url: str) -> None:
    url = postgres_url
    async with open_store(url) as store, hand(url) as gate, hand(url) as slow, hand(url) as eyes:
        await claimed(store, "r", worker=OTHER)
        await eyes.run(RUN_OUT, OTHER)
        await store.take_lease(WORKER, LONG)
        await eyes.run(STEADY, WORKER)
        await prepare(slow)
        await gate.begin()
        await gate.run(HOLD_LEASE, WORKER)
        async with asyncio.TaskGroup() as tasks:
            late = tasks.create_task(claim(slow.tx, wanted(WORKER), ClaimNotes()))
            await until(eyes.somebody_waits)
            assert await store.renew_lease(OTHER) is not None
            await gate.commit()
        assert late.result() == []
        assert await store.renew_lease(OTHER) is not None
