"""What a client of a disabled namespace may still do: every operation is in one of two classes."""

from __future__ import annotations

from typing import Any, Final

import pytest

from onward.core.access import SCOPES, Principal
from onward.core.bulk import BulkAction
from onward.engine.frame_checks import check_rights
from onward.engine.frame_checks.clients import MAKING_WORK
from onward.errors import Forbidden, NamespaceDisabled
from onward.model.runs import NewRun
from onward.wire.operations import OPERATIONS

MAKES_NONE: Final = (
    "declare signal cancel pause resume discard purge_cache change_flow drain_worker resolve "
    "approve examine reset_clock accept_steps restart_waits prune list_flows find_call "
    "queue_served find newest why list_runs count_children count_runs failure_groups now counts "
    "unserved check_served list_workers stats begun_runs read_clock info report history "
    "pending_signals pending_effects all_effects effects_beginning effects_of find_effect effect "
    "effect_choices end_now open_runs recorded_arguments list_cache schedules.all schedules.get "
    "schedules.preview schedules.first_slots schedules.slots schedules.create schedules.declare "
    "schedules.update schedules.pause schedules.resume schedules.delete pipelines.all "
    "pipelines.get pipelines.topics pipelines.counts pipelines.inputs pipelines.input_counts "
    "pipelines.peek pipelines.input pipelines.declare pipelines.pause pipelines.skip "
    "pipelines.skip_input"
)
"""What makes no runs and no events at once, although a schedule starts runs once it is due."""

DISABLED = Principal("k1", "ops", "shop", frozenset(SCOPES), is_enabled=False)
ENABLED = Principal("k1", "ops", "shop", frozenset(SCOPES))
RUN = NewRun("u", "r", "greet", b"", "h")
GIVEN: dict[str, Any] = {
    "start": {"run": RUN, "on_conflict": "return"},
    "act": {"action": BulkAction.RETRY},
    "schedules.backfill": {"dry_run": False},
}


def test_every_operation_makes_work_or_makes_none() -> None:
    none = set(MAKES_NONE.split())
    assert not none & MAKING_WORK
    assert none | MAKING_WORK == OPERATIONS.keys()


@pytest.mark.parametrize("operation", sorted(MAKING_WORK))
def test_a_disabled_namespace_takes_no_new_work(operation: str) -> None:
    given = GIVEN.get(operation, {})
    check_rights(ENABLED, operation, given)
    with pytest.raises(NamespaceDisabled):
        check_rights(DISABLED, operation, given)


def test_a_disabled_namespace_lets_runs_end() -> None:
    for operation in MAKES_NONE.split():
        check_rights(DISABLED, operation, {})
    check_rights(DISABLED, "act", {"action": BulkAction.CANCEL})
    check_rights(DISABLED, "schedules.backfill", {"dry_run": True})


def test_a_bulk_action_needs_the_scope_for_payloads_because_it_may_choose_by_attributes() -> None:
    given = {"run": RUN._replace(name="onward.bulk"), "on_conflict": "return"}
    blind = Principal("k1", "ci", "shop", frozenset({"run:start", "run:control", "run:read"}))
    check_rights(blind, "start", GIVEN["start"])
    with pytest.raises(Forbidden, match="payload:read"):
        check_rights(blind, "start", given)
    check_rights(ENABLED, "start", given)
