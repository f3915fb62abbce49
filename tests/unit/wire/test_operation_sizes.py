"""How much a client may ask for in one call: every number among the arguments is classified."""

from __future__ import annotations

from dataclasses import is_dataclass
from typing import TYPE_CHECKING, Any, Final, get_args, get_type_hints

from onward.engine.page_sizes import SIZES
from onward.wire.names import NAMES
from onward.wire.operations import OPERATIONS

if TYPE_CHECKING:
    from collections.abc import Iterator

NO_SIZES: Final = {
    "start": "run.priority run.delay_in run.due run.deadline run.deadline_in "
    "run.cancel_with_parent run.attempt",
    "declare": "limits.max limits.rate.count limits.rate.period",
    "cancel": "grace",
    "act": "options.grace",
    "discard": "decision.version",
    "change_flow": "change.max change.rate.count change.rate.period change.weight",
    "resolve": "decision.version",
    "approve": "decision.version",
    "list_runs": "query.since query.created_by",
    "count_children": "query.since query.created_by",
    "count_runs": "query.since query.created_by",
    "failure_groups": "period.length",
    "schedules.preview": "after",
    "schedules.first_slots": "spec.every spec.cap spec.jitter",
    "schedules.create": "spec.every spec.cap spec.jitter",
    "schedules.declare": "spec.every spec.cap spec.jitter",
    "schedules.backfill": "start before",
    "pipelines.inputs": "wanted.stale_after",
    "pipelines.input_counts": "stale_after",
    "pipelines.declare": "spec.topics.max_pending spec.topics.max_age "
    "spec.handlers.schedule.every spec.handlers.schedule.cap spec.handlers.schedule.jitter",
}
"""The numbers that do not say how much an answer has."""


def test_every_number_that_a_client_sends_is_a_size_with_a_maximum_or_no_size() -> None:
    found = {name: set(_numbers_of(name)) for name in OPERATIONS}
    declared = {
        name: set(NO_SIZES.get(name, "").split()) | set(SIZES.get(name, ())) for name in OPERATIONS
    }
    assert found == declared
    assert SIZES.keys() <= OPERATIONS.keys()


def _numbers_of(operation: str) -> Iterator[str]:
    for name, hint in OPERATIONS[operation].hints.items():
        if name != "return":
            yield from _numbers(hint, name)


def _numbers(hint: Any, path: str) -> Iterator[str]:
    if hint is int:
        yield path
    for arm in get_args(hint):
        yield from _numbers(arm, path)
    if isinstance(hint, type) and (is_dataclass(hint) or hasattr(hint, "_fields")):
        for field, inner in get_type_hints(hint, localns=NAMES).items():
            yield from _numbers(inner, f"{path}.{field}")
