"""Ids that a store makes: each after the one before it, whatever the clock does."""

from __future__ import annotations

import threading

from onward.system.clock import SystemClock, SystemRandomness, Uids
from onward.testing.randomness import SeededRandomness


class Clock:
    """A clock whose time the test sets."""

    def __init__(self) -> None:
        self.now = 1_000_000_000_000_000

    def wall(self) -> int:
        return self.now

    def monotonic(self) -> int:
        return self.now


def test_ids_of_one_millisecond_sort_in_the_order_in_which_they_were_made() -> None:
    uids = Uids(Clock(), SeededRandomness(1))

    made = [uids.new() for _ in range(200)]

    assert sorted(made) == made
    assert len(set(made)) == 200


def test_an_id_made_after_the_clock_was_set_back_sorts_last() -> None:
    clock = Clock()
    uids = Uids(clock, SeededRandomness(1))
    before = uids.new()
    clock.now -= 3_600_000_000

    assert uids.new() > before


def test_an_id_of_a_later_millisecond_is_drawn_by_chance() -> None:
    clock = Clock()
    uids = Uids(clock, SeededRandomness(1))
    first = uids.new()
    clock.now += 1000

    assert uids.new()[-12:] != first[-12:]


def test_threads_that_make_ids_together_make_no_id_twice() -> None:
    uids = Uids(SystemClock(), SystemRandomness())
    made: list[str] = []
    threads = [
        threading.Thread(target=lambda: made.extend([uids.new() for _ in range(2000)]))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(set(made)) == 8000
