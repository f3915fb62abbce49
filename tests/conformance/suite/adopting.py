"""Adopting: the runs of workers that vanished, how often that was, and what a worker forgot."""

from __future__ import annotations

from typing import TYPE_CHECKING

from onward.core.instant import MINUTE
from onward.core.lease import LEASE, RENEW_EVERY, Fate
from onward.model.runs import Move
from tests.conformance.suite.samples import RELEASED, a_record, a_run

if TYPE_CHECKING:
    from onward.model.runs import ClaimedRun
    from tests.conformance.suite.worker import Worker
    from tests.conformance.suite.world import World


def ids(claimed: list[ClaimedRun]) -> list[str]:
    return [run.id for run in claimed]


async def crash(world: World, worker: Worker, times: int) -> None:
    """Let workers claim what there is and vanish, one after the other."""
    for _ in range(times):
        doomed = await world.worker(worker.store)
        await doomed.claim(suspects=10)
        await doomed.leave()


async def test_a_run_whose_worker_left_is_adopted_and_that_counts_as_a_crash(world: World) -> None:
    gone, heir = await world.worker(), await world.worker()
    [lost] = await gone.owning("a")
    await gone.leave()

    [found] = await heir.claim()

    assert (found.uid, found.fence, found.crashes) == (lost.uid, lost.fence + 1, 1)
    assert (await heir.store.run("uid-a")).worker == heir.name


async def test_a_worker_past_its_time_loses_its_runs_to_the_next_claims(world: World) -> None:
    gone, heir = await world.worker(lease=LEASE), await world.worker(lease=LEASE)
    await gone.owning("a")
    await world.pass_time(LEASE, heir)
    world.clock.advance(1)

    assert ids(await heir.adopt()) == ["a"]
    assert await gone.renew() is None


async def test_the_runs_of_a_worker_that_renews_are_left_alone(world: World) -> None:
    busy, other = await world.worker(lease=LEASE), await world.worker(lease=LEASE)
    await busy.owning("a")
    for _ in range(15):
        await world.pass_time(RENEW_EVERY, busy, other)

        assert await other.adopt() == []


async def test_only_wanted_orphans_are_adopted(world: World) -> None:
    gone, heir = await world.worker(), await world.worker()
    orphan = a_run("a")._replace(tags="gpu", version="v1")
    await gone.store.start(orphan)
    assert len(await gone.claim(tags=("gpu",), version="v1")) == 1
    await gone.leave()

    assert await heir.claim() == []
    assert await heir.claim(tags=("gpu",)) == []
    assert await heir.claim(version="v1") == []
    assert await heir.claim(tags=("gpu",), version="v1", queues=("other",)) == []
    assert await heir.claim(tags=("gpu",), version="v1", names=("other",)) == []
    assert ids(await heir.claim(tags=("gpu",), version="v1")) == ["a"]


async def test_crashes_are_counted_since_the_run_last_got_on(world: World) -> None:
    heir = await world.worker()
    await heir.store.start(a_run("a"))
    await crash(world, heir, 2)

    [run] = await heir.claim()
    assert run.crashes == 2
    await heir.commit(run, a_record(run, 1), move=Move("running", seq=1))

    assert (await heir.store.run("uid-a")).crashes == 0


async def test_a_run_that_was_released_keeps_its_crashes(world: World) -> None:
    heir = await world.worker()
    await heir.store.start(a_run("a"))
    await crash(world, heir, 2)
    [run] = await heir.claim()

    await heir.commit(run, move=RELEASED)

    assert (await heir.store.run("uid-a")).crashes == 2


async def test_suspects_are_handed_out_apart_and_few_at_a_time(world: World) -> None:
    heir = await world.worker()
    for suspect in ("s1", "s2", "s3"):
        await heir.store.start(a_run(suspect))
    await crash(world, heir, 3)
    for innocent in ("i1", "i2"):
        await heir.store.start(a_run(innocent))

    assert ids(await heir.claim(suspects=0)) == ["i1", "i2"]
    assert len(await heir.claim()) == 1
    assert len(await heir.claim(suspects=5)) == 2


async def test_a_suspect_that_is_ready_or_due_counts_as_one(world: World) -> None:
    heir = await world.worker()
    [_, due] = await heir.owning("ready", "due")
    await heir.store.audit(heir.name, {due.uid})
    await heir.commit(due, move=Move("waiting", due_in=0))
    await world.sql("UPDATE onward_run SET crashes = 2")

    assert await heir.claim(suspects=0) == []
    assert set(ids(await heir.claim(suspects=2))) == {"ready", "due"}


async def test_a_suspect_that_is_not_due_is_left_alone(world: World) -> None:
    heir = await world.worker()
    await heir.store.start(a_run("a")._replace(delay_in=MINUTE))
    await world.sql("UPDATE onward_run SET crashes = 3")

    assert await heir.claim(suspects=5) == []
    world.clock.advance(MINUTE)
    assert ids(await heir.adopt(suspects=5)) == ["a"]


async def test_an_audit_releases_what_the_worker_does_not_know(world: World) -> None:
    worker, other = await world.worker(), await world.worker()
    await worker.owning("known", "stray")
    await other.owning("not-mine")

    released = await worker.store.audit(worker.name, {"uid-known"})

    assert released == ["uid-stray"]
    assert await worker.store.owned(worker.name) == {"uid-known": 1}
    [again] = await other.claim()
    assert (again.id, again.fence, again.crashes) == ("stray", 3, 0)


async def test_a_run_that_an_audit_released_is_lost_to_whoever_had_claimed_it(world: World) -> None:
    worker = await world.worker()
    [stray] = await worker.owning("stray")

    await worker.store.audit(worker.name, ())

    row = await worker.store.run(stray.uid)
    assert (row.state, row.worker, row.fence) == ("ready", None, stray.fence + 1)
    for late in (
        await worker.commit(stray, a_record(stray, 1)),
        await worker.commit(stray, move=Move("waiting", due_in=MINUTE)),
    ):
        assert late.fate is Fate.LOST
    assert await worker.store.run(stray.uid) == row


async def test_an_audit_without_a_lease_releases_nothing(world: World) -> None:
    worker = await world.worker()
    [stray] = await worker.owning("stray")
    await worker.leave()

    await worker.store.audit(worker.name, ())

    assert (await worker.store.run(stray.uid)).state == "running"
