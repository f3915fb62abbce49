"""Workflows: functions whose runs survive whatever happens to their workers."""

from __future__ import annotations

import inspect
from dataclasses import fields, replace
from functools import partial, update_wrapper
from typing import TYPE_CHECKING, Any, Generic, Literal, ParamSpec, TypeVar, cast, overload

from onward.codec import signature_of
from onward.core.instant import duration
from onward.core.retry import check_retry
from onward.engine.starting import (
    StartOptions,
    check_flow_key,
    check_priority,
    check_tags,
    new_run,
)
from onward.errors import BadInput, NotInBody
from onward.runtime.body.children import ChildCall
from onward.runtime.body.chunks import workflow_options
from onward.runtime.context import body_now, step_now
from onward.runtime.definition import WorkflowDefinition
from onward.runtime.flows import declared, flow_of_start
from onward.runtime.registry import define
from onward.sdk.functions import refuse_method, stored_name
from onward.sdk.mapping import Mappable

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable
    from datetime import datetime

    from onward.core.instant import DurationLike
    from onward.core.retry import Retry
    from onward.model.runs import NewRun
    from onward.runtime.body.chunk_data import CallOptions
    from onward.runtime.flows import StartFlow

P = ParamSpec("P")
R = TypeVar("R")

_CONFLICTS = ("return", "reject", "replace")
registered: dict[str, list[WorkflowDefinition]] = {}
"""Every workflow that was decorated in this process, by name."""


class Workflow(Mappable[P, R], Generic[P, R]):
    """An async function, decorated with `@workflow`, whose runs are durable.

    A call in the body of another workflow starts a child run. Elsewhere, a call simply runs the
    function, so unit tests need neither an App nor a worker. `fn` is the plain function.

    Example:
        >>> import asyncio
        >>> from onward import workflow
        >>> @workflow
        ... async def double(n: int) -> int:
        ...     return 2 * n
        >>> asyncio.run(double(21))
        42
    """

    def __init__(
        self,
        definition: WorkflowDefinition,
        options: StartOptions,
        *,
        cancel_with_parent: bool | None = None,
    ) -> None:
        self.definition = definition
        self.start_options = options
        self._cancel_with_parent = cancel_with_parent
        self.fn: Callable[..., Any] = definition.fn
        update_wrapper(cast("Any", self), definition.fn)

    @property
    def mapped(self) -> WorkflowDefinition:
        """What is called for each item of a map."""
        return self.definition

    def map_options(self, retry: Retry | None) -> CallOptions:  # noqa: ARG002 - it is for steps alone
        """Return how it is called for each item of a map."""
        return workflow_options(self.start_options)

    @property
    def name(self) -> str:
        """The name under which the workflow is stored."""
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
        deadline: DurationLike | None = None,
        on_conflict: Literal["return", "reject", "replace"] | None = None,
        retry: Retry | None = None,
        cancel_with_parent: bool | None = None,
        key: str | None = None,
        limit: int | None = None,
        rate: str | None = None,
    ) -> Workflow[P, R]:
        """Return this workflow with different options, for the runs that you start with it.

        Args:
            id: Your id for the run. By default, starting the workflow again with the same id
                returns the first run.
            queue: The queue whose workers may take the run.
            priority: Runs with a higher priority start first within a queue.
            tags: Only workers with one of these tags take the run.
            delay: How long to wait before the run starts.
            at: When to start the run: a datetime with a time zone.
            deadline: How long after its scheduled start the run is cancelled, if it has not ended
                by then.
            on_conflict: What to do if a run with the id already exists: "return" that run, "reject"
                the start, or "replace" the run.
            retry: The retry policy of the run as a whole; by default, the run is not retried.
            cancel_with_parent: Whether a child run is cancelled when its parent ends. By default,
                this applies to awaited children, but not to children started with `onward.start`.
            key: The flow key of the run, such as a customer id. Runs with different keys take turns
                in a queue, and each key has its own limits.
            limit: How many runs with this key may run at the same time; without a key, how many
                runs of the workflow may run at the same time.
            rate: How many runs with this key may start per unit of time, such as "10/m", "1/5s" or
                "100/h"; without a key, how many runs of the workflow may start.
        """
        check_retry(retry)
        changes: dict[str, Any] = {
            "id": id,
            "queue": queue,
            "priority": priority,
            "tags": None if tags is None else check_tags(tags),
            "delay": None if delay is None else duration(delay),
            "at": None if at is None else instant_of(at),
            "deadline": None if deadline is None else duration(deadline),
            "on_conflict": on_conflict,
            "retry": retry,
            "key": None if key is None else check_flow_key(key),
            "limits": declared(limit, rate),
        }
        if on_conflict is not None and on_conflict not in _CONFLICTS:
            raise BadInput(
                f"on_conflict={on_conflict!r}",
                "is not one of " + ", ".join(_CONFLICTS),
                "Use one of them",
            )
        given = {name: value for name, value in changes.items() if value is not None}
        options = replace(self.start_options, **given)
        if options.delay and options.at is not None:
            raise BadInput("delay= and at=", "cannot be combined", "Pass one of them")
        return Workflow(
            self.definition,
            options,
            cancel_with_parent=self._cancel_with_parent
            if cancel_with_parent is None
            else cancel_with_parent,
        )

    def row(
        self,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        *,
        uid: str = "",
        version: str | None = None,
        cancel_with_parent: bool = False,
    ) -> NewRun:
        """Return the run that a call with these arguments and options would start."""
        try:
            arguments = self.definition.shape.bind(args, kwargs)
        except TypeError as error:
            raise _with_options(error, self, kwargs) from None
        run = new_run(uid, self.name, arguments, self.start_options, version)
        return run._replace(
            flow_key=self.flow(args, kwargs).key,
            cancel_with_parent=int(
                cancel_with_parent if self._cancel_with_parent is None else self._cancel_with_parent
            ),
        )

    def flow(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> StartFlow:
        """Return the flow key of a run, and the limits to declare before the run starts."""
        return flow_of_start(self.definition, self.start_options, args, kwargs)

    async def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Run it as a child of the run that calls it or, outside a run, call the function."""
        body = body_now.get()
        if body is not None:
            body.names.check("workflow", self.name, self.fn)
            child = self.row(args, kwargs, cancel_with_parent=True)
            decoder = self.definition.shape.decode_result
            call = ChildCall(self.name, decoder, start=child, asked_at=body.now)
            call.declares = self.flow(args, kwargs).declares
            result: R = await body.ask(call)
            return result
        if step_now.get() is not None:
            raise NotInBody(
                f"workflow {self.name!r}",
                "was called in a step, but only a workflow can have children",
                "Call it from the workflow, or call .fn for the plain function",
            )
        plain: R = await self.fn(*args, **kwargs)
        return plain

    def __repr__(self) -> str:
        return f"<workflow {self.name}>"


@overload
def workflow(fn: Callable[P, Coroutine[Any, Any, R]], /) -> Workflow[P, R]: ...
@overload
def workflow(
    *,
    name: str | None = None,
    queue: str = "default",
    retry: Retry | None = None,
    strict: bool = False,
    limit: int | None = None,
    rate: str | None = None,
    key: Callable[..., str] | str | None = None,
    hold: Literal["running", "open"] | None = None,
    priority: int = 0,
    tags: Iterable[str] = (),
) -> _Decorator: ...


def workflow(  # noqa: PLR0913 - each is a thing of its own that one may want
    fn: Callable[..., Any] | None = None,
    /,
    *,
    name: str | None = None,
    queue: str = "default",
    retry: Retry | None = None,
    strict: bool = False,
    limit: int | None = None,
    rate: str | None = None,
    key: Callable[..., str] | str | None = None,
    hold: Literal["running", "open"] | None = None,
    priority: int = 0,
    tags: Iterable[str] = (),
) -> Any:
    """Make an async function a workflow.

    Args:
        fn: The function, if you use the decorator without options.
        name: The stored name; by default the name of the function. Never change it while runs are
            open.
        queue: The queue of its runs, unless `options(queue=...)` sets another.
        retry: The retry policy for its steps that do not have their own.
        strict: Whether any change to the calls in the body pauses open runs, even if a step is only
            inserted or removed.
        limit: How many of its runs may run at the same time, across all workers. With `key`, the
            limit applies to each key separately.
        rate: How many of its runs may start per unit of time, such as "10/m", "1/5s" or "100/h".
            With `key`, the rate applies to each key separately.
        key: A flow key, such as a customer id, for all its runs, or a function that returns the
            flow key of a run, given the run's arguments. Runs with different keys take turns in a
            queue, so that many runs with one key do not delay the others.
        hold: Which runs `limit` counts: "running" (the default) counts runs that are executing;
            "open" counts all runs between their first claim and their end, including those that are
            waiting.
        priority: Runs with a higher priority start first within a queue.
        tags: Only workers with one of these tags take its runs.

    Example:
        >>> from onward import workflow
        >>> @workflow(queue="letters")
        ... async def write_letter(name: str) -> str:
        ...     return f"Dear {name}"
        >>> write_letter.options(id="letter-1", delay="1h").start_options.id
        'letter-1'
    """
    if fn is None:
        return partial(
            workflow,
            name=name,
            queue=queue,
            retry=retry,
            strict=strict,
            limit=limit,
            rate=rate,
            key=key,
            hold=hold,
            priority=priority,
            tags=tags,
        )
    own_name = stored_name(fn, name, "workflow")
    if not inspect.iscoroutinefunction(fn):
        raise BadInput(
            f"workflow {own_name!r}", "is not an async function", "Write it with async def"
        )
    refuse_method(fn, own_name)
    definition = WorkflowDefinition(
        own_name,
        fn,
        signature_of(fn),
        queue,
        retry,
        strict,
        declared(limit, rate, hold),
        _key_function(key),
    )
    define(registered, definition)
    options = StartOptions(queue=queue, priority=check_priority(priority), tags=check_tags(tags))
    return Workflow(definition, options)


def _key_function(key: Callable[..., str] | str | None) -> Callable[..., str] | None:
    if key is None or callable(key):
        return key
    fixed = check_flow_key(key)
    return lambda *_, **__: fixed


class _Decorator:
    """The type of `@workflow(...)`: keeps the signature of what it decorates."""

    def __call__(self, fn: Callable[P, Coroutine[Any, Any, R]], /) -> Workflow[P, R]:
        """Decorate a function."""
        raise NotImplementedError


def check_workflow(given: object) -> None:
    """Refuse what is not a workflow, such as the call of one.

    Raises:
        BadInput: it is none.
    """
    if isinstance(given, Workflow):
        return
    if not inspect.iscoroutine(given):
        raise BadInput(
            f"{given!r}", "is not a workflow", "Decorate an async function with @workflow"
        )
    called = given.cr_frame.f_locals.get("self") if given.cr_frame is not None else None
    given.close()  # or Python would warn that it was never awaited
    name = called.fn.__name__ if isinstance(called, Workflow) else given.__name__
    advice = f"Pass the workflow and its arguments: app.start({name}, ...)"
    raise BadInput(f"{name}(...)", "is a call, not a workflow", advice)


def _with_options(error: TypeError, of: Workflow[..., Any], given: Iterable[str]) -> TypeError:
    """Return an error that also names the way to pass options, if some are among the arguments."""
    options = {field.name for field in fields(StartOptions)}
    names = options - inspect.signature(of.fn).parameters.keys()
    meant = [name for name in given if name in names]
    if not meant:
        return error
    shown = ", ".join(f"{name}=..." for name in meant)
    return TypeError(f"{error}. Pass options as {of.fn.__name__}.options({shown})")


def instant_of(at: datetime) -> int:
    """Return a time with a zone as an instant.

    Raises:
        BadInput: it has no time zone.
    """
    if at.tzinfo is None:
        raise BadInput(f"at={at.isoformat()}", "has no time zone", "Use datetime.now(UTC)")
    return round(at.timestamp() * 1_000_000)
