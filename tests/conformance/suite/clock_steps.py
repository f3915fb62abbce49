"""Steps of the database's clock: waits on record last as long as they should."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from onward.core.clock_steps import SeenStep
from onward.core.instant import DAY, HOUR, MINUTE, SECOND
from onward.core.run import ONE
from onward.errors import StoreUnusable
from onward.model.runs import Move
from onward.store import Wanted
from onward.store.runs.clock_steps import record_step
from tests.conformance.suite.samples import NAME, QUEUE, a_run, an_open_record

if TYPE_CHECKING:
    from onward.core.instant import Duration, Instant
    from onward.model.runs import ClaimedRun
    from tests.conformance.suite.worker import Worker
    from tests.conformance.suite.world import World


async def parked(
    worker: Worker, run: ClaimedRun, due: Instant, name: str = "sleep", lasts: Duration = 0
) -> None:
    wait = an_open_record(run, f"{name}#1")._replace(kind="timer", name=name, due=due, took=lasts)
    await worker.commit(run, wait, move=Move("waiting", due=due))


async def step(world: World, worker: Worker, length: Duration = DAY, known: int = 0) -> int:
    """Set the clock forward, and let a worker record what it sees."""
    before = world.clock.wall()
    world.clock.jump(length)
    return await record(worker, SeenStep(before, world.clock.wall(), length), known)


async def record(worker: Worker, seen: SeenStep, known: int = 0) -> int:
    return await worker.store.write(lambda tx: record_step(tx, worker.name, known, seen))


async def dues(worker: Worker, *runs: ClaimedRun) -> list[Instant | None]:
    histories = await worker.store.history([run.uid for run in runs])
    return [histories[run.uid][0].due for run in runs]


async def test_a_wait_that_began_before_a_step_ends_that_much_later(world: World) -> None:
    worker = await world.worker()
    [sleeping, until] = await worker.owning("sleeping", "until")
    due = world.clock.wall() + HOUR
    await parked(worker, sleeping, due)
    await parked(worker, until, due, "sleep_until")
    await step(world, worker)

    assert await dues(worker, sleeping, until) == [due + DAY, due]


async def test_a_wait_that_began_after_a_step_is_not_longer(world: World) -> None:
    worker = await world.worker()
    [run] = await worker.owning("a")
    await step(world, worker)
    due = world.clock.wall() + HOUR
    await parked(worker, run, due)

    assert await dues(worker, run) == [due]


async def test_a_wait_that_is_written_after_a_step_counts_from_when_it_began(world: World) -> None:
    worker = await world.worker()
    [run] = await worker.owning("a")
    began = world.clock.wall()
    world.clock.jump(DAY)
    await parked(worker, run, began + HOUR, lasts=HOUR)
    await record(worker, SeenStep(began, world.clock.wall(), DAY), 0)

    assert await dues(worker, run) == [began + HOUR + DAY]


async def test_a_wait_does_not_begin_after_it_is_written(world: World) -> None:
    worker = await world.worker()
    [run] = await worker.owning("a")
    due = world.clock.wall() + DAY
    await parked(worker, run, due, lasts=HOUR)
    histories = await worker.store.history([run.uid])

    assert histories[run.uid][0].opened_at <= due - DAY + SECOND


async def test_a_step_that_two_workers_see_counts_once(world: World) -> None:
    one, two = await world.worker(), await world.worker()
    [run] = await one.owning("a")
    due = world.clock.wall() + HOUR
    await parked(one, run, due)
    before = world.clock.wall()
    last = await step(world, one)
    seen = SeenStep(before, world.clock.wall(), DAY - SECOND)

    assert await record(two, seen) == last
    assert await dues(one, run) == [due + DAY]


async def test_a_second_step_adds_to_the_first(world: World) -> None:
    worker = await world.worker()
    [run] = await worker.owning("a")
    due = world.clock.wall() + HOUR
    await parked(worker, run, due)
    last = await step(world, worker)
    await step(world, worker, HOUR, known=last)

    assert await dues(worker, run) == [due + DAY + HOUR]


async def test_a_worker_without_its_lease_records_no_step(world: World) -> None:
    worker, other = await world.worker(), await world.worker()
    [run] = await worker.owning("a")
    due = world.clock.wall() + HOUR
    await parked(worker, run, due)
    await other.store.drop_lease(other.name)
    await step(world, other)

    assert await dues(worker, run) == [due]


async def test_a_step_that_another_worker_did_not_live_through_is_not_recorded(
    world: World,
) -> None:
    """Its machine stood still: the other worker renewed its lease meanwhile."""
    frozen, other = await world.worker(), await world.worker()
    [run] = await frozen.owning("a")
    due = world.clock.wall() + HOUR
    await parked(frozen, run, due)
    before = world.clock.wall()
    world.clock.advance(MINUTE)
    await other.renew()
    world.clock.advance(MINUTE)
    await record(frozen, SeenStep(before, world.clock.wall(), 2 * MINUTE))

    assert await dues(frozen, run) == [due]


async def test_a_step_back_takes_away_what_a_step_forward_has_added(world: World) -> None:
    worker = await world.worker()
    [run, late] = await worker.owning("a", "late")
    due = world.clock.wall() + HOUR
    await parked(worker, run, due)
    last = await step(world, worker)
    await parked(worker, late, world.clock.wall() + HOUR)
    world.clock.set_back(DAY)
    with suppress(StoreUnusable):  # a database with a clock of its own has it right now
        await worker.store.reset_clock()
    now = world.clock.wall()
    await record(worker, SeenStep(now + DAY, now, -DAY), known=last)

    assert await dues(worker, run, late) == [due, now + DAY + HOUR]
    assert (await worker.store.run(run.uid)).due == now  # so that it is parked anew


async def test_a_run_with_a_delay_starts_later_after_a_step_and_one_with_a_time_does_not(
    world: World,
) -> None:
    worker = await world.worker()
    due = world.clock.wall() + HOUR
    await worker.store.start(a_run("delay")._replace(delay_in=HOUR))
    await worker.store.start(a_run("at")._replace(due=due))
    await step(world, worker, MINUTE)

    assert (await worker.store.run("uid-delay")).due == due + MINUTE
    assert (await worker.store.run("uid-at")).due == due


async def test_a_deadline_is_later_after_a_step(world: World) -> None:
    worker = await world.worker()
    await worker.store.start(a_run("a")._replace(deadline_in=HOUR))
    deadline = world.clock.wall() + HOUR
    await step(world, worker)

    assert (await worker.store.run("uid-a")).deadline == deadline + DAY


async def test_a_deadline_that_never_comes_stays_as_it_is(world: World) -> None:
    worker = await world.worker()
    latest = 2**63 - 1
    await worker.store.start(a_run("a")._replace(deadline_in=latest - world.clock.wall()))
    before = (await worker.store.run("uid-a")).deadline
    await step(world, worker)

    assert (await worker.store.run("uid-a")).deadline == before == latest


async def test_a_claim_takes_no_run_that_is_due_later_than_time_has_passed(world: World) -> None:
    worker = await world.worker()
    [run] = await worker.owning("a")
    await parked(worker, run, world.clock.wall() + HOUR)
    await worker.store.start(a_run("limited")._replace(flow_key="k", delay_in=HOUR))
    latest = world.clock.wall() + MINUTE
    world.clock.jump(DAY)
    wanted = Wanted(worker.name, (QUEUE,), (NAME,), 10, suspects=ONE, limited=True)

    assert await worker.store.claim(replace(wanted, latest=latest)) == []
    assert len(await worker.store.claim(wanted)) == 2
