"""The time of a SQLite file: it never goes back, never runs ahead of real time, and heals."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onward.core.file_time import (
    KEEP_EVERY,
    SLOWDOWN,
    Mark,
    learned,
    moved,
    must_keep,
    time_at,
)
from onward.core.instant import DAY, HOUR, MINUTE, SECOND

START = 1_000 * DAY


class World:
    """A machine with one file and a few processes that use it."""

    def __init__(self, processes: int) -> None:
        self.wall = START
        self.monotonic = 0
        self.kept = 0
        self.marks = [Mark(START, 0) for _ in range(processes)]

    def pass_time(self, elapsed: int) -> None:
        self.wall += elapsed
        self.monotonic += elapsed

    def look(self, process: int) -> int:
        """Return the time that a process sees in a transaction, and keep it as a commit does."""
        clocks = {"wall": self.wall, "monotonic": self.monotonic}
        mark = learned(self.marks[process], self.kept, **clocks)
        now = time_at(mark, **clocks)
        self.marks[process] = moved(mark, **clocks)
        if must_keep(self.kept, now, wall=self.wall):
            self.kept = now
        return now

    def restart(self, process: int) -> None:
        self.marks[process] = Mark(self.kept, self.monotonic)


elapsed = st.integers(0, 10 * MINUTE)
steps = st.integers(-2 * DAY, 2 * DAY)
processes = st.integers(0, 2)


@given(st.lists(st.tuples(elapsed, steps, processes)))
def test_it_never_goes_back_in_a_process(events: list[tuple[int, int, int]]) -> None:
    world = World(3)
    latest = [0, 0, 0]
    for passed, step, process in events:
        world.pass_time(passed)
        world.wall += step
        now = world.look(process)
        assert now >= latest[process]
        latest[process] = now


@given(st.lists(st.tuples(elapsed, processes, st.booleans())), st.integers(SECOND, 2 * DAY))
def test_it_never_goes_back_between_processes_while_it_is_ahead_of_the_clock(
    events: list[tuple[int, int, bool]], behind: int
) -> None:
    world = World(3)
    latest = world.look(0)
    world.wall -= behind
    for passed, process, restarts in events:
        world.pass_time(passed)
        if restarts:
            world.restart(process)
        now = world.look(process)
        assert now >= latest - KEEP_EVERY
        if now > world.wall and latest > world.wall:
            assert now >= latest
        latest = max(now, latest)


@given(
    st.lists(st.tuples(elapsed, st.integers(0, 2 * DAY), processes)),
)
def test_it_never_runs_faster_than_real_time_unless_the_clock_is_put_ahead(
    events: list[tuple[int, int, int]],
) -> None:
    world = World(3)
    before, since = world.look(0), world.monotonic
    for passed, back, process in events:
        world.pass_time(passed)
        world.wall -= back
        assert world.look(process) <= before + world.monotonic - since


@given(st.integers(0, 30 * DAY))
def test_a_clock_that_was_set_back_is_caught_up_with_after_as_much_time_as_it_was_set_back(
    behind: int,
) -> None:
    world = World(1)
    world.look(0)
    world.wall -= behind

    world.pass_time(SLOWDOWN * behind)

    assert world.look(0) == world.wall


def test_it_goes_on_at_half_speed_while_the_clock_is_behind() -> None:
    world = World(1)
    began = world.look(0)
    world.wall -= HOUR

    for _ in range(10_001):  # however often it is read
        world.pass_time(3)
        world.look(0)

    assert world.look(0) == began + 30_003 // SLOWDOWN


@pytest.mark.parametrize(
    ("kept", "now", "wall", "expected"),
    [
        (START, START + KEEP_EVERY - 1, START + KEEP_EVERY - 1, False),
        (START, START + KEEP_EVERY, START + KEEP_EVERY, True),
        (START, START + 1, START - HOUR, True),
        (START, START, START - HOUR, False),
    ],
)
def test_it_is_kept_once_a_second_and_always_while_the_clock_is_behind(
    kept: int, now: int, wall: int, expected: bool
) -> None:
    assert must_keep(kept, now, wall=wall) is expected
