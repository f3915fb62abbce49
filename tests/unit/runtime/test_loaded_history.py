"""What a history says to each part of the runtime, and what of an earlier run is of use."""

from __future__ import annotations

from typing import Any

import pytest

from onward import step
from onward.codec import encode
from onward.core.failure_origin import read_failed_call
from onward.core.replay import Record, RecordKind, RecordState
from onward.engine.payloads import pack
from onward.model.records import RecordRow
from onward.runtime.body.calls import StepCall
from onward.runtime.body.failure_origin import FailureOrigins
from onward.runtime.body.runloop import RunLoop
from onward.runtime.execution.journal import Kept
from onward.runtime.execution.loaded_history import EMPTY_HISTORY, read_history


@step
async def weigh(what: str) -> int:
    return len(what)


def a_row(identity: str, kind: str = "step", **other: Any) -> RecordRow:
    row = RecordRow(
        "run", identity, 1, None, kind, "weigh", "succeeded", "hash", None, None, None,
        pack(encode(4)), None, 0, 0,
    )  # fmt: skip
    return row._replace(**other)


@pytest.fixture
def call() -> StepCall:
    made = StepCall(weigh.definition, "hash", (("gold",), {}))
    made.future = RunLoop(lambda *_: "", lambda *_: lambda: None).create_call_future()
    made.identity = ":weigh#1"
    return made


def a_memo(**other: Any) -> RecordRow:
    return a_row("=memo.:weigh#1", "memo", **({"name": "step weigh"} | other))


def test_the_outcome_of_the_same_call_is_of_use(call: StepCall) -> None:
    assert read_history([a_memo()]).memo_of(call) == a_memo()


@pytest.mark.parametrize(
    "other",
    [{"name": "child weigh"}, {"args_hash": "other"}, {"payload": pack(encode("four"))}],
    ids=["kind", "arguments", "type"],
)
def test_the_outcome_of_another_call_is_of_no_use(call: StepCall, other: dict[str, Any]) -> None:
    assert read_history([a_memo(**other)]).memo_of(call) is None


def test_what_is_kept_aside_is_no_part_of_what_is_replayed() -> None:
    assert read_history([a_memo()]).records == EMPTY_HISTORY.records


def test_a_call_that_was_read_out_of_its_turn_can_be_to_blame(call: StepCall) -> None:
    call.asked = 2  # history was read beyond the record, for the code asked late
    record = Record(
        ":weigh#1", 1, 1, RecordKind.STEP, "weigh", RecordState.FAILED, payload=Kept(None, None, 0)
    )
    failures = FailureOrigins()
    failures.note(call, record)

    kept = read_failed_call(failures.failed_call(RuntimeError("an error of its own"), ()))

    assert kept is not None
    assert kept.identity == ":weigh#1"
