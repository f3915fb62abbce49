"""What a claimed run executes, by its kind: a workflow, a step sent elsewhere, a part of a map."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from onward.core.run import RunKind
from onward.runtime.chunks import ChunkShape, work_through
from onward.runtime.code import code_mark
from onward.runtime.context import body_of_run
from onward.runtime.definition import Program

if TYPE_CHECKING:
    from onward.runtime.definition import Registry, StepDefinition, WorkflowDefinition
    from onward.store.rows import Claimed


class Programs:
    """The programs of one worker.

    Args:
        registry: What the worker knows.
        version: The declared version of its code, if there is one.
    """

    def __init__(self, registry: Registry, version: str | None) -> None:
        self._registry = registry
        self._version = version

    @property
    def codes(self) -> dict[str, str]:
        """The mark of the code of each workflow."""
        return {
            name: code_mark(workflow.fn, self._version)
            for name, workflow in self._registry.workflows.items()
        }

    def of(self, run: Claimed) -> Program:
        """Return what a run executes."""
        if run.kind == RunKind.MAP:
            return self._chunk(run.name.removeprefix("map "))
        if run.kind == RunKind.STEP:
            return _step(self._registry.steps[run.name.removeprefix("step ")])
        return self._workflow(self._registry.workflows[run.name])

    def _workflow(self, workflow: WorkflowDefinition) -> Program:
        return Program(
            workflow.fn,
            workflow.shape,
            workflow.retry,
            workflow.strict,
            code_mark(workflow.fn, self._version),
            workflow.shape.bind,
        )

    def _chunk(self, name: str) -> Program:
        mapped = self._registry.workflows.get(name) or self._registry.steps[name]
        return Program(work_through, ChunkShape(mapped), mapped.retry)


def _step(definition: StepDefinition) -> Program:
    here = replace(definition, route=None)

    async def body(*args: Any, **kwargs: Any) -> Any:
        return await body_of_run().step(here, args, kwargs, None)

    return Program(body, definition.shape, definition.retry)
