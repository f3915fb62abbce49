"""What a worker knows of the functions it can run, and where it finds them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from onward.core.instant import MINUTE
from onward.core.retry import STEPS
from onward.errors import BadInput

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from onward.codec import CallShape
    from onward.core.instant import Duration
    from onward.core.retry import Retry

STEP_TIMEOUT: Duration = 10 * MINUTE


@dataclass(frozen=True, slots=True)
class StepDefinition:
    """A function whose result is recorded once in a run's history."""

    name: str
    fn: Callable[..., Any]
    shape: CallShape
    is_async: bool
    retry: Retry | None = None
    timeout: Duration | None = None
    compare: bool = True


@dataclass(frozen=True, slots=True)
class WorkflowDefinition:
    """A function whose runs are durable."""

    name: str
    fn: Callable[..., Any]
    shape: CallShape
    queue: str = "default"
    retry: Retry | None = None


@dataclass(frozen=True, slots=True)
class Limits:
    """What holds where neither a step nor its workflow says otherwise."""

    retry: Retry = STEPS
    timeout: Duration = STEP_TIMEOUT


class Registry:
    """The workflows that a worker can run, by name."""

    def __init__(self, workflows: Iterable[WorkflowDefinition]) -> None:
        self._by_name: dict[str, WorkflowDefinition] = {}
        for workflow in workflows:
            other = self._by_name.setdefault(workflow.name, workflow)
            if other.fn is not workflow.fn:
                raise BadInput(
                    f"the workflow name {workflow.name!r}",
                    f"is used by {_place(other.fn)} and by {_place(workflow.fn)}",
                    "Give one of them another: @workflow(name=...)",
                )

    @property
    def names(self) -> tuple[str, ...]:
        """All names, sorted."""
        return tuple(sorted(self._by_name))

    def __getitem__(self, name: str) -> WorkflowDefinition:
        return self._by_name[name]


def _place(fn: Callable[..., Any]) -> str:
    return f"{fn.__module__}.{fn.__qualname__}"
