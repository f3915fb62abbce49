"""Calls of steps: performed by the worker that has the run, or sent elsewhere in their own run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from onward.codec import fingerprint_of_json
from onward.core.run import RunKind
from onward.engine.payloads import JSON_MARK, pack
from onward.engine.policies import write_limits
from onward.model.runs import NewRun
from onward.runtime.body.calls import StepCall, are_immutable
from onward.runtime.body.children import RoutedStepCall
from onward.runtime.definition import run_name
from onward.runtime.flows import step_limits

MAX_SHOWN_ARGS = 4096
"""How many bytes the arguments of a step may have to be stored with its result."""

if TYPE_CHECKING:
    from onward.codec import Arguments
    from onward.core.retry import Retry
    from onward.model.runs import ClaimedRun
    from onward.runtime.body.body import Body
    from onward.runtime.definition import StepDefinition


def step_call(
    body: Body, definition: StepDefinition, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> StepCall | RoutedStepCall:
    """Return the call of a step that a body makes with these arguments."""
    body.names.check("step", definition.name, definition.fn)
    bound = definition.shape.bind(args, kwargs)
    if definition.route is not None:
        start = step_run(definition, bound, body.run, body.retry)
        decoder = definition.shape.decode_result
        routed = RoutedStepCall(definition.name, decoder, start=start, asked_at=body.now)
        routed.declares, routed.compare = step_limits(definition), definition.compare
        return routed
    arguments = args, kwargs
    if not are_immutable(arguments):
        # The step must not be able to change what the body holds: on replay it would not.
        arguments = definition.shape.decode(bound.payload())
    written = bound.canonical()
    is_shown = definition.record_args and len(written) <= MAX_SHOWN_ARGS
    shown_args = JSON_MARK + bound.in_order(written) if is_shown else None
    return StepCall(definition, fingerprint_of_json(written), arguments, shown_args)


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
        flow_key=None if route.limit is None else "",
        cancel_with_parent=1,
        retry=write_limits(definition.retry or retry, definition.timeout),
    )
