"""The chain: an ended run is followed by a new one, never changed."""

from __future__ import annotations

import pytest

from onward.core.chain import (
    Carried,
    Link,
    Member,
    carried,
    child_origin,
    copied,
    follow,
    origin,
    retry_cut,
    tip,
)
from onward.core.decision import Decision, Moved, Refused
from onward.core.replay.record import Record, RecordKind, RecordState
from onward.core.run import TERMINAL, Reason, RunState, RunStatus
from onward.errors import InvariantBroken

RUNNING = RunStatus(RunState.RUNNING, fence=1)
ENDED = [RunStatus(state, fence=1) for state in RunState if state in TERMINAL]


def followed(run: RunStatus, link: Link) -> Decision[RunStatus]:
    return follow(run, link, now=0)


def test_the_tip_is_the_run_that_nothing_follows() -> None:
    assert tip([Member("c", "b"), Member("a"), Member("b", "a")]) == "c"


@pytest.mark.parametrize(
    "members",
    [
        [],
        [Member("a"), Member("b")],
        [Member("a"), Member("b", "a"), Member("c", "a")],
        [Member("b", "a")],
        [Member("a"), Member("b", "c"), Member("c", "b")],
        [Member("a", "b"), Member("b", "a")],
    ],
)
def test_runs_that_are_not_one_line_have_no_tip(members: list[Member]) -> None:
    with pytest.raises(InvariantBroken):
        tip(members)


@pytest.mark.parametrize("link", [Link.RETRY, Link.FORK, Link.REPLACE])
@pytest.mark.parametrize("run", ENDED, ids=lambda run: run.state)
def test_an_ended_run_is_followed_and_stays_as_it_is(run: RunStatus, link: Link) -> None:
    if link is Link.RETRY and run.state is RunState.SUCCEEDED:
        assert isinstance(followed(run, link), Refused)
    else:
        assert followed(run, link) == Moved(run)


@pytest.mark.parametrize("link", Link)
def test_a_run_that_is_followed_already_is_not_followed_again(link: Link) -> None:
    assert isinstance(follow(ENDED[1], link, now=0, newest=False), Refused)


@pytest.mark.parametrize("link", [Link.RETRY, Link.FORK])
def test_a_paused_run_ends_as_failed_when_another_takes_its_place(link: Link) -> None:
    paused = RunStatus(RunState.PAUSED, Reason.DIVERGENCE, fence=1)

    assert followed(paused, link) == Moved(RunStatus(RunState.FAILED, Reason.DIVERGENCE, fence=1))


@pytest.mark.parametrize("link", [Link.RETRY, Link.FORK])
def test_a_run_with_an_uncertain_effect_is_not_superseded(link: Link) -> None:
    paused = RunStatus(RunState.PAUSED, Reason.RECONCILIATION, fence=1)

    assert isinstance(followed(paused, link), Refused)


@pytest.mark.parametrize("link", [Link.RETRY, Link.FORK, Link.REPLACE])
def test_a_run_that_goes_on_is_not_followed(link: Link) -> None:
    assert isinstance(followed(RUNNING, link), Refused)


def test_a_run_continues_as_a_new_one_and_has_succeeded() -> None:
    assert followed(RUNNING, Link.CONTINUE) == Moved(
        RunStatus(RunState.SUCCEEDED, Reason.CONTINUED, fence=1)
    )


def test_a_run_does_not_continue_over_open_branches() -> None:
    assert isinstance(follow(RUNNING, Link.CONTINUE, now=0, unsettled=True), Refused)


def test_only_a_retry_keeps_what_effect_keys_are_made_of() -> None:
    assert origin(Link.RETRY, "old", None) == "old"
    assert origin(Link.RETRY, "old", "first") == "first"
    assert [origin(link, "old", None) for link in Link if link is not Link.RETRY] == [None] * 3
    assert [origin(link, "old", "first") for link in (Link.FORK, Link.REPLACE)] == [None] * 2


def test_a_child_that_goes_on_as_a_new_run_has_other_keys_and_the_same_in_a_retry() -> None:
    first = child_origin("parent", "order#1")

    assert first == child_origin("parent", "order#1") != child_origin("parent", "order#2")
    second = origin(Link.CONTINUE, "old", first)
    assert second == origin(Link.CONTINUE, "other", first)
    assert len({first, second, origin(Link.CONTINUE, "old", second)}) == 3


def test_what_a_new_run_takes_over_depends_on_how_it_follows() -> None:
    assert Carried.HISTORY in carried(Link.RETRY)
    assert carried(Link.FORK) == carried(Link.RETRY)
    assert Carried.DEADLINE in carried(Link.CONTINUE)
    assert Carried.HISTORY not in carried(Link.CONTINUE)
    assert carried(Link.REPLACE) == frozenset()


def a_record(
    identity: str,
    seq: int | None,
    state: RecordState = RecordState.SUCCEEDED,
    attempt: int = 1,
    kind: RecordKind = RecordKind.STEP,
) -> Record:
    return Record(identity, attempt, seq, kind, identity, state)


HISTORY = [
    a_record("d", 5),
    a_record("c", 4, RecordState.FAILED),
    a_record("b", None, RecordState.FAILED),
    a_record("b", 3, attempt=2),
    a_record("a", 1, RecordState.FAILED),
    a_record("open", None, RecordState.OPEN),
]


def identities(records: tuple[Record, ...]) -> set[tuple[str, int]]:
    return {(record.identity, record.attempt) for record in records}


def test_a_retry_begins_at_the_call_that_ended_the_run() -> None:
    assert retry_cut(HISTORY, failed_call="a") == 1


def test_a_retry_of_a_run_that_no_call_has_ended_copies_everything_that_is_closed() -> None:
    assert retry_cut(HISTORY) is None


def test_a_retry_of_a_cancelled_run_begins_at_the_cancel() -> None:
    cancelled = [*HISTORY, a_record("=cancel", 2, kind=RecordKind.CANCEL)]

    assert retry_cut(cancelled) == 2


def test_a_retry_of_a_run_whose_calls_all_succeeded_copies_everything() -> None:
    history = [a_record("a", 1), a_record("open", None, RecordState.OPEN)]

    assert retry_cut(history) is None
    assert copied(history, cut=None) == (history[0],)


def test_copied_calls_keep_their_failed_attempts_and_open_ones_stay_behind() -> None:
    assert identities(copied(HISTORY, cut=4)) == {("a", 1), ("b", 1), ("b", 2)}


def test_nothing_before_the_cut_is_nothing_copied() -> None:
    assert copied(HISTORY, cut=1) == ()
