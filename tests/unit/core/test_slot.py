"""Slots: each one that has passed gets exactly one disposition."""

from __future__ import annotations

from itertools import count, product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onward.core.instant import DAY, HOUR, MINUTE, SECOND
from onward.core.slot import (
    MAX_CATCH_UP,
    ON_TIME_WITHIN,
    CatchUp,
    Disposition,
    Due,
    Overlap,
    Plan,
    Rules,
    Span,
    anchor_by,
    due_interval,
    due_slots,
    jittered,
    plan,
    slot_after,
    without,
)
from onward.errors import BadInput, InvariantBroken

NOW = 100 * DAY


def hourly(missed: int) -> Due:
    """Return hours that have passed, the newest of them now."""
    first = NOW - (missed - 1) * HOUR
    return due_slots(count(first, HOUR), now=NOW)


def started(slot: int) -> Span:
    return Span(slot, slot, 1, Disposition.STARTED)


def decided(
    due: Due,
    catch_up: CatchUp = CatchUp.LATEST,
    overlap: Overlap = Overlap.SKIP,
    cap: int = 100,
    *,
    open_run: bool = False,
    now: int = NOW,
) -> Plan:
    return plan(due, Rules(catch_up, overlap, cap), now=now, open_run=open_run)


def test_slots_that_have_passed_are_told_from_those_ahead() -> None:
    assert due_slots(iter([10, 20, 30]), now=20) == Due(2, 10, (10, 20), 30)


def test_a_schedule_may_end() -> None:
    assert due_slots(iter([10, 20]), now=50) == Due(2, 10, (10, 20), None)
    assert due_slots(iter([]), now=50) == Due(0, None, (), None)


def test_a_schedule_that_goes_back_is_a_bug() -> None:
    with pytest.raises(InvariantBroken):
        due_slots(iter([10, 10]), now=50)


def test_an_outage_of_any_length_takes_bounded_memory() -> None:
    due = due_slots(iter(range(50_000)), now=49_999)

    assert (due.count, due.first, len(due.newest)) == (50_000, 0, MAX_CATCH_UP + 1)
    assert due.newest[-1] == 49_999


@pytest.mark.parametrize(
    ("instant", "following"), [(-1, 0), (0, 5), (4, 5), (5, 10), (1_000_000, 1_000_005)]
)
def test_an_interval_fires_on_its_own_grid(instant: int, following: int) -> None:
    assert slot_after(instant, anchor=0, every=5) == following


def test_an_interval_of_no_length_is_refused() -> None:
    with pytest.raises(BadInput, match="0s"):
        slot_after(0, anchor=0, every=0)


@given(st.integers(0, 50), st.integers(1, 7), st.integers(-10, 60), st.integers(-10, 4000))
def test_an_interval_is_counted_as_if_it_were_walked(
    anchor: int, every: int, since: int, now: int
) -> None:
    walked = due_slots(count(slot_after(since, anchor=anchor, every=every), every), now=now)

    assert due_interval(anchor=anchor, every=every, since=since, now=now) == walked


def test_nothing_due_is_nothing_to_write() -> None:
    assert plan(Due(0, None, (), 70), Rules(), now=60, open_run=False) == Plan(next_due=70)


def test_a_slot_on_time_is_started_under_every_rule() -> None:
    for catch_up, overlap in product(CatchUp, Overlap):
        made = decided(hourly(1), catch_up=catch_up, overlap=overlap)
        assert made == Plan((started(NOW),), next_due=NOW + HOUR)
        assert made.starts == (NOW,)


def test_latest_starts_the_newest_slot_and_counts_the_others_as_missed() -> None:
    made = decided(hourly(4), catch_up=CatchUp.LATEST, now=NOW + 30 * MINUTE)

    assert made.spans == (
        Span(NOW - 3 * HOUR, NOW - HOUR, 3, Disposition.MISSED),
        started(NOW),
    )


def test_skip_starts_no_slot_that_is_late() -> None:
    made = decided(hourly(4), catch_up=CatchUp.SKIP, now=NOW + ON_TIME_WITHIN + 1)

    assert made.spans == (Span(NOW - 3 * HOUR, NOW, 4, Disposition.MISSED),)


def test_skip_starts_the_newest_slot_if_it_is_on_time() -> None:
    assert decided(hourly(4), catch_up=CatchUp.SKIP, now=NOW + ON_TIME_WITHIN).starts == (NOW,)


def test_all_starts_the_newest_up_to_its_cap() -> None:
    made = decided(hourly(5), catch_up=CatchUp.ALL, overlap=Overlap.ALLOW, cap=2)

    assert made.spans == (
        Span(NOW - 4 * HOUR, NOW - 2 * HOUR, 3, Disposition.CAPPED),
        started(NOW - HOUR),
        started(NOW),
    )


def test_the_largest_cap_still_tells_how_many_were_left_out() -> None:
    due = due_slots(iter(range(5_000)), now=4_999)

    made = decided(due, catch_up=CatchUp.ALL, overlap=Overlap.ALLOW, cap=MAX_CATCH_UP, now=4_999)

    assert made.spans[0] == Span(0, 3_999, 4_000, Disposition.CAPPED)
    assert len(made.starts) == MAX_CATCH_UP


@pytest.mark.parametrize("cap", [0, -1, MAX_CATCH_UP + 1])
def test_a_cap_that_cannot_be_meant_is_refused(cap: int) -> None:
    with pytest.raises(BadInput, match=str(cap)):
        Rules(cap=cap)


@pytest.mark.parametrize(
    ("overlap", "dispositions"),
    [
        (Overlap.ALLOW, [Disposition.STARTED, Disposition.STARTED]),
        (Overlap.SKIP, [Disposition.OVERLAPPED]),
        (Overlap.REPLACE, [Disposition.OVERLAPPED]),
    ],
)
def test_an_open_run_decides_with_the_overlap_rule(
    overlap: Overlap, dispositions: list[Disposition]
) -> None:
    made = decided(hourly(2), open_run=True, catch_up=CatchUp.ALL, overlap=overlap)

    assert [span.disposition for span in made.spans] == dispositions
    assert made.replaces is (overlap is Overlap.REPLACE)


def test_skip_starts_one_of_several_slots_if_no_run_is_open() -> None:
    made = decided(hourly(2), catch_up=CatchUp.ALL, overlap=Overlap.SKIP)

    assert made.starts == (NOW - HOUR,)


def test_coalescing_folds_older_slots_and_holds_the_newest_while_a_run_is_open() -> None:
    made = decided(hourly(3), open_run=True, catch_up=CatchUp.ALL, overlap=Overlap.COALESCE)

    assert made.held == NOW
    assert made.spans == (Span(NOW - 2 * HOUR, NOW - HOUR, 2, Disposition.COALESCED),)


def test_replacing_holds_the_newest_slot_until_the_open_run_has_ended() -> None:
    made = decided(hourly(2), open_run=True, catch_up=CatchUp.ALL, overlap=Overlap.REPLACE)

    assert (made.held, made.starts) == (NOW, ())
    assert decided(hourly(1), overlap=Overlap.REPLACE).starts == (NOW,)


@pytest.mark.parametrize("overlap", [Overlap.COALESCE, Overlap.REPLACE])
def test_a_slot_that_was_held_is_not_missed_for_it(overlap: Overlap) -> None:
    rules = Rules(CatchUp.SKIP, overlap)

    made = plan(hourly(1), rules, now=NOW + HOUR // 2, open_run=False, held=True)

    assert made.starts == (NOW,)


def test_a_part_of_a_plan_leaves_the_rest_due() -> None:
    made = decided(hourly(5), catch_up=CatchUp.ALL, overlap=Overlap.ALLOW, cap=4)

    part = made.first_part(2)

    assert part.spans == made.spans[:3]
    assert part.next_due == made.starts[2]
    assert made.first_part(4) == made


def test_a_held_slot_is_started_when_the_run_has_ended() -> None:
    made = decided(hourly(3), overlap=Overlap.COALESCE)

    assert made.spans == (
        Span(NOW - 2 * HOUR, NOW - HOUR, 2, Disposition.COALESCED),
        started(NOW),
    )
    assert made.held is None


def test_slots_of_a_paused_schedule_are_accounted_for() -> None:
    made = plan(hourly(3), Rules(), now=NOW, open_run=False, paused=True)

    assert made == Plan((Span(NOW - 2 * HOUR, NOW, 3, Disposition.PAUSED),), next_due=NOW + HOUR)


@given(
    st.sampled_from(CatchUp),
    st.sampled_from(Overlap),
    st.integers(1, 30),
    st.booleans(),
    st.booleans(),
    st.lists(st.integers(1, 3 * MINUTE), max_size=40),
    st.integers(0, HOUR),
)
def test_every_slot_that_has_passed_gets_exactly_one_disposition(
    catch_up: CatchUp,
    overlap: Overlap,
    cap: int,
    open_run: bool,
    paused: bool,
    gaps: list[int],
    now: int,
) -> None:
    slots, at = [], 0
    for gap in gaps:
        at += gap
        slots.append(at)
    passed = [slot for slot in slots if slot <= now]
    rules = Rules(catch_up, overlap, cap)

    made = plan(due_slots(iter(slots), now=now), rules, now=now, open_run=open_run, paused=paused)

    covered: list[int] = []
    for span in made.spans:
        inside = [slot for slot in passed if span.first <= slot <= span.last]
        assert len(inside) == span.count
        assert (inside[0], inside[-1]) == (span.first, span.last)
        covered += inside
    assert covered + ([made.held] if made.held is not None else []) == passed
    assert made.next_due == next((slot for slot in slots if slot > now), None)
    assert len(made.starts) <= cap


@given(st.text(), st.integers(0, NOW), st.integers(0, HOUR))
def test_jitter_only_lengthens_and_is_the_same_for_every_worker(
    schedule: str, slot: int, jitter: int
) -> None:
    begins = jittered(schedule, slot, jitter)

    assert slot <= begins <= slot + jitter
    assert begins == jittered(schedule, slot, jitter)


def test_jitter_spreads_slots() -> None:
    assert len({jittered("s", n, SECOND) - n for n in range(100)}) > 90


# --- after a clock that was ahead -----------------------------------------------------------------


@given(
    missed=st.integers(1, 2 * MAX_CATCH_UP),
    taken=st.sets(st.integers(0, 2 * MAX_CATCH_UP - 1)),
    catch_up=st.sampled_from(CatchUp),
    overlap=st.sampled_from(Overlap),
    cap=st.integers(1, MAX_CATCH_UP),
)
def test_slots_that_have_a_run_are_left_out_of_any_plan(
    missed: int, taken: set[int], catch_up: CatchUp, overlap: Overlap, cap: int
) -> None:
    due = hourly(missed)
    ran = tuple(sorted(NOW - n * HOUR for n in taken if n < missed))

    made = decided(without(due, ran), catch_up, overlap, cap)

    assert not set(made.starts) & set(ran)
    is_inexact = missed > MAX_CATCH_UP + 1 and due.newest[0] in ran
    assert sum(span.count for span in made.spans) == missed - len(ran) + is_inexact
    assert made.next_due == due.following


@given(st.integers(-(10**6), 10**6), st.integers(1, 10**4), st.integers(-(10**6), 10**6))
def test_an_anchor_in_the_future_moves_back_on_its_grid(now: int, every: int, anchor: int) -> None:
    moved = anchor_by(now, anchor=anchor, every=every)

    assert (moved - anchor) % every == 0
    assert moved == anchor if anchor <= now else now - every < moved <= now
