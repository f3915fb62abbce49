"""Suspects: a run that crashes its workers is found in five crashes, and no other is blamed."""

from __future__ import annotations

from itertools import combinations_with_replacement
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onward.core.run import MAX_CRASHES, TOGETHER, rooms_after, rooms_beside, suspect

if TYPE_CHECKING:
    from hypothesis.strategies import DataObject

SLOTS = 100
CRASHER = 0


def test_the_more_crashes_the_fewer_are_together_and_the_last_one_is_alone() -> None:
    assert sorted(TOGETHER) == list(range(min(TOGETHER), MAX_CRASHES))
    together = [TOGETHER[crashes] for crashes in sorted(TOGETHER)]
    assert together == sorted(together, reverse=True)
    assert together[-1] == 1


@pytest.mark.parametrize("count", range(6))
def test_whatever_is_taken_no_more_are_together_than_the_one_with_most_crashes_allows(
    count: int,
) -> None:
    for held in combinations_with_replacement(range(MAX_CRASHES), count):
        for crashes, room in rooms_beside(held, SLOTS)[1:]:
            if room:
                suspects = [each for each in (*held, *[crashes] * room) if suspect(each)]
                assert len(suspects) <= TOGETHER[max(suspects)]


def test_a_worker_without_suspects_may_take_some_of_each() -> None:
    assert dict(rooms_beside([0, 1], SLOTS)) == {MAX_CRASHES: SLOTS, **TOGETHER}
    assert dict(rooms_beside([0, 1], 3)) == {MAX_CRASHES: 3, 2: 3, 3: 3, 4: 1}


def test_beside_one_with_four_crashes_no_suspect_is_taken() -> None:
    assert {room for _, room in rooms_beside([4], SLOTS)[1:]} == {0}


def test_what_was_taken_leaves_room_only_for_its_like() -> None:
    rooms = rooms_beside([], SLOTS)
    assert rooms_after(rooms, [0, 1]) == rooms
    assert rooms_after(rooms, [0, 2, 2]) == ((2, TOGETHER[2] - 2),)


class Fleet:
    """Workers that execute runs, one of which takes each of its workers down."""

    def __init__(self, runs: int, workers: int) -> None:
        self.crashes = dict.fromkeys(range(runs), 0)
        self.orphaned: set[int] = set()
        self.over: set[int] = set()
        self.hands: list[set[int]] = [set() for _ in range(workers)]
        self.deaths = 0

    def claim(self, worker: int) -> None:
        """Take runs as the store hands them out."""
        hands = self.hands[worker]
        free = SLOTS - len(hands)
        taken = {uid for hand in self.hands for uid in hand} | self.over
        waiting = {uid: self._after(uid) for uid in self.crashes if uid not in taken}
        chosen = [uid for uid, crashes in waiting.items() if not suspect(crashes)][:free]
        for wanted, room in rooms_beside([self.crashes[uid] for uid in hands], free):
            these = [uid for uid, crashes in waiting.items() if crashes == wanted]
            if these:
                chosen += these[:room]
                break
        for uid in chosen[:free]:
            self.crashes[uid] = self._after(uid)
            self.orphaned.discard(uid)
            (self.over if self.crashes[uid] >= MAX_CRASHES else hands).add(uid)

    def _after(self, uid: int) -> int:
        """Return the crashes that a run will have once it is claimed."""
        return self.crashes[uid] + (uid in self.orphaned)

    def execute(self, worker: int, quick: set[int]) -> None:
        """Let the `quick` runs of a worker end, and the worker die if it has the crasher."""
        hands = self.hands[worker]
        ended = hands & quick - {CRASHER}
        self.over |= ended
        hands -= ended
        if CRASHER in hands:
            self.deaths += 1
            self.orphaned |= hands
            hands.clear()


@pytest.mark.parametrize("innocents", [0, 1, 3, 15, 16, 17, 60, 99, 250])
def test_a_crasher_among_innocents_that_never_get_on_in_time_is_the_only_one_that_fails(
    innocents: int,
) -> None:
    fleet = Fleet(innocents + 1, workers=1)
    while CRASHER not in fleet.over:
        fleet.claim(0)
        fleet.execute(0, set() if CRASHER in fleet.hands[0] else set(fleet.crashes))

    assert fleet.deaths == MAX_CRASHES
    innocent = [crashes for uid, crashes in fleet.crashes.items() if uid != CRASHER]
    assert max(innocent, default=0) < MAX_CRASHES


@settings(max_examples=100, deadline=None)
@given(data=st.data(), innocents=st.integers(0, 40), workers=st.integers(1, 3))
def test_whatever_the_order_one_crasher_never_brings_an_innocent_to_five(
    data: DataObject, innocents: int, workers: int
) -> None:
    fleet = Fleet(innocents + 1, workers)
    for _ in range(data.draw(st.integers(5, 60))):
        worker = data.draw(st.integers(0, workers - 1))
        fleet.claim(worker)
        held = sorted(fleet.hands[worker])
        quick = data.draw(st.sets(st.sampled_from(held))) if held else set()
        fleet.execute(worker, quick)

    assert fleet.deaths <= MAX_CRASHES
    assert all(crashes < MAX_CRASHES for uid, crashes in fleet.crashes.items() if uid != CRASHER)
