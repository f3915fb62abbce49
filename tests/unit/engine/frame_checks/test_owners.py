"""What a worker may not ask for in the name of a run."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from onward.core.access import Principal
from onward.core.chain import child_origin
from onward.core.instant import MAX_DURATION
from onward.core.owner_rights import OwnerCall
from onward.engine.frame_checks import (
    check_continuation,
    check_dismissal,
    check_end,
    check_owner,
    check_progress,
    check_queues,
    check_start,
)
from onward.model.following import Continuation
from onward.model.runs import Move, NewRun, RunOwner
from tests.unit.engine.frame_checks.samples import (
    CHILD,
    CONSUMER_OWNER,
    HELD,
    OWNER,
    RUN,
    START,
    STRANGER,
    WORKER,
)

CONTINUED = Move("succeeded", "continued")
FAILED = Move("failed", "logic", error=b"j1")


def started(run: NewRun, on_conflict: str | None = None) -> str | None:
    refusal = check_start(WORKER, OWNER, run, on_conflict)
    return None if refusal is None else refusal.rule


@pytest.mark.parametrize(
    ("by", "broken"),
    [
        (OWNER, None),
        (OWNER._replace(worker="w2"), "worker"),
        (OWNER._replace(run=STRANGER), "run"),
        (OWNER._replace(fence=2), "fence"),
    ],
)
def test_a_worker_acts_for_its_own_runs_alone(by: RunOwner, broken: str | None) -> None:
    answers = (
        check_owner(WORKER, by),
        check_start(WORKER, by, START, None),
        check_end(WORKER, by, FAILED, OwnerCall.RETRY),
        check_continuation(WORKER, by, CONTINUED, Continuation(b"j1", "hash", None)),
        check_dismissal(WORKER, by, [CHILD], [CHILD]),
    )
    assert [answer and answer.rule for answer in answers] == [broken] * len(answers)


@pytest.mark.parametrize(
    ("changes", "broken"),
    [
        ({"parent": STRANGER}, "start"),
        ({"parent": None}, "start"),
        ({"parent_identity": None}, "start"),
        ({"root": RUN}, "start"),
        ({"follows": STRANGER, "link": "retry_of"}, "start"),
        ({"link": "replaces"}, "start"),
        ({"attempt": 2}, "start"),
        ({"kind": "consumer"}, "start"),
        ({"kind": "producer"}, "start"),
        ({"handler": "mail.add_row"}, "start"),
        ({"origin": STRANGER}, "start"),
        ({"uid": "mine"}, "start"),
        ({"id": ""}, "start"),
        ({"queue": ""}, "start"),
        ({"cancel_with_parent": 2}, "start"),
        ({"input": b"x" * 1001}, "size"),
        ({"attributes": b"x" * 1001}, "size"),
        ({"retry": "x" * 901}, "size"),
        ({"tags": "x" * 901}, "size"),
        ({"priority": 1 << 62}, "number"),
        ({"deadline": 1 << 62}, "number"),
        ({"delay_in": MAX_DURATION + 1}, "number"),
    ],
)
def test_a_child_that_cannot_be_is_refused(changes: dict[str, Any], broken: str) -> None:
    assert started(START) is None
    assert started(START._replace(**changes)) == broken


def test_a_child_is_refused_that_is_too_large_only_as_a_whole() -> None:
    text, data = "é" * 900, b"x" * 1000  # an é has two bytes
    large = START._replace(input=data, attributes=data, retry=text)
    assert started(large) is None
    assert started(large._replace(trace=text)) == "size"


def test_a_continuation_is_refused_that_is_too_large_only_as_a_whole() -> None:
    data = b"x" * 1000
    given = Continuation(data, "hash", data)
    end = CONTINUED._replace(progress=data, error_type="é" * 900)
    assert check_continuation(WORKER, OWNER, end, given) is None
    refusal = check_continuation(WORKER, OWNER, end._replace(failed_step="x" * 900), given)
    assert refusal is not None
    assert refusal.rule == "size"


def test_an_end_is_refused_that_is_too_large_only_as_a_whole() -> None:
    end = FAILED._replace(error=b"x" * 1000, progress=b"x" * 1000, error_type="é" * 900)
    assert check_end(WORKER, OWNER, end, OwnerCall.RETRY) is None
    large = end._replace(failed_step="é" * 900)
    refusal = check_end(WORKER, OWNER, large, OwnerCall.RETRY)
    assert refusal is not None
    assert refusal.rule == "size"


def test_the_origin_of_a_child_is_that_of_its_call() -> None:
    own = child_origin(RUN, "child#2")
    assert started(START._replace(origin=own, cancel_with_parent=1)) is None
    retry = replace(WORKER, runs={RUN: replace(HELD, origin=STRANGER)})
    inherited = START._replace(origin=child_origin(STRANGER, "child#2"))
    assert check_start(retry, OWNER, inherited, None) is None
    assert check_start(retry, OWNER, START._replace(origin=own), None) is not None


@pytest.mark.parametrize("kind", ["workflow", "step", "map"])
def test_steps_maps_and_workflows_are_started(kind: str) -> None:
    assert started(START._replace(kind=kind, queue="gpu")) is None


def test_another_run_is_replaced_only_with_the_right_to_control_runs() -> None:
    assert started(START, "return") is None
    assert started(START, "reject") is None
    assert started(START, "replace") == "replace"
    assert started(START, "conquer") == "start"
    assert check_start(replace(WORKER, may_replace=True), OWNER, START, "replace") is None


@pytest.mark.parametrize(
    ("call", "end", "broken"),
    [
        (OwnerCall.RETRY, FAILED, None),
        (OwnerCall.RETRY, Move("failed", "crashed"), "move"),
        (OwnerCall.RETRY, Move("succeeded"), "move"),
        (OwnerCall.RETRY, FAILED._replace(error=b"x" * 1001), "size"),
        (OwnerCall.CONTINUE, CONTINUED, None),
        (OwnerCall.CONTINUE, Move("succeeded"), "move"),
        (OwnerCall.GIVE_UP, Move("failed", "crashed"), None),
        (OwnerCall.GIVE_UP, Move("failed", "logic"), "move"),
        (OwnerCall.END_HANDLER, FAILED, "end"),
    ],
)
def test_each_call_ends_a_run_in_its_own_way(
    call: OwnerCall, end: Move, broken: str | None
) -> None:
    refusal = check_end(WORKER, OWNER, end, call)
    assert (refusal and refusal.rule) == broken


def test_the_run_of_a_handler_is_ended_as_such() -> None:
    transient = Move("failed", "transient")
    assert check_end(WORKER, CONSUMER_OWNER, transient, OwnerCall.END_HANDLER) is None
    crashed = Move("failed", "crashed")
    assert check_end(WORKER, CONSUMER_OWNER, crashed, OwnerCall.GIVE_UP) is None
    succeeded = check_end(WORKER, CONSUMER_OWNER, Move("succeeded"), OwnerCall.END_HANDLER)
    assert succeeded is not None
    retried = check_end(WORKER, CONSUMER_OWNER, FAILED, OwnerCall.RETRY)
    assert retried is not None


@pytest.mark.parametrize(
    ("given", "broken"),
    [
        (Continuation(b"x" * 1001, "hash", None), "size"),
        (Continuation(b"j1", "hash", b"x" * 1001), "size"),
        (Continuation(b"j1", "hash", None, (1 << 62,)), "number"),
        (Continuation(b"j1", "hash", None, (1, 2)), None),
    ],
)
def test_a_continuation_is_checked(given: Continuation, broken: str | None) -> None:
    refusal = check_continuation(WORKER, OWNER, CONTINUED, given)
    assert (refusal and refusal.rule) == broken


def test_only_children_are_dismissed() -> None:
    assert check_dismissal(WORKER, OWNER, [CHILD], [CHILD]) is None
    refusal = check_dismissal(WORKER, OWNER, [CHILD, STRANGER], [CHILD])
    assert refusal is not None
    assert refusal.rule == "dismiss"


def test_progress_is_that_of_a_run_of_the_worker_and_not_too_large() -> None:
    assert check_progress(WORKER, RUN, 3, b"j1") is None
    for refusal in (
        check_progress(WORKER, STRANGER, 3, b"j1"),
        check_progress(WORKER, RUN, 2, b"j1"),
        check_progress(WORKER, RUN, 3, b"x" * 1001),
    ):
        assert refusal is not None


def test_a_worker_serves_the_queues_of_its_key_alone() -> None:
    gpu = Principal("a", "gpu", "shop", frozenset({"worker:poll:gpu"}))
    assert check_queues(gpu, ["gpu"]) is None
    refusal = check_queues(gpu, ["gpu", "default"])
    assert refusal is not None
    assert refusal.rule == "queue"


def test_a_refusal_does_not_repeat_long_texts() -> None:
    refusal = check_owner(WORKER, OWNER._replace(run="x" * 100_000))
    assert refusal is not None
    assert len(refusal.text) < 2000
