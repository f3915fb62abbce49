"""Which failed calls a retry makes again, and which results it keeps."""

from __future__ import annotations

import time
from typing import NamedTuple

import pytest

from onward.core.failure_origin import (
    CallOutcome,
    FailedCall,
    failed_call_of,
    read_failed_call,
    stopped_call_of,
)
from onward.core.replay import RecordKind


def bad(name: str, asked: int, seq: int, branch: str = "") -> CallOutcome:
    return CallOutcome(name, asked, seq, branch=branch)


def good(name: str, asked: int, seq: int, branch: str = "") -> CallOutcome:
    return CallOutcome(name, asked, seq, is_good=True, has_result=True, branch=branch)


def timer(asked: int, seq: int) -> CallOutcome:
    return CallOutcome("sleep", asked, seq, is_good=True, has_result=True, kind=RecordKind.TIMER)


def effect(name: str, asked: int, seq: int | None, *, is_good: bool = True) -> CallOutcome:
    kind = RecordKind.EFFECT
    return CallOutcome(name, asked, seq, is_good, is_good, kind=kind, reaches_out=True)


class Shape(NamedTuple):
    """How the calls of a run ended, whose errors ended it, and where its retry begins."""

    about: str
    outcomes: list[CallOutcome]
    blamed: tuple[str, ...]
    origin: str
    beside: tuple[str, ...] = ()


TOGETHER = [bad("a", 0, 1, "0"), bad("b", 0, 2, "1"), bad("c", 0, 3, "2")]
POOL = [
    bad("a", 0, 1, "0"),
    good("next", 1, 2, "2"),  # requested in the moment in which `a` failed, by another branch
    bad("b", 0, 3, "1"),
]
FALLBACK = [bad("a", 0, 1), good("fallback", 1, 2), bad("b", 2, 3)]
SIBLINGS = [bad("a", 0, 1, "0"), good("fallback", 1, 2, "0"), bad("b", 0, 3, "1")]

SHAPES = [
    Shape("one call", [bad("a", 0, 1)], ("a",), "a"),
    Shape("together, the first is raised", TOGETHER, ("a",), "a"),
    Shape("together, the last is raised", TOGETHER, ("c",), "a"),
    Shape("together, all are raised", TOGETHER, ("a", "b", "c"), "a"),
    Shape("together, an own error is raised", TOGETHER, (), "a"),
    Shape("together and reported", [*TOGETHER, good("report", 3, 4)], ("c",), "a"),
    Shape("together, reported, own error", [*TOGETHER, good("report", 3, 4)], (), "a"),
    Shape("with a good one", [*TOGETHER, good("d", 0, 4, "3")], ("c",), "a", ("d",)),
    Shape("in turn, nothing between", [bad("a", 0, 1), bad("b", 1, 2)], ("b",), "a"),
    Shape("in turn, a sleep between", [bad("a", 0, 1), timer(1, 2), bad("b", 2, 3)], ("b",), "a"),
    Shape("in turn, a step between", FALLBACK, ("b",), "b"),
    Shape("in turn, a step between, own error", FALLBACK, (), "a"),
    Shape("a pool", POOL, ("b",), "a"),
    Shape("a pool, own error", POOL, (), "a"),
    Shape("dealt with in its branch", SIBLINGS, ("b",), "b"),
    Shape(
        "dealt with by the branch above, at once",
        [bad("a", 0, 1, "0"), good("fallback", 1, 2), bad("b", 0, 3, "1")],
        ("b",),
        "b",
    ),
    Shape(
        "dealt with by branches below, at once",
        [bad("a", 0, 1, "0"), good("fallback", 1, 2, "0.0"), bad("b", 0, 3, "1")],
        ("b",),
        "b",
    ),
    Shape(
        "the branch above went on for another reason",
        [bad("a", 0, 1, "0"), good("x", 0, 2), good("y", 2, 3), bad("b", 0, 4, "1")],
        ("b",),
        "a",
        ("x",),
    ),
    Shape(
        "a branch of a longer number is another branch",
        [bad("a", 0, 1, "1"), good("next", 1, 2, "11"), bad("b", 0, 3, "2")],
        ("b",),
        "a",
    ),
    Shape(
        "an effect between, own error",
        [bad("a", 0, 1), effect("pay", 1, 2), bad("b", 2, 3), bad("c", 3, 4)],
        (),
        "b",
    ),
    Shape(
        "an effect between that may have happened",
        [bad("a", 0, 1), effect("pay", 1, 2, is_good=False)],
        ("pay",),
        "pay",
    ),
    Shape(
        "an effect between of which nobody has heard",
        [bad("a", 0, 1), effect("pay", 1, None), bad("b", 1, 2)],
        ("b",),
        "b",
    ),
    Shape(
        "an effect since, own error", [bad("a", 0, 1), effect("pay", 1, 2)], (), "a"
    ),  # the ledger says that it may not be built on
    Shape(
        "one that was under way when one failed that was under way when one failed",
        [bad("a", 0, 2, "0"), good("x", 0, 3, "1"), bad("b", 1, 5, "2"), bad("c", 4, 6, "1")],
        ("c",),
        "a",
        ("x",),
    ),
    Shape(
        "long before",
        [bad("a", 0, 1, "0"), good("x", 1, 2, "1"), good("y", 2, 3, "1"), bad("b", 3, 4, "1")],
        ("b",),
        "b",
    ),
    Shape(
        "the limit of a timeout",
        [bad("a", 0, 1), good("x", 1, 2)],
        ("limit",),
        "limit",
    ),
]


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.about)
def test_a_retry_begins_at_the_first_of_the_failures_that_ended_the_run(shape: Shape) -> None:
    others = [bad("limit", 1, 3)]
    blamed = [each for each in (*shape.outcomes, *others) if each.identity in shape.blamed]

    failed_call = failed_call_of(shape.outcomes, blamed)

    assert failed_call is not None
    assert failed_call.identity == shape.origin
    if shape.beside:
        assert failed_call.beside == shape.beside


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.about)
def test_no_failed_outcome_is_kept(shape: Shape) -> None:
    blamed = [each for each in shape.outcomes if each.identity in shape.blamed]
    failed = {each.identity for each in shape.outcomes if not (each.is_good or each.seq is None)}

    failed_call = failed_call_of(shape.outcomes, blamed)

    assert failed_call is not None
    assert not failed & set(failed_call.beside)


def test_what_was_requested_before_an_error_and_finished_after_it_is_kept() -> None:
    outcomes = [
        good("before", 0, 1),
        bad("a", 1, 2),
        good("beside", 1, 3, "1"),
        good("after", 2, 4, "1"),
        CallOutcome("unheard", 1, None),
        CallOutcome("later and unheard", 4, None),
    ]

    assert failed_call_of(outcomes, outcomes[1:2]) == FailedCall("a", ("beside", "unheard"))


def test_a_part_of_a_map_in_which_items_failed_is_kept_for_its_other_items() -> None:
    part = CallOutcome("part", 0, 2, has_result=True)

    assert failed_call_of([bad("a", 0, 1), part]) == FailedCall("a", ("part",))
    assert failed_call_of([part]) == FailedCall("part", ("part",))


def test_a_run_without_a_failed_call_has_no_origin() -> None:
    assert failed_call_of([good("a", 0, 1)]) is None


def test_failures_beside_what_was_stopped_are_made_again() -> None:
    wait = CallOutcome("wait", 0, None, branch="1")

    assert stopped_call_of([bad("a", 0, 1, "0")], [wait], 2) == FailedCall("a")


def test_a_retry_of_what_was_stopped_begins_at_the_stop_if_failures_were_dealt_with() -> None:
    wait = CallOutcome("wait", 1, None)
    beside = CallOutcome("beside", 0, None, branch="1")

    assert stopped_call_of([bad("a", 0, 1)], [wait], 2) is None
    assert stopped_call_of([bad("a", 0, 1)], [], 2) is None
    assert stopped_call_of([bad("a", 0, 1), good("fallback", 1, 2)], [beside], 3) is None


@pytest.mark.parametrize("beside", [(), ("one",), ("0:a#1", "key=1", '\x1f\n"')])
def test_a_failed_call_is_read_as_it_was_kept(beside: tuple[str, ...]) -> None:
    failed_call = FailedCall("b#1", beside)

    assert read_failed_call(failed_call.kept()) == failed_call


def test_nobody_is_read_as_nobody() -> None:
    assert read_failed_call(None) is None


def test_the_origin_is_found_in_a_long_history_at_once() -> None:
    half = 20_000
    pool = [
        bad(f"{n}", max(0, n - 10), n + 1, f"{n}")
        if n % 2
        else good(f"{n}", max(0, n - 10), n + 1, f"{n}")
        for n in range(2 * half)
    ]
    began = time.process_time()

    failed_call = failed_call_of(pool, pool[-1:])

    assert failed_call is not None
    assert failed_call.identity == "1"
    assert time.process_time() - began < 2
