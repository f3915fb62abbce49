"""What a claimed run executes, by its kind: a workflow, a routed step, a chunk, a handler."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from onward.core.run import RunKind
from onward.engine.policies import read_limits
from onward.errors import UnreadableRow
from onward.runtime.body.chunks import ChunkShape, work_through
from onward.runtime.body.routing import step_call
from onward.runtime.context import body_of_run
from onward.runtime.definition import Program, run_name
from onward.runtime.pipelines.bodies import consumer_program, producer_program
from onward.runtime.pipelines.definition import ConsumerDefinition, ProducerDefinition
from onward.runtime.reading import newer, reading
from onward.runtime.worker.code import code_mark

if TYPE_CHECKING:
    from onward.model.runs import ClaimedRun
    from onward.runtime.definition import StepDefinition, WorkflowDefinition
    from onward.runtime.pipelines.definition import HandlerDefinition
    from onward.runtime.pipelines.ports import HandlerReads
    from onward.runtime.registry import Registry


_ELSEWHERE = frozenset({RunKind.MAP, RunKind.STEP, RunKind.PRODUCER, RunKind.CONSUMER})
_KINDS = _ELSEWHERE | {RunKind.WORKFLOW}


_NO_READS: Any = None
"""For programs that are replayed only: what they would read is in history."""


class Programs:
    """The programs of one worker.

    Args:
        registry: What the worker knows.
        version: The declared version of its code, if there is one.
        reads: What the handlers of pipelines read.
    """

    def __init__(
        self, registry: Registry, version: str | None, reads: HandlerReads | None = None
    ) -> None:
        self._registry = registry
        self._version = version
        self._reads: HandlerReads = reads or _NO_READS
        self._workflows: dict[str, Program] = {}

    @property
    def codes(self) -> dict[str, str]:
        """The mark of the code of each workflow, step and map, by the names of their runs."""
        workflows, steps = self._registry.workflows, self._registry.steps
        marks: dict[str, str] = {}
        for name, step in steps.items():
            mark = self._mark(step)
            marks |= {run_name(RunKind.STEP, name): mark, run_name(RunKind.MAP, name): mark}
        for name, workflow in workflows.items():
            mark = self._mark(workflow)
            marks |= {name: mark, run_name(RunKind.MAP, name): mark}
        for handler in self._registry.handlers.values():
            marks[run_name(handler.run_kind, handler.name)] = self._mark_of_handler(handler)
        return marks

    def _mark_of_handler(self, handler: HandlerDefinition) -> str:
        return code_mark(handler.code, self._version)

    def _mark(self, definition: StepDefinition | WorkflowDefinition) -> str:
        return code_mark(definition.fn, self._version)

    def of(self, run: ClaimedRun) -> Program:
        """Return what a run executes.

        Raises:
            NewerRow: this version does not know runs of that kind.
            UnreadableRow: its data is missing, or its kind, name and limits make no sense.
        """
        if run.input is None:
            raise UnreadableRow(f"the data of run {run.id}", "its row is missing")
        if run.kind not in _KINDS:
            raise newer(f"run {run.id}", "kind", run.kind)
        kind, space, name = run.name.partition(" ")
        if run.kind != (kind if space and kind in _ELSEWHERE else RunKind.WORKFLOW):
            fact = f"its name {run.name!r} does not match its kind {run.kind!r}"
            raise UnreadableRow(f"run {run.id}", fact)
        if run.kind == RunKind.MAP:
            return self._chunk(name)
        if run.kind in (RunKind.PRODUCER, RunKind.CONSUMER):
            return self._handler(self._registry.handlers[name])
        if run.kind == RunKind.STEP:
            step = self._registry.steps[name]
            with reading(f"the limits of run {run.id}"):
                return replace(_step(step, run.retry), code=self._mark(step))
        workflow = self._registry.workflows[run.name]
        program = self._workflows.get(run.name)
        if program is None or program.fn is not workflow.fn:
            program = self._workflows[run.name] = self._workflow(workflow)
        return program

    def mark_of(self, run: ClaimedRun) -> str | None:
        """Return the mark of the code that a run by this name would execute here."""
        return self.codes.get(run.name)

    def _workflow(self, workflow: WorkflowDefinition) -> Program:
        return Program(
            workflow.fn,
            workflow.shape,
            workflow.retry,
            workflow.strict,
            self._mark(workflow),
            workflow.shape.bind,
        )

    def _handler(self, handler: HandlerDefinition) -> Program:
        mark = self._mark_of_handler(handler)
        if isinstance(handler, ProducerDefinition):
            return producer_program(handler, self._reads, mark)
        assert isinstance(handler, ConsumerDefinition)
        return consumer_program(handler, self._reads, mark)

    def _chunk(self, name: str) -> Program:
        step = self._registry.steps.get(name)
        mapped = self._registry.workflows.get(name) or self._registry.steps[name]
        shape = ChunkShape(mapped, step)
        return Program(work_through, shape, mapped.retry, code=self._mark(mapped))


def _step(definition: StepDefinition, limits: str | None) -> Program:
    """Return the program of a step; the run that called it may have set its limits."""
    retry, timeout = (None, None) if limits is None else read_limits(limits)
    here = replace(
        definition,
        route=None,
        retry=retry or definition.retry,
        timeout=definition.timeout if timeout is None else timeout,
    )

    async def body(*args: Any, **kwargs: Any) -> Any:
        inside = body_of_run()
        return await inside.ask(step_call(inside, here, args, kwargs))

    return Program(body, definition.shape, definition.retry)
