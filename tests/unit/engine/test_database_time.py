"""The database's time, as a worker knows it: it follows every answer, forward and back."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from onward.core.clock_steps import STEP
from onward.core.instant import DAY, HOUR, SECOND
from onward.engine.database_time import DatabaseTime
from onward.testing.clock import VirtualClock

START = 1_000_000 * SECOND


class World:
    """A steady clock, and a database's clock that may be set."""

    def __init__(self, there: int = 0, back: int = 0) -> None:
        self.clock = VirtualClock()
        self.ahead = START - self.clock.monotonic()
        self.steps: list[int] = []
        self.time = DatabaseTime(self.clock, self.steps.append)
        self.ask(there, back)

    def database(self) -> int:
        return self.clock.monotonic() + self.ahead

    def ask(self, there: int = 0, back: int = 0) -> None:
        """Ask the database for its time; the question and the answer take a while."""
        asked = self.clock.monotonic()
        self.clock.advance(there)
        at = self.database()
        self.clock.advance(back)
        self.time.learn(at, asked)


def test_a_clock_that_was_set_back_is_followed_with_the_next_answer() -> None:
    world = World()
    world.ahead -= HOUR
    world.ask(1000, 1000)

    assert world.database() - 1000 <= world.time.now() <= world.database()
    assert world.steps == [-HOUR + 1000]


def test_a_clock_that_was_set_forward_is_followed_with_the_next_answer() -> None:
    world = World()
    world.ahead += DAY
    world.ask(1000, 1000)

    assert world.database() - 1000 <= world.time.now() <= world.database()
    assert world.steps == [DAY - 1000]


def test_a_fast_answer_after_a_slow_first_one_is_no_step() -> None:
    world = World(there=0, back=10 * SECOND)
    behind = world.database() - world.time.now()
    world.ask()

    assert behind == 10 * SECOND
    assert world.time.now() == world.database()
    assert world.steps == []


def test_a_clock_set_after_a_slow_first_answer_is_told_by_what_is_certain() -> None:
    world = World(there=0, back=10 * SECOND)
    world.ahead += HOUR
    world.ask()

    assert world.time.now() == world.database()
    assert world.steps == [HOUR]


def test_an_answer_that_took_long_moves_nothing_and_tells_nothing() -> None:
    world = World()
    world.ask(10 * SECOND, 0)
    world.ask(0, 10 * SECOND)

    assert world.time.now() == world.database()
    assert world.steps == []


def test_after_a_late_answer_of_a_clock_that_was_set_back_it_is_between_now_and_latest() -> None:
    world = World()
    world.ahead -= HOUR
    world.ask(0, 18 * SECOND)

    assert world.time.now() == world.database() - 18 * SECOND
    assert world.time.latest() == world.database()
    world.ask(8 * SECOND, 10 * SECOND)
    assert world.time.now() <= world.database() <= world.time.latest()


def test_a_clock_that_goes_a_little_slower_is_followed_without_a_word() -> None:
    world = World()
    for _ in range(100):
        world.clock.advance(SECOND)
        world.ahead -= 100
        world.ask()
        assert world.time.now() == world.database()

    assert world.steps == []


def test_an_answer_that_another_overtook_sets_the_clock_back_for_nobody() -> None:
    world = World()
    asked, at = world.clock.monotonic(), world.database()
    world.clock.advance(SECOND)
    world.ahead += DAY
    world.ask()
    world.time.learn(at, asked)

    assert world.time.now() == world.database()
    assert world.steps == [DAY]


def test_time_passes_between_two_answers() -> None:
    world = World()
    world.clock.advance(7 * SECOND)

    assert world.time.now() == world.database()


@given(
    st.lists(
        st.tuples(
            st.integers(0, 60 * SECOND),
            st.sampled_from([0, 0, 0, -1, 1, -STEP, STEP, -HOUR, HOUR]),
            st.integers(0, SECOND),
            st.integers(0, SECOND),
        ),
        max_size=20,
    )
)
def test_after_an_answer_it_is_never_late_by_more_than_its_way_back_nor_ahead_of_its_round_trip(
    turns: list[tuple[int, int, int, int]],
) -> None:
    world = World()
    for pause, step, there, back in turns:
        world.clock.advance(pause)
        world.ahead += step
        world.ask(there, back)

        assert world.database() - back <= world.time.now() <= world.database() + there
