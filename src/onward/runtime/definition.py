"""What a worker knows of the functions it can run, and where it finds them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from onward.core.instant import MINUTE
from onward.core.retry import STEPS, check_retry
from onward.errors import BadInput

if TYPE_CHECKING:
    from collections.abc import Callable

    from onward.codec import Arguments, CallShape, Payload
    from onward.core.instant import Duration
    from onward.core.retry import Retry
    from onward.core.run import RunKind
    from onward.model.flow import DeclaredLimits

STEP_TIMEOUT: Duration = 10 * MINUTE


class ProgramShape(Protocol):
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


@dataclass(frozen=True, slots=True)
class CachePolicy:
    """How long other runs may use the result of a step, and which calls have the same result.

    `key` is called with the arguments; without it, calls with equal arguments have one result.
    """

    length: Duration
    key: Callable[..., str] | None = None
    version: str = ""


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
    route: Route | None = None
    record_args: bool = True
    cache: CachePolicy | None = None

    def __post_init__(self) -> None:
        check_retry(self.retry)


@dataclass(frozen=True, slots=True)
class WorkflowDefinition:
    """A function whose runs are durable."""

    name: str
    fn: Callable[..., Any]
    shape: CallShape
    queue: str = "default"
    retry: Retry | None = None
    strict: bool = False
    limits: DeclaredLimits | None = None
    """The limits of its runs: of each key if it has one, otherwise of all of them."""
    key: Callable[..., str] | None = None
    """Returns the flow key of a run from its arguments."""

    def __post_init__(self) -> None:
        check_retry(self.retry)


def _not_bound(*_: object) -> Arguments:
    raise BadInput("continue_as_new", "was called outside a workflow", "Use return instead")


@dataclass(frozen=True, slots=True)
class Program:
    """What a run executes: a workflow, a step that was sent elsewhere, or a part of a map.

    `bind` makes arguments for a run that goes on where this one ends.
    """

    fn: Callable[..., Any]
    shape: ProgramShape
    retry: Retry | None = None
    strict: bool = False

    def __post_init__(self) -> None:
        check_retry(self.retry)

    code: str = ""
    bind: Callable[..., Arguments] = _not_bound
    transient: Retry | None = None
    """How often a run of a handler is followed by another because it failed for a while."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What holds where neither a step nor its workflow says otherwise."""

    retry: Retry = STEPS
    timeout: Duration = STEP_TIMEOUT


def run_name(kind: RunKind, name: str) -> str:
    """Return the name of runs of a step or of parts of a map: no workflow can have it."""
    return f"{kind} {name}"
