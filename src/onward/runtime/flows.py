"""Under which limits runs are started, as the code of a workflow or a step declares them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from onward.core.flow import FlowId, FlowKind, Hold, read_rate
from onward.core.run import RunKind
from onward.engine.starting import check_flow_key
from onward.errors import BadInput
from onward.model.flow import EVERY_KEY, DeclaredLimits
from onward.runtime.definition import run_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import TypeAlias

    from onward.engine.starting import StartOptions
    from onward.runtime.definition import StepDefinition, WorkflowDefinition

    Declared: TypeAlias = Mapping[FlowId, DeclaredLimits]


class StartFlow(NamedTuple):
    """The flow key of a run, and the limits that must be declared before it starts."""

    key: str | None
    declares: Declared


def declared(limit: int | None, rate: str | None, hold: str | None = None) -> DeclaredLimits | None:
    """Return limits as a user gives them; None: there are none.

    Raises:
        BadInput: one of them is none.
    """
    if limit is not None and (type(limit) is not int or limit < 1):
        raise BadInput(f"limit={limit!r}", "is not a positive whole number", "Use 1 or more")
    if hold is not None and hold not in tuple(Hold):
        raise BadInput(f"hold={hold!r}", 'is not "running" or "open"', "Use one of them")
    if hold is not None and limit is None:
        raise BadInput(f"hold={hold!r}", "has no effect without limit=", "Pass limit= as well")
    if limit is None and rate is None:
        return None
    return DeclaredLimits(
        limit, None if rate is None else read_rate(rate), None if hold is None else Hold(hold)
    )


def flow_of_start(
    workflow: WorkflowDefinition, options: StartOptions, args: tuple[Any, ...], kwargs: Any
) -> StartFlow:
    """Return under which limits a run is started.

    Limits that are given with a key are those of the key, others are those of the workflow.
    """
    key = options.key
    if key is None and workflow.key is not None:
        key = workflow.key(*args, **kwargs)
    if key is not None:
        key = check_flow_key(key)
    declares: dict[FlowId, DeclaredLimits] = {}
    if workflow.key is not None and workflow.limits is not None and options.queue != workflow.queue:
        declares[FlowId(FlowKind.KEY, EVERY_KEY, options.queue)] = workflow.limits
    if options.limits is not None:
        of_workflow = FlowId(FlowKind.WORKFLOW, workflow.name)
        flow = of_workflow if key is None else FlowId(FlowKind.KEY, key, options.queue)
        declares[flow] = options.limits
    if key is None and (workflow.limits is not None or options.limits is not None):
        key = ""
    return StartFlow(key, declares)


def step_limits(step: StepDefinition) -> dict[FlowId, DeclaredLimits]:
    """Return the limits that a step declares: those of its runs, if it is sent elsewhere."""
    if step.route is None or step.route.limit is None:
        return {}
    flow = FlowId(FlowKind.WORKFLOW, run_name(RunKind.STEP, step.name))
    return {flow: DeclaredLimits(step.route.limit)}


def declared_limits(
    workflows: Iterable[WorkflowDefinition], steps: Iterable[StepDefinition]
) -> dict[FlowId, DeclaredLimits]:
    """Return the limits that the code of a worker declares.

    Raises:
        BadInput: two workflows declare different limits for the keys of one queue.
    """
    found = {flow: limits for step in steps for flow, limits in step_limits(step).items()}
    by: dict[FlowId, str] = {}
    for workflow in workflows:
        if workflow.limits is None:
            continue
        flow = FlowId(FlowKind.WORKFLOW, workflow.name)
        if workflow.key is not None:
            flow = FlowId(FlowKind.KEY, EVERY_KEY, workflow.queue)
        if found.get(flow, workflow.limits) != workflow.limits:
            raise BadInput(
                f"workflows {by[flow]!r} and {workflow.name!r}",
                f"declare different limits for the keys of queue {workflow.queue!r}, which they"
                " share",
                "Declare the same limits, or give one of them another queue",
            )
        found[flow], by[flow] = workflow.limits, workflow.name
    return found
