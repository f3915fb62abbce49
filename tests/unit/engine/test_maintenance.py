"""`Maintenance.tick()`: what any process with a database does for all runs."""

from __future__ import annotations

from onward.codec import encode
from onward.core.instant import SECOND
from onward.core.lease import AUDIT_EVERY, GONE_WORKERS_KEPT
from onward.engine.maintenance import Maintenance
from onward.engine.payloads import pack
from onward.model.runs import NewRun
from onward.store.opening import open_store
from onward.testing.clock import VirtualClock


async def test_a_tick_ends_runs_whose_deadline_has_passed() -> None:
    clock = VirtualClock()
    async with open_store(":memory:", clock=clock, spawn=None) as store:
        uid = store.new_uid()
        run = NewRun(uid, "late", "wave", pack(encode([])), "hash", deadline_in=SECOND)
        await store.start(run)
        maintenance = Maintenance(store, clock)

        assert not (await maintenance.tick()).overdue
        clock.advance(2 * SECOND)
        assert (await maintenance.tick()).overdue

        assert (await store.run(uid)).state == "timed_out"
        assert not (await maintenance.tick()).overdue


async def test_a_tick_reports_the_time_of_the_database() -> None:
    clock = VirtualClock()
    async with open_store(":memory:", clock=clock, spawn=None) as store:
        times: list[tuple[int, int]] = []
        due = await Maintenance(store, clock, lambda at, asked: times.append((at, asked))).tick()

        assert times == [(due.at, clock.monotonic())]


async def test_rows_of_workers_that_left_long_ago_are_removed_now_and_then() -> None:
    clock = VirtualClock()
    async with open_store(":memory:", clock=clock, spawn=None) as store:
        maintenance = Maintenance(store, clock)
        texts = {
            "host": "here",
            "pid": 1,
            "version": None,
            "queues": "q",
            "tags": "",
            "names": "n",
            "schedules": "",
        }
        await store.register({"worker": "gone", **texts})
        await store.unregister("gone")
        clock.advance(GONE_WORKERS_KEPT + AUDIT_EVERY)

        await maintenance.tick()

        assert await store.remove_workers() == 0, "they were removed before"
