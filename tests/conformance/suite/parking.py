"""Parking, pausing, releasing and waking: how a run moves, and what must not be lost between."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

from onward.core.instant import DAY, HOUR, MINUTE, SECOND
from onward.core.lease import Fate
from onward.errors import StoreUnusable
from onward.model.runs import Move
from onward.store import Following
from tests.conformance.suite.chains import FAILED
from tests.conformance.suite.samples import (
    RELEASED,
    a_child,
    a_message,
    a_record,
    a_run,
    an_open_record,
)

if TYPE_CHECKING:
    from tests.conformance.suite.world import World


async def test_a_parked_run_goes_on_when_it_is_due(world: World) -> None:
    worker = await world.worker()
    [run] = await worker.owning("a")

    parked = await worker.commit(run, move=Move("waiting", due_in=MINUTE, seen=0))

    row = await worker.store.run(run.uid)
    assert (row.state, row.worker, row.due) == ("waiting", None, parked.at + MINUTE)
    assert await worker.store.next_due() == parked.at + MINUTE
    world.clock.advance(MINUTE - 1)
    assert await worker.claim() == []
    world.clock.advance(1)
    assert [again.fence for again in await worker.claim()] == [run.fence + 1]


async def test_the_time_that_a_commit_returns_is_the_one_it_counts_from(world: World) -> None:
    worker = await world.worker()
    [run] = await worker.owning("a")
    world.clock.advance(SECOND)

    outcome = await worker.commit(
        run,
        an_open_record(run, "w#1")._replace(due_in=3 * MINUTE),
        move=Move("waiting", due_in=MINUTE),
        starts=(a_run("child")._replace(delay_in=2 * MINUTE),),
    )

    assert outcome.at == world.clock.wall()
    [record] = (await worker.store.history([run.uid]))[run.uid]
    child = await worker.store.run("uid-child")
    assert record.due == outcome.at + 3 * MINUTE
    assert (await worker.store.run(run.uid)).due == outcome.at + MINUTE
    assert (child.created_at, child.due) == (outcome.at, outcome.at + 2 * MINUTE)


async def test_of_a_due_time_and_a_delay_the_earlier_counts(world: World) -> None:
    worker = await world.worker()
    now = world.clock.wall()
    early, late, fixed = await worker.owning("early", "late", "fixed")

    await worker.commit(early, move=Move("waiting", due=now + 5, due_in=9))
    await worker.commit(late, move=Move("waiting", due=now + 9, due_in=5))
    await worker.commit(fixed, move=Move("waiting", due=now + 7))

    dues = [(await worker.store.run(run.uid)).due for run in (early, late, fixed)]
    assert dues == [now + 5, now + 5, now + 7]


async def test_a_run_that_waits_for_a_message_alone_is_woken_by_it(world: World) -> None:
    worker = await world.worker()
    [run] = await worker.owning("a")
    await worker.commit(run, an_open_record(run, "w#1"), move=Move("waiting", seen=0))
    assert await worker.claim() == []

    await worker.store.send(a_message("a", "m1"))

    [again] = await worker.claim()
    assert (again.uid, again.inbox) == (run.uid, 1)


async def test_parking_is_refused_when_something_has_arrived_meanwhile(world: World) -> None:
    worker = await world.worker()
    [run] = await worker.owning("a")
    await worker.store.send(a_message("a", "m1"))

    outcome = await worker.commit(
        run,
        an_open_record(run, "w#1"),
        move=Move("waiting", seen=run.inbox),
        messages=(a_message("a", "m2"),),
        starts=(a_run("child"),),
    )

    assert outcome.fate is Fate.BUSY
    assert (await worker.store.run(run.uid)).state == "running"
    assert (await worker.store.run(run.uid)).inbox == 1
    assert (await worker.store.history([run.uid]))[run.uid] == []
    assert await worker.store.counts() == {"running": 1}


async def test_an_owner_that_was_refused_looks_and_then_parks(world: World) -> None:
    worker = await world.worker()
    [run] = await worker.owning("a")
    await worker.store.send(a_message("a", "m1"))
    assert (await worker.commit(run, move=Move("waiting", due_in=1, seen=0))).fate is Fate.BUSY

    [message] = (await worker.store.look([run.uid]))[run.uid]

    outcome = await worker.commit(run, move=Move("waiting", due_in=1, seen=message.seq))
    assert outcome.fate is Fate.DONE


async def test_a_run_that_parks_while_it_is_woken_is_never_lost(world: World) -> None:
    worker = await world.worker()
    runs = await worker.owning(*map(str, range(20)))
    parks = [
        worker.commit(run, an_open_record(run, "w#1"), move=Move("waiting", seen=0)) for run in runs
    ]
    wakes = [worker.store.send(a_message(run.id, "m1")) for run in runs]

    outcomes, _ = await asyncio.gather(asyncio.gather(*parks), asyncio.gather(*wakes))

    claimed = {run.uid for run in await worker.claim(20)}
    assert claimed == {
        run.uid for run, outcome in zip(runs, outcomes, strict=True) if outcome.fate is Fate.DONE
    }


async def test_a_run_that_is_moved_and_woken_by_one_worker_at_once_gets_both(world: World) -> None:
    worker = await world.worker()
    sleeper, sender = await worker.owning("sleeper", "sender")

    parked, sent = await asyncio.gather(
        worker.commit(sleeper, move=Move("waiting", due_in=MINUTE)),
        worker.commit(sender, messages=(a_message(sleeper.uid, "m1"),)),
    )

    assert (parked.fate, sent.fate) == (Fate.DONE, Fate.DONE)
    row = await worker.store.run(sleeper.uid)
    assert (row.state, row.inbox) == ("ready", 1)


async def test_a_paused_run_keeps_its_reason_and_is_not_claimed(world: World) -> None:
    worker = await world.worker()
    [run] = await worker.owning("a")

    await worker.commit(run, move=Move("paused", "approval"))

    row = await worker.store.run(run.uid)
    assert (row.state, row.reason, row.worker) == ("paused", "approval", None)
    assert await worker.claim() == []


async def test_a_released_run_is_ready_at_once(world: World) -> None:
    worker = await world.worker()
    [run] = await worker.owning("a")
    world.clock.advance(SECOND)

    await worker.commit(run, a_record(run, 1), move=RELEASED)

    row = await worker.store.run(run.uid)
    assert (row.state, row.worker, row.due) == ("ready", None, world.clock.wall())
    assert [again.fence for again in await worker.claim()] == [run.fence + 1]


async def test_a_move_to_running_keeps_the_run(world: World) -> None:
    worker = await world.worker()
    [run] = await worker.owning("a")

    await worker.commit(run, a_record(run, 1), move=Move("running", seq=1, phase="prepared"))

    row = await worker.store.run(run.uid)
    assert (row.state, row.worker, row.fence) == ("running", worker.name, run.fence)
    assert (row.seq, row.phase) == (1, "prepared")
    assert (await worker.commit(run, a_record(run, 2))).fate is Fate.DONE


async def test_every_move_but_a_release_clears_the_crashes(world: World) -> None:
    worker = await world.worker()
    moves = {
        "waiting": Move("waiting", due_in=MINUTE),
        "paused": Move("paused", "operator"),
        "running": Move("running"),
        "succeeded": Move("succeeded"),
        "failed": Move("failed", "logic"),
        "ready": RELEASED,
    }
    runs = await worker.owning(*moves)
    await world.sql("UPDATE onward_run SET crashes = 1")

    for run in runs:
        await worker.commit(run, move=moves[run.id])

    left = {run.id: (await worker.store.run(run.uid)).crashes for run in runs}
    assert left == dict.fromkeys(moves, 0) | {"ready": 1}


async def test_a_move_that_says_nothing_of_phase_and_position_keeps_them(world: World) -> None:
    worker = await world.worker()
    [run] = await worker.owning("a")
    await worker.commit(
        run, a_record(run, 1), a_record(run, 2), move=Move("running", seq=2, phase="prepared")
    )

    await worker.commit(run, move=Move("waiting", due_in=MINUTE))

    row = await worker.store.run(run.uid)
    assert (row.seq, row.phase) == (2, "prepared")


async def test_each_change_of_a_run_is_dated(world: World) -> None:
    worker = await world.worker()
    [run] = await worker.owning("a")
    world.clock.advance(SECOND)
    await worker.commit(run, move=Move("waiting", due_in=MINUTE))
    parked = (await worker.store.run(run.uid)).updated_at
    world.clock.advance(SECOND)
    await worker.store.send(a_message("a", "m1"))

    assert parked == run.created_at + SECOND
    assert (await worker.store.run(run.uid)).updated_at == parked + SECOND


async def test_waits_that_were_set_while_the_clock_was_ahead_can_be_set_anew(world: World) -> None:
    worker = await world.worker()
    names = ("before", "relative", "absolute", "touched")
    [before, relative, absolute, touched] = await worker.owning(*names)
    await worker.commit(before, move=Move("waiting", due_in=HOUR))
    world.clock.jump(DAY)
    due = world.clock.wall() + HOUR
    for run, name in ((relative, "sleep"), (absolute, "sleep_until"), (touched, "sleep")):
        wait = an_open_record(run, f"{name}#1")._replace(kind="timer", name=name, due=due)
        await worker.commit(run, wait, move=Move("waiting", due=due))
    world.clock.set_back(DAY)
    with suppress(StoreUnusable):  # a database with a clock of its own has it right now
        await worker.store.reset_clock()
    world.clock.advance(MINUTE)
    now = world.clock.wall()
    await worker.store.send(a_message("touched", "m1"))
    [touched] = await worker.claim()
    await worker.commit(touched, move=Move("waiting", due=due))

    assert set(await worker.store.retime()) == {relative.uid, absolute.uid, touched.uid}
    assert await worker.store.retime() == []

    runs = (before, relative, absolute, touched)
    rows = {run.uid: await worker.store.run(run.uid) for run in runs}
    histories = await worker.store.history(list(rows))
    assert rows[before.uid].due == now - MINUTE + HOUR
    for run in (relative, touched):
        assert (rows[run.uid].due, rows[run.uid].fence) == (now, run.fence + 1)
        assert histories[run.uid][0].due == now + HOUR
    assert histories[absolute.uid][0].due == now - MINUTE + DAY + HOUR


async def test_delayed_starts_that_were_set_while_the_clock_was_ahead_can_be_set_anew(
    world: World,
) -> None:
    worker = await world.worker()
    store = worker.store
    [parent, failed] = await worker.owning("parent", "failed")
    await store.start(a_run("before")._replace(delay_in=HOUR))
    world.clock.jump(DAY)
    ahead = world.clock.wall()
    await store.start(a_run("delay")._replace(delay_in=HOUR))
    await store.start(a_run("at")._replace(due=ahead + HOUR))
    await worker.commit(parent, starts=(a_child(parent, "child")._replace(delay_in=HOUR),))
    await worker.commit(failed, move=FAILED)
    await store.follow(Following(failed.uid, "uid-retry", "retry_of", 0, delay_in=HOUR))
    world.clock.set_back(DAY)
    with suppress(StoreUnusable):  # a database with a clock of its own has it right now
        await store.reset_clock()
    world.clock.advance(MINUTE)
    now = world.clock.wall()

    assert set(await store.retime()) == {"uid-delay", "uid-child", "uid-retry"}
    assert await store.retime() == []

    for uid in ("uid-delay", "uid-child", "uid-retry"):
        row = await store.run(uid)
        assert (row.due, row.scheduled_at, row.fence) == (now + HOUR, now + HOUR, 0)
    assert (await store.run("uid-at")).due == ahead + HOUR
    assert (await store.run("uid-before")).due == now - MINUTE + HOUR
