"""A worker that runs while the body of an `async with` runs or until it fails, and what it runs."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from onward.runtime.registry import Registry
from onward.sdk import step, workflow

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from onward.runtime.definition import WorkflowDefinition
    from onward.runtime.pipelines.definition import HandlerDefinition
    from onward.runtime.registry import Definitions
    from onward.runtime.worker.worker import Worker
    from onward.sdk.workflow import Workflow


@asynccontextmanager
async def at_work(worker: Worker) -> AsyncIterator[Worker]:
    """Run a worker while the body of `async with` runs; its failure ends that body."""
    failure: BaseException | None = None
    try:
        async with asyncio.TaskGroup() as group:
            group.create_task(worker.run(), name=f"onward worker {worker.id}")
            await worker.ready.wait()
            try:
                yield worker
            finally:
                worker.stop()
    except BaseExceptionGroup as failed:
        failure = failed.exceptions[0]
    if failure is not None:
        raise failure  # not while the group is handled: that would hide its own cause


def registry_of(
    workflows: Sequence[Workflow[..., Any]] | None,
    *own: WorkflowDefinition,
    handlers: Sequence[HandlerDefinition] = (),
) -> Registry:
    """Return what a worker can run: what is given, or all that this process defines.

    `own` are workflows of Onward itself, which every worker runs.
    """
    if workflows is None:
        known, steps = defined()
        return Registry([*known, *own], steps, later=defined, handlers=handlers)
    listed = [*(each.definition for each in workflows), *own]
    return Registry(
        listed,
        defined()[1],
        is_list=True,
        later=lambda: ([], defined()[1]),
        handlers=handlers,
    )


def defined() -> Definitions:
    """Return all workflows and steps of this process; other threads may define more meanwhile."""
    workflows = [each for same in list(workflow.registered.values()) for each in same]
    return workflows, [each for same in list(step.registered.values()) for each in same]
