"""Schedules: each slot has one disposition, and at most one run, whichever processes decide."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from onward.core.instant import DAY, HOUR, MINUTE, SECOND
from onward.core.run import RunState
from onward.core.slot import NEWEST_KEPT, SLOTS_KEPT
from onward.engine.following import fork, retry
from onward.engine.schedules.backfilling import MAX_BACKFILL
from onward.engine.schedules.deciding import SlotDecisions, in_place
from onward.engine.schedules.local import LocalSchedules
from onward.errors import BadInput, NotFound
from onward.model.runs import Move
from onward.model.schedules import ScheduleSpec
from onward.store.invariants import check
from tests.conformance.suite.families import each
from tests.conformance.suite.samples import SUCCEEDED

if TYPE_CHECKING:
    from onward.core.instant import Duration
    from onward.store import Store
    from tests.conformance.suite.world import World


def a_schedule(name: str = "hourly", **given: Any) -> ScheduleSpec:
    """Return a schedule of the first minute of every hour, unless `given` says otherwise."""
    spec = ScheduleSpec(
        name, "greet", b"json:{}", "hash", "{}", "0 * * * *", None, "UTC", "allow", "latest", 100, 0
    )
    return spec._replace(**given)


async def decide(store: Store) -> None:
    await SlotDecisions(store, in_place).tick()


async def dispositions(store: Store, name: str = "hourly") -> dict[str, int]:
    """Return how many slots have each disposition; no slot may be there twice."""
    slots = await LocalSchedules(store).slots(name, 5_000)
    assert len({slot.at for slot in slots}) == len(slots)
    return dict(Counter(slot.disposition for slot in slots))


async def run_ids(store: Store) -> list[str]:
    rows = await store.read(
        lambda tx: tx.fetch("open_runs_of_schedule", schedule="hourly", limit=5_000)
    )
    return [(await store.run(row[0])).id for row in rows]


async def test_a_slot_starts_a_run_that_knows_its_time(world: World) -> None:
    store = await world.store()
    await LocalSchedules(store).create(a_schedule(zone="Europe/Berlin"))
    slot = world.clock.wall() + HOUR
    world.clock.advance(HOUR + 7)

    await decide(store)

    row = await store.newest("hourly@2026-01-01T02:00+01:00")
    assert (row.name, row.state, row.scheduled_at, row.due) == ("greet", "ready", slot, slot)
    [seen] = await LocalSchedules(store).slots("hourly", 10)
    assert (seen.disposition, seen.run, seen.lateness.microseconds) == ("started", row.id, 7)


async def test_nothing_is_due_before_the_first_slot(world: World) -> None:
    store = await world.store()
    await LocalSchedules(store).create(a_schedule())
    world.clock.advance(HOUR - 1)

    assert not (await store.maintenance_due()).schedules
    assert await store.next_due() == world.clock.wall() + 1
    world.clock.advance(1)
    assert (await store.maintenance_due()).schedules


async def test_of_many_processes_one_decides_about_a_slot(world: World) -> None:
    stores = [await world.store() for _ in range(4)]
    await LocalSchedules(stores[0]).create(a_schedule(catch_up="all", cap=1000))
    for _ in range(5):
        world.clock.advance(7 * HOUR)
        await asyncio.gather(*map(decide, stores))

    assert await dispositions(stores[0]) == {"started": 35}
    assert len(await run_ids(stores[0])) == 35


@each(["skip", "latest", "all"])
async def test_an_outage_of_30_days_is_accounted_for(world: World, catch_up: str) -> None:
    store = await world.store()
    await LocalSchedules(store).create(a_schedule(catch_up=catch_up, cap=250))
    world.clock.advance(30 * DAY + 10 * MINUTE)

    await decide(store)

    assert (
        await dispositions(store)
        == {
            "skip": {"missed": 720},
            "latest": {"missed": 719, "started": 1},
            "all": {"capped": 470, "started": 250},
        }[catch_up]
    )
    assert len(await run_ids(store)) == {"skip": 0, "latest": 1, "all": 250}[catch_up]
    assert not (await store.maintenance_due()).schedules


async def test_an_outage_of_30_days_of_seconds_is_one_row(world: World) -> None:
    store = await world.store()
    await LocalSchedules(store).create(a_schedule(cron="* * * * * *", catch_up="skip"))
    world.clock.advance(30 * DAY)

    await decide(store)

    slots = await world.sql("SELECT slots, disposition FROM onward_slot ORDER BY at")
    assert [tuple(row) for row in slots] == [(30 * 86_400 - 1, "missed"), (1, "started")]


@each(["allow", "skip", "coalesce", "replace"])
async def test_an_open_run_meets_the_overlap_rule(world: World, overlap: str) -> None:
    store = await world.store()
    await LocalSchedules(store).create(a_schedule(overlap=overlap))
    world.clock.advance(HOUR)
    await decide(store)
    world.clock.advance(HOUR)

    await decide(store)

    found = await dispositions(store)
    info = await LocalSchedules(store).get("hourly")
    first = await store.newest("hourly@2026-01-01T01:00+00:00")
    if overlap == "allow":
        assert (found, info.open_runs) == ({"started": 2}, 2)
    elif overlap == "skip":
        assert (found, info.open_runs) == ({"started": 1, "overlapped": 1}, 1)
    elif overlap == "coalesce":
        assert (found, info.held_at is None) == ({"started": 1}, False)
    else:
        assert (found, info.open_runs) == ({"started": 2}, 1)
        assert (first.state, first.reason) == ("cancelled", "replaced")  # it had not begun


@each(["coalesce", "replace"])
async def test_a_held_slot_starts_when_the_open_run_has_ended(world: World, overlap: str) -> None:
    worker = await world.worker()
    store = worker.store
    await LocalSchedules(store).create(a_schedule(overlap=overlap, catch_up="skip"))
    world.clock.advance(HOUR)
    await decide(store)
    [run] = await worker.claim()
    world.clock.advance(HOUR)
    await decide(store)
    world.clock.advance(HOUR + MINUTE)
    await decide(store)
    assert (
        await dispositions(store)
        == {
            "coalesce": {"started": 1, "coalesced": 1},
            "replace": {"started": 1, "missed": 1},
        }[overlap]
    )

    await worker.commit(run, move=SUCCEEDED)
    await decide(store)

    assert (await dispositions(store))["started"] == 2
    assert await run_ids(store) == ["hourly@2026-01-01T03:00+00:00"]


async def test_a_retried_run_is_open_again(world: World) -> None:
    worker = await world.worker()
    store = worker.store
    await LocalSchedules(store).create(a_schedule(overlap="skip"))
    world.clock.advance(HOUR)
    await decide(store)
    [run] = await worker.claim()
    await worker.commit(run, move=Move("failed", "logic"))
    await retry(store, run.uid)
    world.clock.advance(HOUR)

    await decide(store)

    assert await dispositions(store) == {"started": 1, "overlapped": 1}


async def test_a_forked_run_under_another_id_is_not_the_schedules(world: World) -> None:
    worker = await world.worker()
    store = worker.store
    await LocalSchedules(store).create(a_schedule(overlap="skip"))
    world.clock.advance(HOUR)
    await decide(store)
    [run] = await worker.claim()
    await worker.commit(run, move=SUCCEEDED)
    await fork(store, run.uid, None, id="experiment")
    world.clock.advance(HOUR)

    await decide(store)

    assert await dispositions(store) == {"started": 2}


async def test_a_paused_run_is_open(world: World) -> None:
    store = await world.store()
    await LocalSchedules(store).create(a_schedule(overlap="skip"))
    world.clock.advance(HOUR)
    await decide(store)
    await store.pause("hourly@2026-01-01T01:00+00:00")
    world.clock.advance(HOUR)
    await decide(store)
    assert await dispositions(store) == {"started": 1, "overlapped": 1}

    await store.stop("hourly@2026-01-01T01:00+00:00", state=RunState.CANCELLED, reason="operator")
    world.clock.advance(HOUR)
    await decide(store)

    assert await dispositions(store) == {"started": 2, "overlapped": 1}


async def test_slots_of_a_pause_are_recorded_when_it_ends(world: World) -> None:
    store = await world.store()
    schedules = LocalSchedules(store)
    await schedules.create(a_schedule())
    await schedules.pause("hourly")
    world.clock.advance(5 * HOUR)
    await decide(store)
    assert await dispositions(store) == {}

    assert (await schedules.resume("hourly")).state == "active"
    world.clock.advance(HOUR)
    await decide(store)

    assert await dispositions(store) == {"paused": 5, "started": 1}


async def test_a_change_of_the_timing_accounts_for_what_has_passed(world: World) -> None:
    store = await world.store()
    schedules = LocalSchedules(store)
    await schedules.create(a_schedule())
    world.clock.advance(3 * HOUR + 1)

    changed = await schedules.update("hourly", {"cron": None, "every": 2 * HOUR})
    world.clock.advance(2 * HOUR + SECOND)
    await decide(store)

    assert changed.overrides == ("cron", "every")
    assert await dispositions(store) == {"missed": 3, "started": 1}
    assert await run_ids(store) == ["hourly@2026-01-01T05:00:01+00:00"]


async def test_a_backfill_gives_missed_slots_a_run_each(world: World) -> None:
    store = await world.store()
    schedules = LocalSchedules(store)
    await schedules.create(a_schedule())
    created = world.clock.wall()
    world.clock.advance(10 * HOUR)
    await decide(store)
    span = created + 3 * HOUR, created + 6 * HOUR

    planned = await schedules.backfill("hourly", *span, dry_run=True)
    assert await dispositions(store) == {"missed": 9, "started": 1}
    done = await schedules.backfill("hourly", *span, dry_run=False)

    assert [slot.run for slot in planned] == [slot.run for slot in done]
    assert [slot.at.hour for slot in done] == [3, 4, 5]
    assert await dispositions(store) == {"missed": 6, "backfilled": 3, "started": 1}
    assert await schedules.backfill("hourly", *span, dry_run=False) == []
    rest = await schedules.backfill("hourly", created, created + DAY, dry_run=False)
    assert len(rest) == 7  # those before its first slot, too
    assert await dispositions(store) == {"backfilled": 10, "started": 1}


async def test_a_backfill_of_too_many_slots_is_refused(world: World) -> None:
    store = await world.store()
    await LocalSchedules(store).create(a_schedule(cron="* * * * * *"))
    now = world.clock.wall()

    with pytest.raises(BadInput, match=f"{MAX_BACKFILL:,}"):
        await LocalSchedules(store).backfill("hourly", now - DAY, now, dry_run=True)


async def test_a_trigger_uses_no_slot(world: World) -> None:
    store = await world.store()
    schedules = LocalSchedules(store)
    await schedules.create(a_schedule(overlap="skip"))
    await schedules.pause("hourly")
    world.clock.advance(MINUTE)

    run = await schedules.trigger("hourly")

    assert run.id == "hourly@2026-01-01T00:01+00:00"
    assert await dispositions(store) == {"triggered": 1}
    assert (await schedules.get("hourly")).open_runs == 1


async def test_a_schedule_that_breaks_is_parked_and_stops_no_other(world: World) -> None:
    store = await world.store()
    schedules = LocalSchedules(store)
    for name in ("a", "hourly"):
        await schedules.create(a_schedule(name))
    await world.sql("UPDATE onward_schedule SET zone = 'Mars/Olympus' WHERE name = 'a'")
    world.clock.advance(HOUR)

    await decide(store)

    broken = await schedules.get("a")
    assert broken.state == "parked"
    assert "Mars/Olympus" in (broken.error or "")
    assert await dispositions(store) == {"started": 1}
    with pytest.raises(BadInput, match="Mars"):
        await schedules.resume("a")
    assert (await schedules.update("a", {"zone": "UTC"})).state == "active"


async def test_jitter_delays_the_run_and_not_its_slot(world: World) -> None:
    store = await world.store()
    await LocalSchedules(store).create(a_schedule(jitter=10 * MINUTE))
    slot = world.clock.wall() + HOUR
    world.clock.advance(HOUR)

    await decide(store)

    row = await store.newest("hourly@2026-01-01T01:00+00:00")
    assert row.due is not None
    assert (row.state, row.scheduled_at) == ("waiting", slot)
    assert slot < row.due <= slot + 10 * MINUTE


async def set_back(world: World, store: Store, length: Duration) -> None:
    """Set the clock back, and the time of a file, which does not go back by itself."""
    world.clock.set_back(length)
    if not store.database.capabilities.clock:
        await store.reset_clock()


async def test_a_clock_that_is_set_back_doubles_no_slot(world: World) -> None:
    store = await world.store()
    await LocalSchedules(store).create(a_schedule())
    world.clock.advance(3 * HOUR)
    await decide(store)
    assert await dispositions(store) == {"missed": 2, "started": 1}

    await set_back(world, store, 2 * HOUR)
    for _ in range(4):
        await decide(store)
        world.clock.advance(HOUR)
    await decide(store)

    assert await dispositions(store) == {"missed": 1, "started": 4}  # of 5 hours
    assert len(await run_ids(store)) == len(set(await run_ids(store))) == 4


@each(["cron", "interval", "created ahead"])
async def test_a_schedule_goes_on_after_a_clock_that_was_a_year_ahead(
    world: World, timing: str
) -> None:
    store = await world.store()
    spec = a_schedule() if timing == "cron" else a_schedule(cron=None, every=HOUR)
    if timing != "created ahead":
        await LocalSchedules(store).create(spec)
    world.clock.advance(365 * DAY)
    if timing == "created ahead":
        await LocalSchedules(store).create(spec)
        world.clock.advance(3 * HOUR)
    await decide(store)
    ahead = {"missed": 2, "started": 1}
    assert timing != "created ahead" or await dispositions(store) == ahead
    await set_back(world, store, 365 * DAY)
    assert (await store.maintenance_due()).schedules

    for _ in range(3):
        await decide(store)
        world.clock.advance(HOUR)
    await decide(store)

    assert await dispositions(store) == {"started": 4}  # one of them is a year ahead
    assert len(await run_ids(store)) == 4
    assert await check(store) == []


async def test_a_slot_that_had_its_run_while_the_clock_was_ahead_gets_no_other(
    world: World,
) -> None:
    store = await world.store()
    await LocalSchedules(store).create(a_schedule(catch_up="all", cap=3))
    world.clock.advance(10 * HOUR)
    await decide(store)
    await set_back(world, store, 10 * HOUR)
    await decide(store)
    assert await dispositions(store) == {"started": 3}

    world.clock.advance(12 * HOUR)
    await decide(store)

    assert await dispositions(store) == {"capped": 6, "started": 6}
    assert len(await run_ids(store)) == 6
    assert await check(store) == []


async def test_old_slots_are_removed_except_for_the_newest(world: World) -> None:
    store = await world.store()
    await LocalSchedules(store).create(a_schedule(catch_up="all", cap=1000))
    world.clock.advance(150 * HOUR)
    await decide(store)
    world.clock.advance(SLOTS_KEPT)
    await LocalSchedules(store).update("hourly", {"catch_up": "skip"})

    await decide(store)

    rows = await world.sql("SELECT at FROM onward_slot ORDER BY at DESC")
    assert len(rows) == NEWEST_KEPT + 1  # a span of 90 days is one row
    assert len(await run_ids(store)) >= 150


async def test_a_deleted_schedule_leaves_its_runs(world: World) -> None:
    store = await world.store()
    schedules = LocalSchedules(store)
    await schedules.create(a_schedule())
    world.clock.advance(HOUR)
    await decide(store)

    await schedules.delete("hourly")

    with pytest.raises(NotFound, match="hourly"):
        await schedules.get("hourly")
    assert (await store.newest("hourly@2026-01-01T01:00+00:00")).state == "ready"
    assert await world.sql("SELECT at FROM onward_slot") == []


async def test_a_schedule_is_of_its_namespace(world: World) -> None:
    here, there = await world.store(), await world.store("other")
    await LocalSchedules(here).create(a_schedule())
    await LocalSchedules(there).create(a_schedule(workflow="other"))
    world.clock.advance(HOUR)

    await decide(here)

    assert await dispositions(here) == {"started": 1}
    assert await dispositions(there) == {}


async def test_a_name_that_is_taken_is_refused_unless_all_is_the_same(world: World) -> None:
    schedules = LocalSchedules(await world.store())
    await schedules.create(a_schedule())

    await schedules.create(a_schedule())
    with pytest.raises(BadInput, match="already exists"):
        await schedules.create(a_schedule(cron="1 * * * *"))


async def test_an_operators_change_survives_a_deploy(world: World) -> None:
    schedules = LocalSchedules(await world.store())
    await schedules.declare(a_schedule())
    await schedules.pause("hourly")
    await schedules.update("hourly", {"overlap": "skip"})

    again = await schedules.declare(a_schedule())
    later = await schedules.declare(a_schedule(overlap="replace", cron="30 * * * *"))

    assert (again.state, again.overlap, again.declared) == ("paused", "skip", True)
    assert (later.state, later.overlap, later.cron) == ("paused", "skip", "30 * * * *")
