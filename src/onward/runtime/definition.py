"""What a worker knows of the functions it can run, and where it finds them."""

from __future__ import annotations

from dataclasses import dataclass
from types import MethodType
from typing import TYPE_CHECKING, Any, Protocol

from onward.codec import check_id
from onward.core.instant import MINUTE
from onward.core.retry import STEPS, check_retry
from onward.core.run import RunKind
from onward.errors import BadInput

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from onward.codec import Arguments, CallShape, Payload
    from onward.core.instant import Duration
    from onward.core.retry import Retry

STEP_TIMEOUT: Duration = 10 * MINUTE


class Shape(Protocol):
    """How what a run is given and what it gives are stored."""

    def decode(self, payload: Payload) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the arguments that were stored."""
        ...

    def encode_result(self, value: object) -> Payload:
        """Return a result as it is stored."""
        ...


@dataclass(frozen=True, slots=True)
class Route:
    """Where a step is sent that does not run in the worker of its run."""

    queue: str | None = None
    tags: tuple[str, ...] = ()
    limit: int | None = None


@dataclass(frozen=True, slots=True, weakref_slot=True)
class StepDefinition:
    """A function whose result is recorded once in a run's history."""

    name: str
    fn: Callable[..., Any]
    shape: CallShape
    is_async: bool
    retry: Retry | None = None
    timeout: Duration | None = None
    compare: bool = True
    route: Route | None = None

    def __post_init__(self) -> None:
        check_retry(self.retry)


@dataclass(frozen=True, slots=True, weakref_slot=True)
class WorkflowDefinition:
    """A function whose runs are durable."""

    name: str
    fn: Callable[..., Any]
    shape: CallShape
    queue: str = "default"
    retry: Retry | None = None
    strict: bool = False

    def __post_init__(self) -> None:
        check_retry(self.retry)


def _not_bound(*_: object) -> Arguments:
    raise BadInput("continue_as_new", "was called in what is no workflow", "Return instead")


@dataclass(frozen=True, slots=True)
class Program:
    """What a run executes: a workflow, a step that was sent elsewhere, or a part of a map.

    `bind` makes arguments for a run that goes on where this one ends.
    """

    fn: Callable[..., Any]
    shape: Shape
    retry: Retry | None = None
    strict: bool = False

    def __post_init__(self) -> None:
        check_retry(self.retry)

    code: str = ""
    bind: Callable[..., Arguments] = _not_bound


@dataclass(frozen=True, slots=True)
class Limits:
    """What holds where neither a step nor its workflow says otherwise."""

    retry: Retry = STEPS
    timeout: Duration = STEP_TIMEOUT


def run_name(kind: RunKind, name: str) -> str:
    """Return the name of runs of a step or of parts of a map: no workflow can have it."""
    return f"{kind} {name}"


def check_name(name: str, what: str) -> str:
    """Return the name of a workflow or step, if it can be told from others.

    Raises:
        BadInput: it looks like the name of something else.
    """
    if name == "<lambda>":
        raise BadInput(
            what, "is that of a lambda, which all lambdas share", "Use def, or give name="
        )
    if name.startswith(("step ", "map ")):
        raise BadInput(f"{what} {name!r}", 'begins with "step " or "map "', "Use another word")
    return check_id(name, what)


class Registry:
    """The workflows and steps that a worker can run, by name."""

    def __init__(
        self, workflows: Iterable[WorkflowDefinition], steps: Iterable[StepDefinition] = ()
    ) -> None:
        self.workflows: dict[str, WorkflowDefinition] = {}
        self.steps: dict[str, StepDefinition] = {}
        for workflow in workflows:
            other = self.workflows.get(workflow.name, workflow)
            if not (other.fn is workflow.fn or _is_again(other.fn, workflow.fn)):
                raise _two("workflow", workflow.name, other.fn, workflow.fn)
            self.workflows[workflow.name] = workflow
        for step in steps:
            self._add_step(step)

    def _add_step(self, step: StepDefinition) -> None:
        other = self.steps.setdefault(step.name, step)
        if other.fn is step.fn:
            return
        if _is_again(other.fn, step.fn):
            self.steps[step.name] = step
        elif other.route is not None or step.route is not None:
            # Sent elsewhere, it is found by its name alone.
            raise _two("step", step.name, other.fn, step.fn)

    @property
    def limits(self) -> dict[str, int]:
        """How many runs of a step may be running at a time, where it has a limit."""
        routes = ((name, step.route) for name, step in self.steps.items())
        return {
            run_name(RunKind.STEP, name): route.limit
            for name, route in routes
            if route is not None and route.limit is not None
        }

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all runs that can be taken, sorted."""
        steps = (run_name(RunKind.STEP, name) for name in self.steps)
        maps = (run_name(RunKind.MAP, name) for name in {*self.workflows, *self.steps})
        return tuple(sorted((*self.workflows, *steps, *maps)))


class Names:
    """Whose the names are that the bodies of one worker call steps, effects and workflows by.

    History knows a call by its name alone. If two functions had one, each could be handed what the
    other has returned. They are not refused before they are used: a process may know many more.
    """

    def __init__(self, registry: Registry) -> None:
        self._taken: dict[str, dict[str, Callable[..., Any]]] = {
            "step": {},
            "effect": {},
            "workflow": {name: each.fn for name, each in registry.workflows.items()},
        }

    def check(self, kind: str, name: str, fn: Callable[..., Any]) -> None:
        """Take note of a call.

        Raises:
            BadInput: other code was called by this name.
        """
        if isinstance(fn, MethodType):
            return  # as it is the caller's business which object does it, so is of which class
        taken = self._taken[kind]
        other = taken.setdefault(name, fn)
        if other is fn:
            return
        if not _is_same(other, fn):
            raise _two(kind, name, other, fn)
        taken[name] = fn


def _is_same(fn: Callable[..., Any], other: Callable[..., Any]) -> bool:
    """Say whether two functions stand at one place: it was loaded twice, or is made in a call."""
    return _place(fn) == _place(other) or _file(fn) == _file(other)


def _is_again(fn: Callable[..., Any], other: Callable[..., Any]) -> bool:
    """Say whether a function is another one loaded again, which takes its place."""
    return _is_same(fn, other) and "<locals>" not in _place(fn)


def _two(kind: str, name: str, fn: Callable[..., Any], other: Callable[..., Any]) -> BadInput:
    return BadInput(
        f"the {kind} name {name!r}",
        f"is used by {_place(fn)} and by {_place(other)}",
        f"Give one of them another: @{kind}(name=...)",
    )


def _place(fn: Callable[..., Any]) -> str:
    return f"{fn.__module__}.{getattr(fn, '__qualname__', type(fn).__qualname__)}"


def _file(fn: Callable[..., Any]) -> tuple[object, str]:
    """Return where a function is written; a script that is also imported has two modules."""
    code = getattr(fn, "__code__", None)
    place = _place(fn)
    return (place, "") if code is None else (code.co_filename, code.co_qualname)
