"""Watching a SQLite file for others' commits: how often it looks, and when it publishes a hint."""

from __future__ import annotations

from onward.core.instant import SECOND
from onward.store.hints import ANYTHING, HintBuses
from onward.store.sqlite.watch import ACTIVE_FOR, LOOK_EVERY, LOOK_EVERY_WHILE_ACTIVE, FileWatch
from onward.testing.clock import VirtualClock


async def test_nothing_is_looked_at_while_nothing_waits_for_hints() -> None:
    hints = HintBuses()
    watch = FileWatch(hints, VirtualClock(), 1)

    assert watch.interval is None
    with hints.of("n").subscribe(["a"]):
        assert watch.interval == LOOK_EVERY / SECOND


async def test_it_looks_more_often_for_a_while_after_a_commit_of_another() -> None:
    hints, clock = HintBuses(), VirtualClock()
    watch = FileWatch(hints, clock, 1)
    with hints.of("n").subscribe(["a"]) as subscription:
        watch.see(2)

        assert await subscription.wait(0) == {ANYTHING}
        assert watch.interval == LOOK_EVERY_WHILE_ACTIVE / SECOND
        clock.advance(ACTIVE_FOR)
        assert watch.interval == LOOK_EVERY / SECOND


async def test_a_file_that_did_not_change_is_no_hint() -> None:
    hints = HintBuses()
    watch = FileWatch(hints, VirtualClock(), 1)
    with hints.of("n").subscribe(["a"]) as subscription:
        watch.see(1)

        assert await subscription.wait(0) == set()


async def test_commits_close_together_are_one_hint_and_the_last_is_never_dropped() -> None:
    hints, clock = HintBuses(), VirtualClock()
    watch = FileWatch(hints, clock, 1)
    with hints.of("n").subscribe(["a"]) as subscription:
        watch.see(2)
        assert await subscription.wait(0) == {ANYTHING}
        watch.see(3)
        watch.see(4)
        assert await subscription.wait(0) == set()

        clock.advance(LOOK_EVERY_WHILE_ACTIVE)
        watch.see(4)

        assert await subscription.wait(0) == {ANYTHING}
