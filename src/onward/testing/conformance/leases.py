"""Leases: the right to write begins, goes on, ends, and is never held by two."""
# ruff: noqa: D103 - the name of a test is its sentence

from __future__ import annotations

from typing import TYPE_CHECKING

from onward.core.instant import MINUTE, SECOND
from onward.core.lease import LEASE, Fate
from onward.testing.conformance.samples import a_record

if TYPE_CHECKING:
    from onward.testing.conformance.world import World


async def test_a_lease_begins_now_and_has_the_length_asked_for(world: World) -> None:
    store = await world.store()

    assert await store.take_lease("w", 7 * SECOND) == world.clock.wall() + 7 * SECOND
    assert await store.take_lease("v") == world.clock.wall() + LEASE


async def test_a_worker_that_has_a_lease_is_not_given_another(world: World) -> None:
    store = await world.store()
    await store.take_lease("w")

    assert await store.take_lease("w") is None


async def test_renewing_prolongs_a_lease_from_now(world: World) -> None:
    worker = await world.worker()
    world.clock.advance(MINUTE)

    assert await worker.renew() == world.clock.wall() + LEASE


async def test_a_lease_that_was_given_up_cannot_be_renewed(world: World) -> None:
    worker = await world.worker()
    await worker.leave()
    await worker.leave()  # a repeated one is as good

    assert await worker.renew() is None
    assert await worker.store.renew_lease("never seen") is None


async def test_a_lease_past_its_time_is_good_until_somebody_takes_it(world: World) -> None:
    late = await world.worker(lease=LEASE)
    [run] = await late.owning("a")
    world.clock.advance(10 * LEASE)

    outcome = await late.commit(run, a_record(run, 1))

    assert outcome.fate is Fate.DONE
    assert await late.renew() == world.clock.wall() + LEASE


async def test_a_worker_past_its_time_does_not_end_its_own_lease_by_claiming(world: World) -> None:
    late = await world.worker(lease=LEASE)
    [run] = await late.owning("a")
    world.clock.advance(10 * LEASE)

    await late.claim()
    await late.claim()

    assert (await late.commit(run, a_record(run, 1))).fate is Fate.DONE
    assert await late.renew() is not None


async def test_a_lease_is_taken_over_only_after_its_time(world: World) -> None:
    holder, other = await world.worker(lease=LEASE), await world.worker()
    world.clock.advance(LEASE)
    await other.claim()
    assert await holder.renew() is not None

    world.clock.advance(LEASE + 1)
    await other.claim()
    assert await holder.renew() is None


async def test_the_store_tells_the_time_by_which_it_decides(world: World) -> None:
    store = await world.store()
    assert await store.now() == world.clock.wall()

    world.clock.advance(SECOND)

    assert await store.now() == world.clock.wall()
