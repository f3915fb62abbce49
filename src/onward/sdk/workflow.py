"""Workflows: functions whose runs survive whatever happens to their workers."""

from __future__ import annotations

import inspect
from dataclasses import replace
from functools import partial, update_wrapper
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar, cast, overload

from onward.codec import check_id, signature_of
from onward.core.instant import duration
from onward.engine.starting import StartOptions
from onward.errors import BadInput, NotInBody
from onward.runtime.context import body_now, step_now
from onward.runtime.definition import WorkflowDefinition

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable
    from datetime import datetime

    from onward.core.instant import DurationLike
    from onward.core.retry import Retry

P = ParamSpec("P")
R = TypeVar("R")

_CONFLICTS = ("return", "reject", "replace")
registered: dict[str, list[WorkflowDefinition]] = {}
"""Every workflow that was decorated in this process, by name."""


class Workflow(Generic[P, R]):
    """An async function whose runs are durable. `fn` is the plain function."""

    def __init__(self, definition: WorkflowDefinition, options: StartOptions) -> None:
        self.definition = definition
        self.start_options = options
        self.fn: Callable[..., Any] = definition.fn
        update_wrapper(cast("Any", self), definition.fn)

    @property
    def name(self) -> str:
        """The name under which it is stored."""
        return self.definition.name

    def options(  # noqa: PLR0913 - each is a thing of its own that one may want
        self,
        *,
        id: str | None = None,  # noqa: A002 - it is the user's word
        queue: str | None = None,
        priority: int | None = None,
        tags: Iterable[str] | None = None,
        delay: DurationLike | None = None,
        at: datetime | None = None,
        on_conflict: str | None = None,
    ) -> Workflow[P, R]:
        """Return this workflow with other options for the runs that are started through it.

        Args:
            id: Your name for the run: starting it twice starts it once.
            queue: Which workers may take it.
            priority: Higher goes first within a queue.
            tags: Only a worker with one of these takes it.
            delay: Start it this much later.
            at: Start it at this time (with a time zone).
            on_conflict: What to do if the id is there: "return" it, or "reject".
        """
        changes: dict[str, Any] = {
            "id": id,
            "queue": queue,
            "priority": priority,
            "tags": None if tags is None else tuple(tags),
            "delay": None if delay is None else duration(delay),
            "at": None if at is None else _instant(at),
            "on_conflict": on_conflict,
        }
        if on_conflict is not None and on_conflict not in _CONFLICTS:
            raise BadInput(
                f"on_conflict={on_conflict!r}", "is none of " + ", ".join(_CONFLICTS), "Use one"
            )
        given = {name: value for name, value in changes.items() if value is not None}
        return Workflow(self.definition, replace(self.start_options, **given))

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, R]:
        """Call the plain function, outside of any run."""
        if body_now.get() is not None or step_now.get() is not None:
            raise NotInBody(
                f"calling workflow {self.name!r}",
                "would start a child run, which this Onward cannot do yet",
                "Call it from outside, with app.start",
            )
        return cast("Coroutine[Any, Any, R]", self.fn(*args, **kwargs))

    def __repr__(self) -> str:
        return f"<workflow {self.name}>"


@overload
def workflow(fn: Callable[P, Coroutine[Any, Any, R]], /) -> Workflow[P, R]: ...
@overload
def workflow(
    *, name: str | None = None, queue: str = "default", retry: Retry | None = None
) -> _Decorator: ...


def workflow(
    fn: Callable[..., Any] | None = None,
    /,
    *,
    name: str | None = None,
    queue: str = "default",
    retry: Retry | None = None,
) -> Any:
    """Make an async function a workflow.

    Args:
        fn: The function, when used without options.
        name: The stored name; the function's own by default. It is kept for ever.
        queue: The queue of its runs, unless they are started with another.
        retry: How often its steps are tried, unless they say otherwise.

    Example:
        >>> @workflow(queue="letters")
        ... async def write_letter(name: str) -> str:
        ...     return f"Dear {name}"
        >>> write_letter.options(id="letter-1", delay="1h").start_options.id
        'letter-1'
    """
    if fn is None:
        return partial(workflow, name=name, queue=queue, retry=retry)
    if not inspect.iscoroutinefunction(fn):
        raise BadInput(
            f"workflow {fn.__name__!r}", "is not an async function", "Write it with async def"
        )
    definition = WorkflowDefinition(
        check_id(name or fn.__name__, "the name of a workflow"), fn, signature_of(fn), queue, retry
    )
    registered.setdefault(definition.name, []).append(definition)
    return Workflow(definition, StartOptions(queue=queue))


class _Decorator:
    """The type of `@workflow(...)`: keeps the signature of what it decorates."""

    def __call__(self, fn: Callable[P, Coroutine[Any, Any, R]], /) -> Workflow[P, R]:
        """Decorate a function."""
        raise NotImplementedError


def _instant(at: datetime) -> int:
    if at.tzinfo is None:
        raise BadInput(f"at={at.isoformat()}", "has no time zone", "Use datetime.now(UTC)")
    return round(at.timestamp() * 1_000_000)
