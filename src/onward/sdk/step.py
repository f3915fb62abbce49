"""Steps: calls whose results are recorded once in a run's history."""

from __future__ import annotations

import inspect
import warnings
from dataclasses import replace
from functools import partial, update_wrapper
from typing import (
    TYPE_CHECKING,
    Any,
    Concatenate,
    Generic,
    ParamSpec,
    TypeVar,
    cast,
    overload,
)

from onward.codec import check_id, signature_of
from onward.core.instant import duration
from onward.engine.starting import check_tags
from onward.errors import BadInput
from onward.runtime.body.chunks import step_options
from onward.runtime.body.routing import step_call
from onward.runtime.context import body_now, step_now
from onward.runtime.definition import CachePolicy, Route, StepDefinition
from onward.runtime.registry import define
from onward.sdk.functions import stored_name, time_limit
from onward.sdk.mapping import Mappable
from onward.sdk.shared_open import is_open_here

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable

    from onward.core.instant import DurationLike
    from onward.core.retry import Retry
    from onward.runtime.body.chunk_data import CallOptions

P = ParamSpec("P")
Q = ParamSpec("Q")
R = TypeVar("R")


registered: dict[str, list[StepDefinition]] = {}
"""Every step that was decorated in this process, by name."""


class Step(Mappable[P, R], Generic[P, R]):
    """A function, decorated with `@step`, whose result is recorded in the history of a run.

    A call always returns an awaitable. Outside a run, the call simply runs the function, so unit
    tests need neither an App nor a worker. `fn` is the plain function.

    Example:
        >>> import asyncio
        >>> from onward import step
        >>> @step
        ... def double(n: int) -> int:
        ...     return 2 * n
        >>> asyncio.run(double(21))
        42
    """

    def __init__(
        self, definition: StepDefinition, *, key: str | None = None, is_bound: bool = False
    ) -> None:
        self.definition = definition
        self._key = key
        self._is_bound = is_bound
        self.fn: Callable[..., Any] = definition.fn
        update_wrapper(cast("Any", self), definition.fn)

    @property
    def mapped(self) -> StepDefinition:
        """What is called for each item of a map."""
        if self._is_bound:
            raise _no_method(self.name)
        return self.definition

    def map_options(self, retry: Retry | None) -> CallOptions:
        """Return how it is called for each item; `retry` is the policy of the workflow."""
        return step_options(self.definition, retry)

    @property
    def name(self) -> str:
        """The name under which the step is stored."""
        return self.definition.name

    def options(
        self,
        *,
        key: str | None = None,
        retry: Retry | None = None,
        timeout: DurationLike | None = None,
        queue: str | None = None,
        tags: Iterable[str] | None = None,
        limit: int | None = None,
    ) -> Step[P, R]:
        """Return this step with different options, for the calls that you make with it.

        Args:
            key: A value, such as an order id, that identifies the result. Without a key, the
                position of the call in the code identifies it.
            retry: The retry policy.
            timeout: How long one attempt may take.
            queue: The queue whose workers may execute the call.
            tags: Only workers with one of these tags execute the call.
            limit: How many calls of the step may run at the same time, across all workers.
        """
        old = self.definition
        definition = replace(
            old,
            retry=retry or old.retry,
            timeout=old.timeout if timeout is None else time_limit(timeout),
            route=_route(old.route, queue, tags, limit),
        )
        if self._is_bound and definition.route is not None:
            raise _no_method(self.name)
        own_key = None if key is None else check_id(key, "the key of a step")
        return Step(definition, key=own_key, is_bound=self._is_bound)

    async def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Do it, or read from history what it gave."""
        body = body_now.get()
        if body is None:
            return await self._plainly(args, kwargs)
        # The call is kept in no variable: an error that it raises would refer to it and be referred
        # to by it, and only the garbage collector would free the run.
        result: R = await body.ask(step_call(body, self.definition, args, kwargs), self._key)
        return result

    @overload
    def __get__(self, instance: None, owner: type | None = None) -> Step[P, R]: ...
    @overload
    def __get__(
        self: Step[Concatenate[Any, Q], R], instance: object, owner: type | None = None
    ) -> Step[Q, R]: ...
    def __get__(self, instance: object, owner: type | None = None) -> Any:
        if instance is None:
            return self
        # A step that is a method: `self` is neither stored nor compared.
        if self.definition.route is not None:
            raise _no_method(self.name)
        if self.definition.cache is not None:
            raise BadInput(
                f"step {self.name!r}",
                "is a method, and its object is not part of the key of a cached result",
                "Make it a function, or leave out cache",
            )
        bound = replace(
            self.definition,
            fn=self.fn.__get__(instance, owner),
            shape=signature_of(self.fn, method=True),
        )
        return Step[..., R](bound, key=self._key, is_bound=True)

    async def _plainly(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> R:
        if is_open_here() and step_now.get() is None:
            warnings.warn(
                f"step {self.name!r} was called outside a workflow, so its result is not recorded. "
                f"Call it in a workflow, or call {self.name}.fn for the plain function.",
                RuntimeWarning,
                stacklevel=3,
            )
        result = self.fn(*args, **kwargs)
        if inspect.isawaitable(result):
            result = await result
        return cast("R", result)

    def __repr__(self) -> str:
        return f"<step {self.name}>"


@overload
def step(fn: Callable[P, Coroutine[Any, Any, R]], /) -> Step[P, R]: ...
@overload
def step(fn: Callable[P, R], /) -> Step[P, R]: ...
@overload
def step(
    *,
    name: str | None = None,
    retry: Retry | None = None,
    timeout: DurationLike | None = None,
    compare: bool = True,
    record_args: bool = True,
    queue: str | None = None,
    tags: Iterable[str] | None = None,
    limit: int | None = None,
    cache: DurationLike | None = None,
    cache_key: Callable[..., str] | None = None,
    version: str | None = None,
) -> _Decorator: ...


def step(  # noqa: PLR0913 - each is a thing of its own that one may want
    fn: Callable[..., Any] | None = None,
    /,
    *,
    name: str | None = None,
    retry: Retry | None = None,
    timeout: DurationLike | None = None,
    compare: bool = True,
    record_args: bool = True,
    queue: str | None = None,
    tags: Iterable[str] | None = None,
    limit: int | None = None,
    cache: DurationLike | None = None,
    cache_key: Callable[..., str] | None = None,
    version: str | None = None,
) -> Any:
    """Make a function a step: its result is recorded, and is read back on replay.

    An async function runs on the worker's event loop; any other function runs in a thread.

    Args:
        fn: The function, if you use the decorator without options.
        name: The stored name; by default the name of the function. Never change it while runs are
            open.
        retry: The retry policy; by default three attempts.
        timeout: How long one attempt may take; by default ten minutes.
        compare: Whether a replay compares the arguments with the recorded ones.
        record_args: Whether to store the arguments for display: `onward runs show` and
            `Run.history` show them if they are at most 4 KiB as JSON. A call that is executed in a
            separate run always stores its arguments.
        queue: The queue whose workers may execute the step; each call is then a separate run.
        tags: Only workers with one of these tags execute the step.
        limit: How many calls of the step may run at the same time, across all workers.
        cache: How long other runs may use the result of a call, instead of making the call again. A
            replay reads the history, never the cache.
        cache_key: A function that returns a string, given the arguments; calls with the same string
            share a result. By default, calls with equal arguments share a result.
        version: The version of a cached step. Change it when you change the code, so that older
            results are not used.

    Example:
        >>> import asyncio
        >>> @step
        ... def greet(name: str) -> str:
        ...     return f"Hello, {name}!"
        >>> asyncio.run(greet("Ada"))  # outside a run: a plain call
        'Hello, Ada!'
    """
    if fn is None:
        return partial(
            step,
            name=name,
            retry=retry,
            timeout=timeout,
            compare=compare,
            record_args=record_args,
            queue=queue,
            tags=tags,
            limit=limit,
            cache=cache,
            cache_key=cache_key,
            version=version,
        )
    definition = StepDefinition(
        stored_name(fn, name, "step"),
        fn,
        signature_of(fn),
        inspect.iscoroutinefunction(fn),
        retry,
        None if timeout is None else time_limit(timeout),
        compare,
        _route(None, queue, tags, limit),
        record_args,
        _cache_policy(cache, cache_key, version),
    )
    define(registered, definition)
    return Step(definition)


def _route(
    old: Route | None, queue: str | None, tags: Iterable[str] | None, limit: int | None
) -> Route | None:
    if queue is None and tags is None and limit is None:
        return old
    if limit is not None and (type(limit) is not int or limit < 1):
        raise BadInput(f"limit={limit!r}", "is not a positive whole number", "Use 1 or more")
    old = old or Route()
    return Route(
        old.queue if queue is None else check_id(queue, "the queue"),
        old.tags if tags is None else check_tags(tags),
        old.limit if limit is None else limit,
    )


def _cache_policy(
    cache: DurationLike | None, key: Callable[..., str] | None, version: str | None
) -> CachePolicy | None:
    if cache is None:
        if key is not None or version is not None:
            raise BadInput(
                "cache_key and version", "have no effect without cache=", "Pass cache= as well"
            )
        return None
    length = duration(cache)
    if length <= 0:
        raise BadInput(
            f"cache={cache!r}", "is not a positive duration", "Leave it out, or use a longer time"
        )
    return CachePolicy(length, key, "" if version is None else check_id(version, "the version"))


def _no_method(name: str) -> BadInput:
    return BadInput(
        f"step {name!r}",
        "is a method, and its object cannot be sent to another worker",
        "Make it a function, or leave out queue, tags and limit",
    )


class _Decorator:
    """The type of `@step(...)`: keeps the signature of what it decorates."""

    @overload
    def __call__(self, fn: Callable[P, Coroutine[Any, Any, R]], /) -> Step[P, R]: ...
    @overload
    def __call__(self, fn: Callable[P, R], /) -> Step[P, R]: ...
    def __call__(self, fn: Callable[..., Any], /) -> Any:
        """Decorate a function."""
        raise NotImplementedError
