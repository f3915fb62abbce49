"""Arguments of calls that no honest worker sends are refused before a database sees them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from onward.core.flow import MAX_INTERVAL, FlowId, FlowKind
from onward.core.instant import HOUR, MAX_DURATION
from onward.engine.frame_checks import check_arguments, check_commit, check_registration
from onward.errors import BadInput
from onward.model.commits import Attachments, Commit
from onward.model.flow import DeclaredLimits
from onward.model.pipelines import HandlerSpec, PipelineSpec
from onward.model.schedules import ScheduleSpec
from onward.model.workers import LostWorker, Registration
from tests.unit.engine.frame_checks import samples
from tests.unit.engine.frame_checks.samples import EFFECT, OWNER, RECORD, RUN, WORKER

LIMITS = samples.LIMITS._replace(rows=100)
SCHEDULE = ScheduleSpec(
    "hourly", "greet", b"json:{}", "h", "{}", None, HOUR, "UTC", "skip", "latest", 1, 0
)
HELLO = Registration("w1", "host", 1, None, ("default",), (), ("greet",))


@pytest.mark.parametrize(
    ("given", "rule"),
    [
        ({"topic": "nul\0"}, "text"),
        ({"known": ["a", "nul\0"]}, "text"),
        ({"before": LostWorker("w", {"nul\0": 1})}, "text"),
        ({"held": {"a": 1 << 62}}, "number"),
        ({"seqs": [-(1 << 63)]}, "number"),
        ({"delay": -1}, "number"),
        ({"interval": MAX_INTERVAL + 1}, "number"),
        ({"within": MAX_DURATION + 1}, "number"),
        ({"limit": -1}, "number"),
        ({"limit": LIMITS.rows + 1}, "number"),
        ({"known": ["a"] * (LIMITS.rows + 1)}, "size"),
        ({"name": "x" * 1001}, "size"),
        ({"flow": FlowId(FlowKind.KEY, "x" * 1001, "default")}, "size"),
        ({"value": b"x" * (LIMITS.payload_bytes + 1)}, "size"),
    ],
)
def test_what_a_database_would_refuse_is_refused_before_it(given: Any, rule: str) -> None:
    refusal = check_arguments(LIMITS, given)
    assert refusal is not None
    assert refusal.rule == rule


def test_plain_arguments_pass() -> None:
    given = {"by": OWNER, "name": "é" * 400, "interval": MAX_INTERVAL, "within": None, "limit": 0}
    assert check_arguments(LIMITS, given) is None
    assert check_registration(HELLO, LIMITS) is None


@pytest.mark.parametrize(
    "changes",
    [
        {"worker": "x" * 1001},
        {"host": "nul\0"},
        {"names": ("one\ntwo",)},
        {"queues": ("q",) * (LIMITS.rows + 1)},
        {"pid": 1 << 62},
    ],
)
def test_a_registration_that_cannot_be_stored_is_refused(changes: Any) -> None:
    assert check_registration(replace(HELLO, **changes), LIMITS) is not None


def test_a_schedule_is_refused_whose_runs_would_be_too_large() -> None:
    part = LIMITS.commit_bytes // 5
    large = SCHEDULE._replace(input=b"x" * part, options="x" * part, zone="x" * part)
    large = large._replace(args_hash="x" * part, workflow="x" * part)
    limits = LIMITS._replace(payload_bytes=part)
    refusal = check_registration(replace(HELLO, schedules=(large,)), limits)
    assert refusal is not None
    assert refusal.rule == "size"


@pytest.mark.parametrize(
    "limits",
    [
        {FlowId(FlowKind.QUEUE, "payments"): DeclaredLimits(1)},
        {FlowId(FlowKind.EFFECT, "charge"): DeclaredLimits(1)},
        {FlowId(FlowKind.WORKFLOW, "greet"): DeclaredLimits(0)},
    ],
)
def test_limits_that_no_code_declares_are_refused(limits: Any) -> None:
    refusal = check_registration(replace(HELLO, limits=limits), LIMITS)
    assert refusal is not None
    assert refusal.rule == "limits"
    [(flow, given)] = limits.items()
    assert check_arguments(LIMITS, {"by": OWNER, "flow": flow, "limits": given}) is not None


@pytest.mark.parametrize(
    "changes",
    [
        {"every": 1},
        {"every": MAX_DURATION + 1},
        {"jitter": -1},
        {"cap": 1 << 40},
        {"workflow": "onward.bulk"},
        {"workflow": "consumer mail.add_row"},
        {"options": "["},
        {"options": '{"origin":"x"}'},
        {"options": '{"kind":"consumer","handler":"mail.add_row"}'},
        {"options": '{"queue":""}'},
        {"options": '{"priority":"high"}'},
        {"options": '{"retry":"[[["}'},
    ],
)
def test_a_registration_with_a_schedule_that_is_not_valid_is_refused(changes: Any) -> None:
    bad = SCHEDULE._replace(**changes)
    handler = HandlerSpec("mail.fetch", "producer", schedule=bad)
    pipelines = (PipelineSpec("mail", False, "default", (), (handler,)),)
    for registration in (
        replace(HELLO, schedules=(bad,)),
        replace(HELLO, pipelines=pipelines),
    ):
        with pytest.raises(BadInput):
            check_registration(registration, LIMITS)


def test_a_registration_with_valid_declarations_passes() -> None:
    options = '{"queue":"mail","priority":3,"tags":"a b","flow_key":"","deadline_in":5}'
    producer = SCHEDULE._replace(workflow="producer mail.fetch")
    handler = HandlerSpec("mail.fetch", "producer", schedule=producer)
    registration = replace(
        HELLO,
        limits={FlowId(FlowKind.KEY, "*", "default"): DeclaredLimits(1)},
        schedules=(SCHEDULE._replace(options=options),),
        pipelines=(PipelineSpec("mail", False, "default", (), (handler,)),),
    )
    assert check_registration(registration, LIMITS) is None


@pytest.mark.parametrize(
    "record",
    [
        RECORD._replace(state="open"),
        RECORD._replace(kind="clock", seq=None),
    ],
)
def test_a_position_that_a_record_cannot_have_is_refused(record: Any) -> None:
    refusal = check_commit(WORKER, Commit(RUN, 3, (record,)))
    assert refusal is not None
    assert refusal.rule == "record"


def test_an_effect_that_was_sent_has_an_attempt() -> None:
    effects = (EFFECT._replace(attempt=0),)
    refusal = check_commit(WORKER, Commit(RUN, 3, attached=Attachments(effects)))
    assert refusal is not None
    assert refusal.rule == "effect"
