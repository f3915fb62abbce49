"""The checks themselves: a sound database is clean, and every planted violation is named."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from onward.core.instant import HOUR, MINUTE
from onward.model.pipelines import NewInput
from onward.model.schedules import NewSchedule, ScheduleChange, SlotRow
from onward.store import Attachments, Following
from onward.store.invariants import check, invariants
from onward.store.runs.schedules import change_schedule, insert_schedule, seen_schedule
from tests.conformance.suite.families import each
from tests.conformance.suite.pipeline import complete, declare, prepared, publish
from tests.conformance.suite.samples import (
    SUCCEEDED,
    a_child,
    a_message,
    a_record,
    a_run,
    an_effect,
    an_open_record,
)
from tests.conformance.suite.scheduling import a_schedule

if TYPE_CHECKING:
    from onward.store import Store
    from tests.conformance.suite.world import World


class Planted(NamedTuple):
    """Statements that break an invariant, and what is broken by them."""

    name: str
    subject: str
    sql: str


PLANTED: dict[str, Planted] = {
    "running without a fence": Planted(
        "check_owner", "uid-parent", "UPDATE onward_run SET fence = 0 WHERE uid = 'uid-parent'"
    ),
    "ready in the future": Planted(
        "check_ready_is_due",
        "uid-child",
        "UPDATE onward_run SET due = due + 1 WHERE uid = 'uid-child'",
    ),
    "open with an end time": Planted(
        "check_end", "uid-child", "UPDATE onward_run SET finished_at = 1 WHERE uid = 'uid-child'"
    ),
    "over without an end time": Planted(
        "check_end", "uid-over", "UPDATE onward_run SET finished_at = NULL WHERE uid = 'uid-over'"
    ),
    "run without data": Planted(
        "check_data", "uid-child", "DELETE FROM onward_run_data WHERE uid = 'uid-child'"
    ),
    "data without a run": Planted(
        "check_orphan_data",
        "ghost",
        "INSERT INTO onward_run_data (namespace, uid, input, args_hash)"
        " SELECT namespace, 'ghost', input, args_hash FROM onward_run_data WHERE uid = 'uid-child'",
    ),
    "id without a newest run": Planted(
        "check_newest", "child", "UPDATE onward_run SET newest = 0 WHERE uid = 'uid-child'"
    ),
    "waiting for nothing": Planted(
        "check_limbo",
        "uid-child",
        "UPDATE onward_run SET state = 'waiting', due = NULL WHERE uid = 'uid-child'",
    ),
    "paused for no reason": Planted(
        "check_limbo", "uid-child", "UPDATE onward_run SET state = 'paused' WHERE uid = 'uid-child'"
    ),
    "over and held": Planted(
        "check_held", "uid-over", "UPDATE onward_run SET held_by = uid WHERE uid = 'uid-over'"
    ),
    "record of nobody": Planted(
        "check_orphan_record",
        "ghost",
        "UPDATE onward_record SET run = 'ghost' WHERE identity = 'w#1'",
    ),
    "closed without a closing time": Planted(
        "check_record_end",
        "uid-parent",
        "UPDATE onward_record SET closed_at = NULL WHERE identity = 'step#1'",
    ),
    "open with a closing time": Planted(
        "check_record_end",
        "uid-parent",
        "UPDATE onward_record SET closed_at = 1 WHERE identity = 'w#1'",
    ),
    "open with a position": Planted(
        "check_record_end",
        "uid-parent",
        "UPDATE onward_record SET seq = 4 WHERE identity = 'w#1'",
    ),
    "position used twice": Planted(
        "check_positions",
        "uid-parent",
        "UPDATE onward_record SET seq = 1 WHERE identity = 'step#2'",
    ),
    "positions with a gap": Planted(
        "check_positions",
        "uid-parent",
        "UPDATE onward_record SET seq = 4 WHERE identity = 'step#3'",
    ),
    "positions that begin with zero": Planted(
        "check_positions",
        "uid-parent",
        "UPDATE onward_record SET seq = 0 WHERE identity = 'step#2'",
    ),
    "attempt without a first": Planted(
        "check_attempts",
        "uid-parent",
        "UPDATE onward_record SET attempt = 2 WHERE identity = 'step#1'",
    ),
    "message beyond the count": Planted(
        "check_inbox", "uid-parent", "UPDATE onward_inbox SET seq = 9 WHERE message = 'm2'"
    ),
    "message number zero": Planted(
        "check_inbox", "uid-parent", "UPDATE onward_inbox SET seq = 0 WHERE message = 'm2'"
    ),
    "message to nobody": Planted(
        "check_orphan_message",
        "ghost",
        "UPDATE onward_inbox SET run = 'ghost' WHERE message = 'm2'",
    ),
    "record closed by no message": Planted(
        "check_message_taken_once", "uid-parent", "DELETE FROM onward_inbox WHERE message = 'm1'"
    ),
    "message taken twice": Planted(
        "check_message_taken_once",
        "uid-parent",
        "UPDATE onward_record SET message = 1 WHERE identity = 'step#2'",
    ),
    "clock record without a position": Planted(
        "check_clock", "uid-parent", "UPDATE onward_record SET kind = 'clock' WHERE seq IS NULL"
    ),
    "child of nobody": Planted(
        "check_parent", "uid-child", "UPDATE onward_run SET parent = 'ghost' WHERE id = 'child'"
    ),
    "cancelled with no parent": Planted(
        "check_bound",
        "uid-over",
        "UPDATE onward_run SET cancel_with_parent = 1 WHERE uid = 'uid-over'",
    ),
    "attempt number zero": Planted(
        "check_run_attempt", "uid-over", "UPDATE onward_run SET attempt = 0 WHERE uid = 'uid-over'"
    ),
    "second attempt of nothing": Planted(
        "check_run_attempt", "uid-over", "UPDATE onward_run SET attempt = 2 WHERE uid = 'uid-over'"
    ),
    "followed and yet the newest": Planted(
        "check_followed", "uid-old", "UPDATE onward_run SET newest = 2 WHERE uid = 'uid-old'"
    ),
    "followed and yet open": Planted(
        "check_followed",
        "uid-old",
        "UPDATE onward_run SET state = 'ready', due = 0 WHERE uid = 'uid-old'",
    ),
    "neither newest nor followed": Planted(
        "check_tip",
        "uid-old",
        "UPDATE onward_run SET link = NULL, follows = NULL WHERE id = 'old'",
    ),
    "run retried twice": Planted(
        "check_chain",
        "uid-over",
        "UPDATE onward_run SET follows = 'uid-over', link = 'retry_of' "
        "WHERE id IN ('child', 'parent')",
    ),
    "effect without a version": Planted(
        "check_effect", "key-parent", "UPDATE onward_effect SET version = 0"
    ),
    "effect in flight but never sent": Planted(
        "check_effect", "key-parent", "UPDATE onward_effect SET attempt = 0"
    ),
    "effect of nobody": Planted(
        "check_orphan_effect", "key-parent", "UPDATE onward_effect SET run = 'ghost'"
    ),
    "effect planned by a run that is over": Planted(
        "check_effect_planned",
        "key-parent",
        "UPDATE onward_effect SET state = 'planned', run = 'uid-over'",
    ),
    "delivery of nothing": Planted(
        "check_delivery", "event-m3", "DELETE FROM onward_event WHERE uid = 'event-m3'"
    ),
    "delivery reserved by nobody": Planted(
        "check_delivery", "event-m2", "UPDATE onward_delivery SET run = 'ghost' WHERE seq = 2"
    ),
    "delivery reserved by a run that is over": Planted(
        "check_delivery_holder",
        "event-m2",
        "UPDATE onward_delivery SET run = 'uid-over' WHERE seq = 2",
    ),
    "events of an effect released": Planted(
        "check_delivery_kept",
        "uid-over",
        "UPDATE onward_effect SET run = 'uid-over';"
        "UPDATE onward_run SET kind = 'consumer', state = 'cancelled' WHERE uid = 'uid-over'",
    ),
    "pending without work": Planted(
        "check_delivery_work", "event-m3", "UPDATE onward_handler SET published = 0"
    ),
    "two open runs in a lane": Planted(
        "check_lane",
        "mail",
        "DROP INDEX onward_run_lane;UPDATE onward_run SET lane = 'mail' WHERE uid = 'uid-parent'",
    ),
    "consumed event not counted": Planted(
        "check_subscription", "mail.AddRow", "UPDATE onward_subscription SET consumed = 0"
    ),
    "open delivery not counted": Planted(
        "check_input", "input-1", "UPDATE onward_input SET open = 1"
    ),
    "slot with two dispositions": Planted(
        "check_slot",
        "hourly",
        "UPDATE onward_slot SET at = 50, until = 50, run = NULL, disposition = 'missed' "
        "WHERE at = 60",
    ),
    "slot ahead of its schedule": Planted(
        "check_slot", "hourly", "UPDATE onward_schedule SET decided_to = 45"
    ),
    "slot of no schedule": Planted("check_slot", "hourly", "DELETE FROM onward_schedule"),
}


async def furnish(world: World) -> Store:
    """Return a store in which there is one of everything."""
    worker = await world.worker()
    parent, over, old = await worker.owning("parent", "over", "old")
    await worker.commit(over, move=SUCCEEDED)
    await worker.commit(old, move=SUCCEEDED)
    await worker.store.follow(Following(old.uid, "uid-new", "forked_from", 0, delay_in=MINUTE))
    await worker.store.send(a_message("parent", "m1"))
    await worker.store.send(a_message("parent", "m2"))
    taken = a_record(parent, 3)._replace(message=1)
    await worker.commit(
        parent,
        a_record(parent, 1),
        a_record(parent, 2),
        taken,
        an_open_record(parent, "w#1"),
        attached=Attachments(effects=(an_effect(parent, 1, "in_flight"),)),
    )
    await declare(worker.store)
    mail = NewInput("input-1", "mail", "gmail", "email", "1", "Mail 1")
    await publish(worker.store, "m1", "m2", "m3", inputs=[mail])
    await complete(worker, await prepared(worker, "m1"))
    await prepared(worker, "m2")
    await worker.commit(parent, starts=(a_child(parent, "child"),))
    await furnish_slots(worker.store)
    return worker.store


async def furnish_slots(store: Store) -> None:
    """Create a schedule with a span of slots and a single one."""
    later = await store.now() + HOUR
    await store.write(partial(insert_schedule, new=NewSchedule(a_schedule(), 0, 60, later)))
    seen = await store.read(partial(seen_schedule, name="hourly"))
    assert seen is not None
    slots = [
        SlotRow(10, 50, 5, "missed", None, "every 10 0", 60),
        SlotRow(60, 60, 1, "started", "hourly@60", "every 10 0", 60),
    ]
    assert await change_schedule(store, ScheduleChange(seen.row, slots))


async def test_one_of_everything_is_clean(world: World) -> None:
    store = await furnish(world)

    assert await check(store) == []


@each(PLANTED)
async def test_a_planted_violation_is_named(world: World, case: str) -> None:
    store = await furnish(world)
    planted = PLANTED[case]
    for statement in planted.sql.split(";"):
        await world.sql(statement)
    world.spoiled = True

    found = {violation.name: violation for violation in await check(store)}

    assert planted.subject in found[planted.name].subjects
    assert invariants()[planted.name] in str(found[planted.name])


async def test_a_violation_is_planted_for_every_invariant(world: World) -> None:
    store = await world.store()

    assert {planted.name for planted in PLANTED.values()} == set(invariants())
    assert await check(store) == []


async def test_a_clock_that_was_set_back_breaks_nothing(world: World) -> None:
    worker = await world.worker()
    await worker.store.start(a_run("left alone"))
    await worker.store.start(a_run("told"))
    world.clock.set_back(HOUR)

    await worker.store.send(a_message("told", "m1"))

    assert await check(worker.store) == []
