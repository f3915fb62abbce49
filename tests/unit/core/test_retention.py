"""Which runs may be deleted: the rule as a table, and over families."""

from itertools import product

import pytest

from onward.core.chain import Link
from onward.core.instant import DAY
from onward.core.retention import (
    DEFAULT_RETENTION,
    ENDED,
    Retention,
    RunFacts,
    WhyKept,
    decide,
    read_retention,
    why_kept,
)
from onward.core.run import TERMINAL, RunState
from onward.core.value import changed
from onward.errors import BadInput

NOW = 100 * DAY
KEEP = Retention(succeeded=DAY, failed=10 * DAY, cancelled=2 * DAY, timed_out=None, ids=30 * DAY)
OLD = RunFacts("a", "a", RunState.SUCCEEDED, NOW - DAY)


def verdicts(*runs: RunFacts) -> dict[str, WhyKept | None]:
    return decide(runs, KEEP, now=NOW)


def test_all_final_states_are_looked_through() -> None:
    assert set(ENDED) == set(TERMINAL)


@pytest.mark.parametrize("state", RunState)
@pytest.mark.parametrize("counts_itself", [True, False])
@pytest.mark.parametrize("unsettled", [True, False])
def test_the_rule_is_total(state: RunState, counts_itself: bool, unsettled: bool) -> None:
    for age, until in product((0, 1, 10, 1000), (None, NOW, NOW + 1)):
        finished_at = NOW - age * DAY if state in TERMINAL else None
        run = RunFacts("a", "a", state, finished_at, unsettled=unsettled, sendable_until=until)
        why = why_kept(run, KEEP, now=NOW, counts_itself=counts_itself)
        length = KEEP.of(state) if state in TERMINAL else None
        expected = (
            WhyKept.OPEN if state not in TERMINAL
            else WhyKept.UNSETTLED if unsettled
            else WhyKept.SENDABLE if until == NOW + 1
            else None if not counts_itself
            else WhyKept.STATE if length is None
            else WhyKept.AGE if age * DAY < length
            else None
        )  # fmt: skip
        assert why == expected


def test_a_run_that_was_retried_has_no_time_of_its_own() -> None:
    failed = changed(OLD, state=RunState.FAILED)
    retry = changed(OLD, uid="b", follows="a", link=Link.RETRY)
    assert verdicts(failed) == {"a": WhyKept.AGE}
    assert verdicts(failed, retry) == {"a": None, "b": None}


def test_a_run_that_was_continued_has_a_time_of_its_own() -> None:
    young = changed(OLD, finished_at=NOW)
    after = RunFacts("b", "a", RunState.WAITING, follows="a", link=Link.CONTINUE)
    assert verdicts(young, after) == {"a": WhyKept.AGE, "b": WhyKept.OPEN}
    assert verdicts(OLD, after) == {"a": None, "b": WhyKept.OPEN}


@pytest.mark.parametrize("link", [Link.CONTINUE, Link.REPLACE])
def test_a_run_does_not_go_before_an_older_one_under_its_id(link: Link) -> None:
    stuck = changed(OLD, unsettled=True)
    later = changed(OLD, uid="b", follows="a", link=link)
    last = changed(OLD, uid="c", follows="b", link=link)
    assert verdicts(last, stuck, later) == {
        "a": WhyKept.UNSETTLED, "b": WhyKept.OLDER, "c": WhyKept.OLDER,
    }  # fmt: skip


def test_a_fork_is_not_kept_by_a_run_that_its_origin_replaces() -> None:
    stuck = changed(OLD, unsettled=True)
    fork = RunFacts("b", "other", RunState.SUCCEEDED, 0, follows="a", link=Link.REPLACE)
    assert verdicts(stuck, fork)["b"] is None


@pytest.mark.parametrize("kept", [
    changed(OLD, uid="x", unsettled=True),
    RunFacts("x", "x", RunState.RUNNING),
    changed(OLD, uid="x", finished_at=NOW),
])  # fmt: skip
def test_one_run_that_stays_keeps_its_family(kept: RunFacts) -> None:
    top = changed(OLD, uid="top", id="top")
    child = changed(OLD, uid="child", id="child", parent="top", cancel_with_parent=True)
    fork = changed(OLD, uid="fork", id="fork", follows="child", link=Link.FORK)
    below = changed(kept, parent="fork")
    found = verdicts(top, child, fork, below)
    assert found.pop("x") is not None
    assert set(found.values()) == {WhyKept.RELATED}
    assert set(verdicts(top, child, fork).values()) == {None}


def test_a_child_that_ends_with_its_parent_is_as_old_as_that() -> None:
    top = changed(OLD, uid="top")
    child = RunFacts("c", "c", RunState.FAILED, NOW - 1, "top", cancel_with_parent=True)
    assert set(verdicts(top, child).values()) == {None}
    assert verdicts(top, changed(child, cancel_with_parent=False))["c"] is WhyKept.AGE


def test_what_an_app_is_given_becomes_times_by_state() -> None:
    assert read_retention(None) is None
    assert read_retention({}) == DEFAULT_RETENTION
    assert read_retention("2d") == Retention(2 * DAY, 2 * DAY, 2 * DAY, 2 * DAY)
    assert read_retention({"failed": None, "ids": "1d"}) == changed(
        DEFAULT_RETENTION, failed=None, ids=DAY
    )


@pytest.mark.parametrize("given", [{"done": "1d"}, {"running": "1d"}, {"ids": None}, "soon"])
def test_what_cannot_be_meant_is_refused(given: object) -> None:
    with pytest.raises(BadInput):
        read_retention(given)  # type: ignore[arg-type]  # that is the point
