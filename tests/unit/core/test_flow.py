"""Flow control: rates, room under limits, and the turns of keys."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onward.core.flow import (
    BEGUN,
    CHILD,
    NEW,
    Candidate,
    FlowId,
    FlowKind,
    FlowLimits,
    Hold,
    KeyLine,
    Rate,
    Room,
    Turn,
    choose,
    next_start,
    rank,
    read_rate,
    record_starts,
    room_of,
    served,
    starts_left,
)
from onward.core.instant import HOUR, MINUTE, SECOND
from onward.errors import BadInput

rates = st.builds(Rate, st.integers(1, 100), st.integers(1, 10 * SECOND))


# --- rates ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "rate"),
    [("10/m", Rate(10, MINUTE)), ("1/5s", Rate(1, 5 * SECOND)), ("100/2h", Rate(100, 2 * HOUR))],
)
def test_a_rate_is_read(text: str, rate: Rate) -> None:
    assert read_rate(text) == rate


@pytest.mark.parametrize(
    "text", ["", "fast", "0/s", "10/", "1/x", "-1/s", "1/0s", "1/00s", "1.5/s"]
)
def test_what_is_no_rate_is_refused(text: str) -> None:
    with pytest.raises(BadInput, match="is not a rate"):
        read_rate(text)


@given(rates, st.lists(st.integers(0, 3 * SECOND), max_size=60))
def test_no_period_has_more_starts_than_a_rate_allows(rate: Rate, gaps: list[int]) -> None:
    now, kept = 0, record_starts(rate, (), 0, 0)
    starts: list[int] = []
    for gap in gaps:
        now += gap
        count = min(3, starts_left(rate, kept, now))
        if count:
            kept = record_starts(rate, kept, now, count)
            starts += [now] * count
    for at in starts:
        assert sum(at <= other < at + rate.period for other in starts) <= rate.count


@given(rates, st.integers(1, 50), st.integers(0, 10**15))
def test_the_next_start_is_allowed_when_it_is_due_and_soon(
    rate: Rate, count: int, now: int
) -> None:
    kept = record_starts(rate, (), now, min(count, rate.count))
    at = next_start(rate, kept, now)

    assert starts_left(rate, kept, at) >= 1
    assert at <= now + rate.period + rate.slice_length
    assert (at == now) == (starts_left(rate, kept, now) > 0)


def test_starts_that_a_clock_ahead_has_written_do_not_count() -> None:
    rate = Rate(1, SECOND)
    assert starts_left(rate, record_starts(rate, (), HOUR, 1), 0) == 1


# --- limits ---------------------------------------------------------------------------------------


def test_a_room_is_what_the_limits_leave() -> None:
    limits = FlowLimits(3, Rate(2, MINUTE))
    assert room_of(limits, 1, ((0, 1),), SECOND) == Room(2, 1)
    assert room_of(limits, 9, (), SECOND) == Room(0, 2)
    assert room_of(FlowLimits(), 9, (), SECOND) == Room()


@pytest.mark.parametrize(
    ("room", "new", "begun"),
    [
        (Room(), True, True),
        (Room(0), False, False),
        (Room(0, holds_open=True), False, True),
        (Room(None, 0), False, True),
        (Room(5, 5, is_paused=True), False, False),
    ],
)
def test_which_runs_fit_into_a_room(room: Room, new: bool, begun: bool) -> None:
    assert (room.fits(begun=False), room.fits(begun=True)) == (new, begun)


def test_what_restricts() -> None:
    assert not FlowLimits(hold=Hold.OPEN).restrict
    assert FlowLimits(0).restrict
    assert FlowLimits(is_paused=True).restrict
    assert FlowLimits(rate=Rate(1, 1)).restrict


# --- turns ----------------------------------------------------------------------------------------


def line(key: str, count: int, weight: int = 1, place: int = NEW) -> KeyLine:
    runs = [Candidate(f"{key}{n}", 0, n, "q", "w", key, place) for n in range(count)]
    return KeyLine(key, weight, runs)


def keys(taken: list[Candidate]) -> str:
    return "".join(run.key for run in taken)


def test_keys_take_turns_by_their_weights() -> None:
    lines = [line("a", 9, 3), line("b", 9)]
    assert keys(choose(lines, {}, 8, Turn(), is_all=True)) == "aaabaaab"
    assert keys(choose(lines, {}, 3, Turn("a", 2), is_all=True)) == "aba"
    assert keys(choose(lines, {}, 3, Turn("a", 3), is_all=True)) == "baa"
    assert keys(choose(lines, {}, 9, Turn("a", 3), is_all=False)) == "b"


@given(st.lists(st.integers(1, 7), min_size=1, max_size=30))
def test_the_sizes_of_claims_do_not_matter_to_turns(sizes: list[int]) -> None:
    turn, done, taken = Turn(), Counter[str](), ""
    for size in sizes:
        order = ("a", "b") if turn.key != "b" else ("b", "a")
        lines = [line(key, 40, {"a": 3, "b": 1}[key]) for key in order]
        chosen = choose(lines, {}, size, turn, is_all=True)
        for run in chosen:
            turn = served(turn, run.key, {"a": 3, "b": 1}[run.key])
        taken += keys(chosen)
        done.update(keys(chosen))
    assert taken == ("aaab" * 100)[: sum(sizes)]


def test_a_full_key_leaves_its_turn_to_others() -> None:
    rooms = {FlowId(FlowKind.KEY, "a", "q"): Room(1)}
    lines = [line("a", 5), line("b", 5)]
    assert keys(choose(lines, rooms, 4, Turn(), is_all=True)) == "abbb"


def test_what_has_begun_comes_first_and_then_children() -> None:
    assert (rank(1, None), rank(1, "p"), rank(0, "p"), rank(0, None)) == (BEGUN, BEGUN, CHILD, NEW)
    runs = [
        Candidate("new", 0, 1, "q", "w", "a", NEW),
        Candidate("child", 0, 3, "q", "w", "a", CHILD),
        Candidate("begun", 0, 2, "q", "w", "a", BEGUN),
    ]
    chosen = choose([KeyLine("a", 1, runs)], {}, 9, Turn(), is_all=True)
    assert [run.uid for run in chosen] == ["begun", "child", "new"]


@given(
    st.lists(
        st.tuples(st.sampled_from("abc"), st.sampled_from("vw"), st.sampled_from((BEGUN, NEW))),
        max_size=20,
    ),
    st.dictionaries(
        st.sampled_from(
            [
                FlowId(FlowKind.QUEUE, "q"),
                FlowId(FlowKind.WORKFLOW, "w"),
                FlowId(FlowKind.KEY, "a", "q"),
                FlowId(FlowKind.KEY, "b", "q"),
            ]
        ),
        st.builds(Room, st.none() | st.integers(0, 4), st.none() | st.integers(0, 4)),
    ),
    st.integers(0, 12),
)
def test_nothing_gets_more_than_its_room_and_nothing_is_left_out_without_need(
    made: list[tuple[str, str, int]], rooms: dict[FlowId, Room], limit: int
) -> None:
    runs = [
        Candidate(str(n), 0, n, "q", name, key, place) for n, (key, name, place) in enumerate(made)
    ]
    left = dict(rooms)
    lines = [KeyLine(key, 1, [run for run in runs if run.key == key]) for key in "abc"]

    taken = choose(lines, left, limit, Turn(), is_all=True)

    assert len({run.uid for run in taken}) == len(taken) <= limit
    for flow, room in rooms.items():
        of_it = [run for run in taken if flow in run.flows]
        placed = [run for run in of_it if not (run.is_begun and room.holds_open)]
        assert room.slots is None or len(placed) <= room.slots
        assert not (room.is_paused and of_it)
        assert room.starts is None or sum(not run.is_begun for run in of_it) <= room.starts
    for run in set(runs) - set(taken):
        fits = all(left[flow].fits(begun=run.is_begun) for flow in run.flows if flow in left)
        assert len(taken) == limit or not fits
