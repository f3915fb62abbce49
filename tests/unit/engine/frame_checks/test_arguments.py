"""Arguments of calls that no honest worker sends are refused before a database sees them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from onward.core.flow import FlowId, FlowKind
from onward.core.instant import MAX_DURATION
from onward.engine.frame_checks import check_arguments, check_commit, check_registration
from onward.model.commits import Attachments, Commit
from onward.model.workers import LostWorker, Registration
from tests.unit.engine.frame_checks import samples
from tests.unit.engine.frame_checks.samples import EFFECT, OWNER, RECORD, RUN, WORKER

LIMITS = samples.LIMITS._replace(rows=100)
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
        ({"interval": MAX_DURATION + 1}, "number"),
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
    given = {"by": OWNER, "name": "é" * 400, "interval": MAX_DURATION, "within": None, "limit": 0}
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
