"""All kinds of runs that clients of a simulated world may ask for, and what each must come to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.simulation.simulator import (
    cleanups,
    conversations,
    exits,
    families,
    limited,
    measured,
    purchases,
    repairs,
    sample_workflows,
    samplers,
    stubborn,
    timetable,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from onward.engine.starting import StartOptions
    from onward.sdk.step import Step
    from onward.sdk.workflow import Workflow

_SORTS: tuple[tuple[dict[str, Workflow[..., list[str]]], Callable[..., bool]], ...] = (
    (sample_workflows.SAMPLES, sample_workflows.is_right),
    (families.FAMILIES, families.is_right_family),
    (purchases.PURCHASES, purchases.is_right_purchase),
    (samplers.SAMPLERS, samplers.is_right_sampler),
    (repairs.REPAIRS, repairs.is_right_repair),
    (measured.MEASURED, measured.is_right_measured),
    (cleanups.CLEANUPS, cleanups.is_right_cleanup),
    (stubborn.STUBBORN, stubborn.is_right_stubborn),
    (exits.EXITS, exits.is_right_exit),
    (conversations.CONVERSATIONS, conversations.is_right_conversation),
    (limited.LIMITED, limited.is_right_limited),
)

KINDS: dict[str, Workflow[..., list[str]]] = {
    name: each for sort, _ in _SORTS for name, each in sort.items()
}
"""The workflows that clients may ask for, by name."""

_RULES = {name: is_right for sort, is_right in _SORTS for name in sort}

WORKFLOWS: tuple[Workflow[..., Any], ...] = (
    *KINDS.values(),
    *families.CHILDREN,
    *samplers.CHILDREN,
    *repairs.CHILDREN,
    *exits.CHILDREN,
    *timetable.CHILDREN,
    *limited.CHILDREN,
)
STEPS: tuple[Step[..., Any], ...] = (
    *families.STEPS,
    *samplers.STEPS,
    *repairs.STEPS,
    *measured.STEPS,
    *stubborn.STEPS,
    *exits.STEPS,
    *timetable.STEPS,
)
OPTIONS: dict[str, StartOptions] = {
    **families.OPTIONS,
    **samplers.OPTIONS,
    **repairs.OPTIONS,
    **measured.OPTIONS,
    **cleanups.OPTIONS,
}
"""How runs are started that are not started as they are."""


def is_right(name: str, result: list[str] | None) -> bool:
    """Say whether a run of this workflow may have this result; None means that it was stopped."""
    return _RULES[name](name, result)
