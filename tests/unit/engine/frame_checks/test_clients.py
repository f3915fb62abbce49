"""What no honest client sends is refused before the engine sees it."""

from __future__ import annotations

from typing import Any

import pytest

from onward.codec import Payload
from onward.core.flow import FlowId, FlowKind, Rate
from onward.core.instant import MAX_DURATION
from onward.core.retry import Retry
from onward.engine.bulk import BULK_WORKFLOW
from onward.engine.frame_checks import check_client_call, check_client_start, scope_needed
from onward.engine.pipeline_engine import InputFilter
from onward.engine.policies import write_policy
from onward.engine.search import RunPage
from onward.errors import BadInput, PayloadTooLarge
from onward.model.flow import DeclaredLimits
from onward.model.runs import NewRun
from tests.unit.engine.frame_checks.samples import RUN, STRANGER

ROW = NewRun(RUN, RUN, "buy", b"json:[]", "hash")
WORKFLOW = FlowId(FlowKind.WORKFLOW, "buy")
MAX = 1000


@pytest.mark.parametrize(
    ("changes", "fact"),
    [
        ({"kind": "consumer"}, "kind"),
        ({"kind": "step"}, "kind"),
        ({"parent": STRANGER}, "parent"),
        ({"parent_identity": "buy#1"}, "parent_identity"),
        ({"root": STRANGER}, "root"),
        ({"follows": STRANGER}, "follows"),
        ({"link": "retry_of"}, "link"),
        ({"attempt": 2}, "attempt"),
        ({"origin": STRANGER}, "origin"),
        ({"handler": "mail.add_row"}, "handler"),
        ({"attributes": b"json:{}"}, "attributes"),
        ({"uid": "r1"}, "is not a version 7 UUID"),
        ({"id": STRANGER}, "is a version 7 UUID"),
        ({"id": ""}, "is empty"),
        ({"name": ""}, "is empty"),
        ({"name": "step buy"}, "reserved"),
        ({"name": "onward.other"}, "onward"),
        ({"queue": ""}, "is empty"),
        ({"priority": 1 << 63}, "priority"),
        ({"flow_key": "*"}, "every key"),
        ({"flow_key": "k" * 5000}, "bytes long"),
        ({"tags": "a  b"}, "is empty"),
        ({"tags": "\0"}, "NUL"),
        ({"trace": "x" * 100_000}, "longer"),
        ({"retry": "[[[["}, "retry policy"),
        ({"delay_in": -1}, "delay"),
        ({"delay_in": MAX_DURATION + 1}, "delay"),
        ({"deadline_in": MAX_DURATION + 1}, "deadline"),
        ({"cancel_with_parent": 7}, "cancel_with_parent"),
        ({"args_hash": ""}, "hash"),
        ({"version": "\n"}, "version"),
    ],
)
def test_a_run_that_only_the_engine_could_start_is_refused(changes: Any, fact: str) -> None:
    with pytest.raises(BadInput, match=fact):
        check_client_start(ROW._replace(**changes), "return")


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"id": "order-7", "version": "v1", "queue": "mail", "priority": -5, "tags": "gpu eu"},
        {"flow_key": "", "delay_in": 5, "deadline_in": MAX_DURATION, "due": 1_800_000_000_000_000},
        {"retry": write_policy(Retry(3)), "trace": "00-1-2-01", "cancel_with_parent": 1},
        {"name": BULK_WORKFLOW},
    ],
)
def test_a_run_that_the_sdk_starts_passes(changes: Any) -> None:
    given = {"run": ROW._replace(**changes), "on_conflict": "return"}
    check_client_call("start", given, MAX)


def test_an_unknown_way_to_treat_a_conflict_is_refused() -> None:
    with pytest.raises(BadInput, match="on_conflict"):
        check_client_start(ROW, "steal")


@pytest.mark.parametrize(
    ("run", "on_conflict", "scope"),
    [
        (ROW, "return", None),
        (ROW, "replace", "run:control"),
        (ROW._replace(name=BULK_WORKFLOW), "return", "run:control"),
    ],
)
def test_a_start_that_may_end_other_runs_needs_the_scope_for_that(
    run: NewRun, on_conflict: str, scope: str | None
) -> None:
    assert scope_needed("start", {"run": run, "on_conflict": on_conflict}) == scope


def test_a_text_of_a_call_has_the_size_of_a_payload_at_most() -> None:
    check_client_call("schedules.pause", {"name": "s" * MAX}, MAX)
    with pytest.raises(PayloadTooLarge, match="limit is 1,000"):
        check_client_call("schedules.pause", {"name": "s" * (MAX + 1)}, MAX)


def test_a_payload_is_measured_without_its_tag() -> None:
    whole = b"json:" + b"1" * MAX
    check_client_call("start", {"run": ROW._replace(input=whole), "on_conflict": "return"}, MAX)
    given = {"run": ROW._replace(input=whole + b"1"), "on_conflict": "return"}
    with pytest.raises(PayloadTooLarge, match="limit is 1,000"):
        check_client_call("start", given, MAX)
    with pytest.raises(PayloadTooLarge):
        check_client_call("fork", {"run": "r", "result": whole + b"1"}, MAX)


@pytest.mark.parametrize("message", ["cancel", "child :buy#1", "", "signal ", "signal a\nb"])
def test_a_signal_cannot_have_the_id_of_another_message(message: str) -> None:
    given = {"run": "r", "name": "go", "payload": Payload("json", b"1"), "message": message}
    with pytest.raises(BadInput):
        check_client_call("signal", given, MAX)


@pytest.mark.parametrize("message", [None, RUN, "signal m1"])
def test_a_signal_with_an_id_of_the_sdk_passes(message: str | None) -> None:
    given = {"run": "r", "name": "go", "payload": Payload("json", b"1"), "message": message}
    check_client_call("signal", given, MAX)
    large = {**given, "payload": Payload("json", b"1" * 1001)}
    with pytest.raises(PayloadTooLarge):
        check_client_call("signal", large, MAX)


@pytest.mark.parametrize(
    ("flow", "limits"),
    [
        (FlowId(FlowKind.QUEUE, "payments"), DeclaredLimits(1)),
        (FlowId(FlowKind.EFFECT, "charge"), DeclaredLimits(1)),
        (WORKFLOW, DeclaredLimits(0)),
        (WORKFLOW, DeclaredLimits(rate=Rate(0, 1))),
        (WORKFLOW, DeclaredLimits(rate=Rate(1, -1))),
    ],
)
def test_limits_that_no_start_declares_are_refused(flow: FlowId, limits: DeclaredLimits) -> None:
    with pytest.raises(BadInput, match="limits"):
        check_client_call("declare", {"flow": flow, "limits": limits}, MAX)
    check_client_call("declare", {"flow": WORKFLOW, "limits": DeclaredLimits(1)}, MAX)


def test_a_number_that_no_database_has_is_refused() -> None:
    with pytest.raises(BadInput, match="too large"):
        check_client_call("schedules.slots", {"name": "s", "limit": 1 << 63}, MAX)


@pytest.mark.parametrize("limit", [-1, 1_001, 10**9, None, True])
def test_a_page_that_is_too_large_is_refused(limit: Any) -> None:
    for operation, given in (
        ("list_runs", {"page": RunPage(limit)}),
        ("pending_effects", {"limit": limit, "after": ""}),
        ("pipelines.inputs", {"wanted": InputFilter(limit=limit)}),
    ):
        with pytest.raises(BadInput, match="between 0 and 1,000"):
            check_client_call(operation, given, MAX)
    check_client_call("list_runs", {"page": RunPage(1_000)}, MAX)
