"""Recording: what an owner writes into a history, what is final, what a lost owner cannot do."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from onward.core.instant import MINUTE, SECOND
from onward.core.lease import LEASE, Fate
from onward.model.commits import CommitOutcome
from onward.model.runs import Move
from tests.conformance.suite.samples import (
    RELEASED,
    SUCCEEDED,
    a_message,
    a_record,
    a_run,
    an_open_record,
)

if TYPE_CHECKING:
    from onward.model.records import RecordRow
    from onward.store import Store
    from tests.conformance.suite.world import World


async def history(store: Store, uid: str) -> list[RecordRow]:
    return (await store.history([uid]))[uid]


async def test_a_record_is_read_back_as_it_was_written(world: World) -> None:
    worker = await world.worker()
    [run] = await worker.owning("a")
    await worker.store.send(a_message("a", "m1"))
    record = a_record(run, 1)._replace(
        attempt=1, version="v3", due=7, message=1, payload=bytes(range(256)), error=b""
    )

    outcome = await worker.commit(run, record)

    now = world.clock.wall()
    assert outcome == CommitOutcome(Fate.DONE, now)
    [row] = await history(worker.store, run.uid)
    assert row[:15] == (*record[:10], 1, record.payload, b"", now, now)


async def test_records_that_are_written_together_keep_their_own_fields(world: World) -> None:
    worker = await world.worker()
    [run] = await worker.owning("a")
    alike = [a_record(run, seq) for seq in (1, 2, 3)]
    slept = a_record(run, 5)._replace(kind="timer", name="sleep", attempt=2)
    failed = slept._replace(attempt=1, seq=None, state="failed", payload=None, error=b"j1")
    mixed = [a_record(run, 4), failed, slept]

    for records in (alike, mixed):
        await worker.commit(run, *records)

    rows = await history(worker.store, run.uid)
    assert {row[:9] for row in rows} == {record[:9] for record in (*alike, *mixed)}


async def test_a_record_is_opened_and_later_closed(world: World) -> None:
    worker = await world.worker()
    [run] = await worker.owning("a")
    opened = await worker.commit(run, an_open_record(run, "w#1")._replace(due_in=MINUTE))
    [row] = await history(worker.store, run.uid)
    assert (row.state, row.seq, row.due, row.closed_at) == ("open", None, opened.at + MINUTE, None)
    world.clock.advance(SECOND)

    closed = await worker.commit(run, a_record(run, 1, "w#1"))

    [row] = await history(worker.store, run.uid)
    assert (row.state, row.seq, row.payload) == ("succeeded", 1, b"j1")
    assert (row.opened_at, row.closed_at, row.due) == (opened.at, closed.at, opened.at + MINUTE)
    assert (row.kind, row.name) == ("wait", "approval")


async def test_a_closed_record_never_changes(world: World) -> None:
    worker = await world.worker()
    [run] = await worker.owning("a")
    await worker.commit(run, a_record(run, 1))
    before = await history(worker.store, run.uid)
    world.clock.advance(SECOND)

    for later in (
        a_record(run, 1)._replace(payload=b"other"),
        a_record(run, 2, "step#1")._replace(state="failed", error=b"other"),
        an_open_record(run, "step#1"),
    ):
        assert (await worker.commit(run, later)).fate is Fate.DONE

    assert await history(worker.store, run.uid) == before


async def test_the_first_result_stands_also_when_two_arrive_together(world: World) -> None:
    worker = await world.worker()
    [run] = await worker.owning("a")
    first, second = a_record(run, 1), a_record(run, 1)._replace(payload=b"other")

    await asyncio.gather(worker.commit(run, first), worker.commit(run, second))

    [row] = await history(worker.store, run.uid)
    assert row.payload == first.payload


async def test_a_record_opened_and_closed_in_one_go_keeps_what_it_was_opened_with(
    world: World,
) -> None:
    worker = await world.worker()
    [run] = await worker.owning("a")
    opened = an_open_record(run, "w#1")._replace(due_in=MINUTE, args_hash="opened")

    at = (await worker.commit(run, opened, a_record(run, 1, "w#1"))).at

    [row] = await history(worker.store, run.uid)
    assert (row.state, row.seq, row.payload, row.due) == ("succeeded", 1, b"j1", at + MINUTE)
    assert (row.kind, row.name, row.args_hash) == ("wait", "approval", "opened")


async def test_what_is_absent_and_what_is_empty_stay_different(world: World) -> None:
    worker = await world.worker()
    [run] = await worker.owning("a")

    await worker.commit(
        run, a_record(run, 1)._replace(payload=b""), a_record(run, 2)._replace(payload=None)
    )

    assert [row.payload for row in await history(worker.store, run.uid)] == [b"", None]


async def test_the_attempts_of_a_call_are_records_of_their_own(world: World) -> None:
    worker = await world.worker()
    [run] = await worker.owning("a")
    failed = a_record(run, 1, "step#1")._replace(state="failed", payload=None, error=b"e")

    await worker.commit(run, failed)
    await worker.commit(run, a_record(run, 2, "step#1")._replace(attempt=2))

    rows = await history(worker.store, run.uid)
    assert [(row.attempt, row.state) for row in rows] == [(1, "failed"), (2, "succeeded")]


async def test_a_history_is_read_in_the_order_of_delivery_what_is_open_last(world: World) -> None:
    worker = await world.worker()
    [run] = await worker.owning("a")
    await worker.commit(run, an_open_record(run, "first asked"))
    await worker.commit(run, a_record(run, 3), a_record(run, 1), a_record(run, 2))

    rows = await history(worker.store, run.uid)

    assert [row.seq for row in rows] == [1, 2, 3, None]


async def test_many_histories_are_read_at_once_and_kept_apart(world: World) -> None:
    worker = await world.worker()
    runs = await worker.owning("a", "b", "c")
    for length, run in enumerate(runs):
        await worker.commit(run, *(a_record(run, n + 1) for n in range(length)))

    found = await worker.store.history(["uid-c", "uid-a", "uid-b", "nobody"])

    assert {uid: len(rows) for uid, rows in found.items()} == {
        "uid-c": 2, "uid-a": 0, "uid-b": 1, "nobody": 0,
    }  # fmt: skip


async def test_the_commits_of_a_run_keep_their_order(world: World) -> None:
    worker = await world.worker()
    [run] = await worker.owning("a")
    steps = [worker.commit(run, a_record(run, n)) for n in range(1, 60)]
    end = worker.commit(run, a_record(run, 60), move=SUCCEEDED._replace(seq=60))
    late = worker.commit(run, a_record(run, 61))

    *outcomes, last = await asyncio.gather(*steps, end, late)

    assert {outcome.fate for outcome in outcomes} == {Fate.DONE}
    assert last.fate is Fate.LOST
    rows = await history(worker.store, run.uid)
    assert [row.identity for row in rows] == [f"step#{n}" for n in range(1, 61)]


async def test_the_commits_of_many_runs_are_each_answered(world: World) -> None:
    worker = await world.worker()
    runs = await worker.owning(*map(str, range(50)))
    stale = runs[13]._replace(fence=0)

    outcomes = await asyncio.gather(
        *(worker.commit(stale if run is runs[13] else run, a_record(run, 1)) for run in runs)
    )

    lost = [number for number, outcome in enumerate(outcomes) if outcome.fate is not Fate.DONE]
    assert lost == [13]
    found = await worker.store.history(run.uid for run in runs)
    assert [uid for uid, rows in found.items() if not rows] == [runs[13].uid]


# --- commits of one run that go together do not share what may be refused ------------------------


async def test_a_park_that_is_refused_takes_no_earlier_record_with_it(world: World) -> None:
    worker = await world.worker()
    [run] = await worker.owning("a")
    await worker.store.send(a_message("a", "m1"))

    recorded, parked = await asyncio.gather(
        worker.commit(run, a_record(run, 1)),
        worker.commit(run, move=Move("waiting", due_in=MINUTE, seen=0)),
    )

    assert (recorded.fate, parked.fate) == (Fate.DONE, Fate.BUSY)
    assert len(await history(worker.store, run.uid)) == 1


# --- owners that lost -----------------------------------------------------------------------------


async def test_a_worker_without_a_lease_writes_nothing(world: World) -> None:
    worker = await world.worker()
    [run] = await worker.owning("a")
    await worker.leave()

    assert (await worker.commit(run, a_record(run, 1))).fate is Fate.LOST
    assert (await worker.commit(run, a_record(run, 1), move=SUCCEEDED)).fate is Fate.LOST

    assert await history(worker.store, run.uid) == []
    assert (await worker.store.run(run.uid)).state == "running"


async def test_an_owner_that_lost_its_lease_writes_nothing(world: World) -> None:
    zombie, heir = await world.worker(lease=LEASE), await world.worker(lease=LEASE)
    [run] = await zombie.owning("a")
    await world.pass_time(LEASE, heir)
    world.clock.advance(1)
    [adopted] = await heir.adopt()

    everything = await zombie.commit(
        run,
        a_record(run, 1),
        move=SUCCEEDED,
        messages=(a_message(run.uid, "m1"),),
        starts=(a_run("child")._replace(parent=run.uid),),
    )

    assert everything.fate is Fate.LOST
    assert (await zombie.commit(run, a_record(run, 1))).fate is Fate.LOST
    assert await history(heir.store, run.uid) == []
    assert await heir.store.counts() == {"running": 1}
    assert (await heir.store.run(run.uid)).inbox == 0
    assert (await heir.commit(adopted, a_record(run, 1))).fate is Fate.DONE


async def test_a_stale_fence_writes_nothing(world: World) -> None:
    worker = await world.worker()
    [old] = await worker.owning("a")
    await worker.commit(old, move=RELEASED)
    [run] = await worker.claim()

    assert (await worker.commit(old, a_record(old, 1))).fate is Fate.LOST
    assert (await worker.commit(old, a_record(old, 1), move=SUCCEEDED)).fate is Fate.LOST

    assert await history(worker.store, run.uid) == []
    assert (await worker.store.run(run.uid)).state == "running"


async def test_nothing_is_recorded_for_a_run_that_is_not_running(world: World) -> None:
    worker = await world.worker()
    released, over = await worker.owning("released", "over")
    await worker.commit(released, move=RELEASED)
    await worker.commit(over, move=SUCCEEDED)

    for run in (released, over, released._replace(uid="nobody")):
        assert (await worker.commit(run, a_record(run, 1))).fate is Fate.LOST
        assert await history(worker.store, run.uid) == []
