"""Leases: the right to write begins, goes on, ends, and is never held by two."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING

from onward.core.instant import DAY, MINUTE, SECOND
from onward.core.lease import LEASE, RENEW_EVERY, Fate, Lease, expirable, renewed
from onward.model.runs import Move, RunOwner
from tests.conformance.suite.samples import a_record, a_run
from tests.conformance.suite.worker import Worker

if TYPE_CHECKING:
    from tests.conformance.suite.world import World


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
    holder, other = await world.worker(lease=LEASE), await world.worker(lease=LEASE)
    await world.pass_time(LEASE, other)
    await other.claim()
    assert await holder.renew() is not None

    await world.pass_time(LEASE, other)
    world.clock.advance(1)
    await other.claim()
    assert await holder.renew() is None


async def test_a_worker_that_was_cut_off_itself_takes_no_lease_away(world: World) -> None:
    one, other = await world.worker(lease=LEASE), await world.worker(lease=LEASE)
    world.clock.advance(10 * LEASE)

    await other.claim()
    assert await other.renew() is not None
    await other.claim()
    await world.pass_time(LEASE - RENEW_EVERY, other)
    await other.claim()

    assert await one.renew() is not None


async def test_a_worker_that_begins_takes_no_lease_away_for_one_lease_length(world: World) -> None:
    gone = await world.worker(lease=LEASE)
    world.clock.advance(10 * LEASE)
    fresh = await world.worker(lease=LEASE)

    await world.pass_time(LEASE - RENEW_EVERY, fresh)
    await fresh.claim()
    assert await leases(world) == {gone.name, fresh.name}

    await world.pass_time(RENEW_EVERY, fresh)
    await fresh.claim()
    assert await leases(world) == {fresh.name}


async def test_a_lease_that_a_clock_ahead_has_renewed_protects_nobody_for_long(
    world: World,
) -> None:
    gone, other = await world.worker(lease=LEASE), await world.worker(lease=LEASE)
    now = world.clock.wall()
    await put_leases(world, dict.fromkeys((gone.name, other.name), Lease(now + DAY, now + DAY)))

    assert await other.renew() is not None
    await other.claim()
    await world.pass_time(LEASE, other)
    world.clock.advance(1)
    await other.claim()

    assert await leases(world) == {other.name}
    assert await gone.renew() is None


async def test_many_leases_are_renewed_at_once_each_for_its_own_length(world: World) -> None:
    kept, lost, other = [await world.worker(lease=LEASE) for _ in range(3)]
    store = kept.store
    await lost.leave()
    world.clock.advance(MINUTE)
    now = world.clock.wall()

    answers = await store.renew_leases(
        {kept.name: LEASE, lost.name: LEASE, other.name: 2 * LEASE, "never seen": LEASE}
    )

    assert {name: answer.until for name, answer in answers.items()} == {
        kept.name: now + LEASE,
        lost.name: None,
        other.name: now + 2 * LEASE,
        "never seen": None,
    }
    assert [answers[worker.name].is_kept for worker in (kept, lost, other)] == [True, False, True]
    assert await store.renew_leases({}) == {}


async def test_a_renewal_of_many_says_who_is_to_drain(world: World) -> None:
    one, other = await world.worker(), await world.worker()
    for worker in (one, other):
        row = {"host": "h", "pid": 1, "version": None, "queues": "", "tags": "", "names": ""}
        await one.store.register({"worker": worker.name, "schedules": "", **row})
    assert await one.store.drain_worker(other.name)

    answers = await one.store.renew_leases({one.name: LEASE, other.name: LEASE})

    assert [answers[worker.name].drains for worker in (one, other)] == [False, True]


async def test_a_renewal_of_many_leaves_the_same_rows_as_one_at_a_time(world: World) -> None:
    workers = [await world.worker() for _ in range(8)]
    now, half = world.clock.wall(), LEASE // 2
    ages = (-1, 0, half, half + 1, LEASE, 3 * LEASE)
    for age, length in product(ages, (LEASE, 2 * LEASE)):
        held = {worker.name: Lease(now - age, now - 5 * LEASE, length) for worker in workers}
        await put_leases(world, held)

        await workers[0].store.renew_leases({worker.name: LEASE for worker in workers[1:]})
        await workers[0].renew()

        rows = await world.sql("SELECT renewed_at, steady_since, length FROM onward_lease")
        assert len({tuple(row) for row in rows}) == 1, (age, length)
        steady_since = renewed(held[workers[0].name], now=now).steady_since
        assert tuple(rows[0]) == (now, steady_since, LEASE)


OUTAGE = MINUTE


async def test_a_remote_worker_keeps_its_runs_through_an_outage_of_its_server(world: World) -> None:
    remote, other = [Worker(await world.store(), name) for name in ("remote", "other")]
    for worker in (remote, other):
        await worker.store.take_lease(worker.name, LEASE, is_remote=True)
    [run] = await remote.owning("a")
    world.clock.advance(OUTAGE)  # nothing renews a lease while the only server is down
    fresh = await world.worker(lease=LEASE)

    await other.renew()
    for worker in (other, fresh):
        assert await worker.adopt() == []
    await world.pass_time(LEASE - RENEW_EVERY, other, fresh)
    for worker in (other, fresh):
        assert await worker.adopt() == []
    answers = await remote.store.renew_leases({remote.name: LEASE})

    assert answers[remote.name].is_kept
    await world.pass_time(2 * LEASE, remote, other, fresh)
    assert await fresh.adopt() == []
    assert (await remote.commit(run, a_record(run, 1))).fate is Fate.DONE


async def test_a_remote_worker_that_does_not_come_back_loses_its_runs_in_one_lease_length(
    world: World,
) -> None:
    remote, other = [Worker(await world.store(), name) for name in ("remote", "other")]
    for worker in (remote, other):
        await worker.store.take_lease(worker.name, LEASE, is_remote=True)
    [run] = await remote.owning("a")
    world.clock.advance(OUTAGE)

    await other.renew()
    await world.pass_time(LEASE, other)
    [adopted] = await other.adopt()

    assert (adopted.uid, adopted.taken_from) == (run.uid, remote.name)
    assert not (await remote.store.renew_leases({remote.name: LEASE}))[remote.name].is_kept
    assert (await remote.commit(run, a_record(run, 1))).fate is Fate.LOST


async def test_leases_are_taken_away_by_the_rules_of_the_core(world: World) -> None:
    claimer = await world.worker()
    now, half = world.clock.wall(), LEASE // 2
    held = {
        f"holder {age} {length}": Lease(now - age, 0, length)
        for age in (-1, half, LEASE, LEASE + 1, 2 * LEASE, 2 * LEASE + 1)
        for length in (LEASE, 2 * LEASE)
    }
    for age, steady, length in product(
        (-1, half, half + 1, LEASE, LEASE + 1), (LEASE - 1, LEASE, 2 * LEASE), (LEASE, 2 * LEASE)
    ):
        own = Lease(now - age, now - steady, length)
        await put_leases(world, {claimer.name: own, **held})

        await claimer.claim()

        left = {name for name, lease in held.items() if not expirable(lease, own, now=now)}
        assert await leases(world) == {claimer.name, *left}, own


async def put_leases(world: World, wanted: dict[str, Lease]) -> None:
    """Let these be the leases."""
    rows = [
        f"('default', '{worker}', {lease.renewed_at}, {lease.length}, {lease.steady_since})"
        for worker, lease in wanted.items()
    ]
    await world.sql("DELETE FROM onward_lease")
    await world.sql(
        "INSERT INTO onward_lease (namespace, worker, renewed_at, length, steady_since) "
        "VALUES " + ", ".join(rows)
    )


async def leases(world: World) -> set[str]:
    """Return who has a lease."""
    return {row[0] for row in await world.sql("SELECT worker FROM onward_lease")}


async def test_a_worker_that_lost_its_lease_gives_its_runs_back_and_no_crash_counts(
    world: World,
) -> None:
    cut_off, heir = await world.worker(), await world.worker()
    [adopted, adopted_and_waits, left] = await cut_off.owning("a", "b", "c")
    await heir.store.start(a_run("other"))
    await cut_off.leave()
    [_, waits] = sorted(await heir.claim(limit=2), key=lambda run: run.uid)
    await heir.commit(waits, move=Move("waiting", due_in=MINUTE))

    held = {run.uid: run.fence for run in (adopted, adopted_and_waits, left)}
    assert await heir.store.resign(cut_off.name, held) == [left.uid]

    for run, state in ((adopted, "running"), (adopted_and_waits, "waiting"), (left, "ready")):
        row = await heir.store.run(run.uid)
        assert (row.state, row.crashes, row.fence) == (state, 0, run.fence + 1)
    assert (await cut_off.commit(left, a_record(left, 1))).fate is Fate.LOST


async def test_only_the_crash_that_was_none_is_forgiven(world: World) -> None:
    cut_off, heir = await world.worker(), await world.worker()
    [run] = await cut_off.owning("a")
    await world.sql("UPDATE onward_run SET crashes = 1")
    await cut_off.leave()
    await heir.claim()
    await heir.leave()
    last = await world.worker()
    await last.claim(suspects=1)

    await last.store.resign(cut_off.name, {run.uid: run.fence})

    assert (await last.store.run(run.uid)).crashes == 3, "it was adopted twice since"


async def test_a_run_that_was_stopped_meanwhile_is_not_changed_when_its_worker_returns(
    world: World,
) -> None:
    cut_off, operator = await world.worker(), await world.worker()
    [run] = await cut_off.owning("a")
    await world.sql("UPDATE onward_run SET crashes = 1")
    await operator.store.stop(run.uid, state="cancelled", reason="forced")
    before = await operator.store.run(run.uid)

    await operator.store.resign(cut_off.name, {run.uid: run.fence})

    assert await operator.store.run(run.uid) == before


async def test_a_blocked_worker_releases_its_runs_but_for_the_one_that_blocks_it(
    world: World,
) -> None:
    blocked, other = await world.worker(), await world.worker()
    [blocker, *innocent] = await blocked.owning("a", "b", "c")
    await blocked.commit(innocent[0], a_record(innocent[0], 1))

    released = await other.store.release_others(blocked.name, {blocker.uid})

    assert released == {run.uid: run.fence for run in innocent}
    for run in innocent:
        assert (await blocked.commit(run, a_record(run, 2))).fate is Fate.LOST
    assert (await blocked.commit(blocker, a_record(blocker, 1))).fate is Fate.DONE
    assert await blocked.renew() is not None
    adopted = await other.claim()
    assert {run.uid: (run.fence, run.crashes) for run in adopted} == {
        run.uid: (run.fence + 2, 0) for run in innocent
    }
    assert len((await other.store.history([innocent[0].uid]))[innocent[0].uid]) == 1


async def test_a_blocked_worker_keeps_its_runs_while_no_other_worker_is_alive(
    world: World,
) -> None:
    blocked, gone = await world.worker(lease=LEASE), await world.worker(lease=LEASE)
    [run] = await blocked.owning("a")
    await world.pass_time(LEASE, blocked)
    world.clock.advance(1)

    assert await gone.store.release_others(blocked.name, ()) == {}

    assert (await blocked.commit(run, a_record(run, 1))).fate is Fate.DONE


async def test_a_worker_without_a_lease_releases_nothing(world: World) -> None:
    gone, _ = await world.worker(), await world.worker()
    [run] = await gone.owning("a")
    await gone.leave()

    assert await gone.store.release_others(gone.name, ()) == {}

    assert (await gone.store.run(run.uid)).fence == run.fence
    assert gone.name not in await leases(world)


async def test_the_error_of_a_run_that_blocks_is_replaced_when_the_run_ends_well(
    world: World,
) -> None:
    worker = await world.worker()
    [run] = await worker.owning("a")
    await worker.store.note_blocked(worker.name, run.uid, b"blocked")
    await worker.store.note_blocked("another", run.uid, b"not its run")
    assert (await worker.store.end(run.uid)).error == b"blocked"

    await worker.commit(run, move=Move("succeeded", result=b"1"))

    assert (await worker.store.end(run.uid)).error is None


async def test_the_error_of_a_run_that_blocks_is_kept_when_it_is_ended_for_its_crashes(
    world: World,
) -> None:
    worker = await world.worker()
    [run] = await worker.owning("a")
    await worker.store.note_blocked(worker.name, run.uid, b"blocked")

    await worker.store.give_up(RunOwner(worker.name, run.uid, run.fence), Move("failed", "crashed"))

    end = await worker.store.end(run.uid)
    assert (end.state, end.reason, end.error) == ("failed", "crashed", b"blocked")


async def test_the_store_tells_the_time_by_which_it_decides(world: World) -> None:
    store = await world.store()
    assert await store.now() == world.clock.wall()

    world.clock.advance(SECOND)

    assert await store.now() == world.clock.wall()
