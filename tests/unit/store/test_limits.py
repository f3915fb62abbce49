"""Which runs are claimed under limits: the most urgent, as far as there is room."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from onward.store.runs.limits import Candidate, pick


def test_the_most_urgent_come_first_as_far_as_there_is_room() -> None:
    runs = [
        Candidate("late", 1, 9, "a"),
        Candidate("early", 1, 3, "a"),
        Candidate("urgent", 2, 9, "a"),
        Candidate("full", 9, 0, "b"),
        Candidate("free", 0, 0, "c"),
    ]

    def picked(rooms: dict[str, int], limit: int) -> list[str]:
        return [run.uid for run in pick(runs, rooms, limit)]

    assert picked({"a": 2, "b": 0}, 10) == ["urgent", "early", "free"]
    assert picked({"a": 2, "b": 0}, 1) == ["urgent"]
    assert picked({}, 10) == ["full", "urgent", "early", "late", "free"]
    assert picked({"a": 1}, 0) == []


keys = st.sampled_from(["a", "b", "c"])


@given(
    st.lists(st.tuples(st.integers(-2, 2), st.integers(0, 5), keys), max_size=20),
    st.dictionaries(keys, st.integers(0, 4)),
    st.integers(0, 12),
)
def test_no_key_gets_more_than_its_room_and_nothing_is_left_out_without_need(
    made: list[tuple[int, int, str]], rooms: dict[str, int], limit: int
) -> None:
    runs = [Candidate(str(n), *run) for n, run in enumerate(made)]

    taken = pick(runs, rooms, limit)

    used = Counter(run.key for run in taken)
    assert len(set(taken)) == len(taken) <= limit
    assert all(used[key] <= room for key, room in rooms.items())
    for run in set(runs) - set(taken):
        assert len(taken) == limit or used[run.key] == rooms[run.key]
