"""Runs that a body starts on behalf of a call: a step that is sent elsewhere, a part of a map."""

from __future__ import annotations

from typing import TYPE_CHECKING

from onward.core.run import RunKind
from onward.engine.payloads import pack
from onward.engine.policies import write_limits
from onward.model.runs import NewRun
from onward.runtime.definition import run_name

if TYPE_CHECKING:
    from onward.codec import Arguments
    from onward.core.retry import Retry
    from onward.model.runs import ClaimedRun
    from onward.runtime.definition import Route, StepDefinition


def step_run(
    definition: StepDefinition, arguments: Arguments, parent: ClaimedRun, retry: Retry | None
) -> NewRun:
    """Return the run of a step that is sent elsewhere; it ends with the run that needs it.

    It is tried as `retry`, the word of the workflow, says where the step says nothing itself.
    """
    route = definition.route
    assert route is not None
    return NewRun(
        "",
        "",
        run_name(RunKind.STEP, definition.name),
        pack(arguments.payload()),
        arguments.fingerprint(),
        RunKind.STEP,
        queue=route.queue or parent.queue,
        # A limit alone says nothing of who is fit for it: then those that are fit for its run.
        tags=" ".join(route.tags) if route.queue or route.tags else parent.tags,
        priority=parent.priority,
        flow_key=flow_key(definition.name, route),
        cancel_with_parent=1,
        retry=write_limits(definition.retry or retry, definition.timeout),
    )


def flow_key(name: str, route: Route) -> str | None:
    """Return the key under which the runs of a limited step are counted."""
    return None if route.limit is None else run_name(RunKind.STEP, name)
