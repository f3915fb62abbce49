"""Steps: calls whose results are recorded once in a run's history."""

from __future__ import annotations

import inspect
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
from onward.runtime.context import body_now
from onward.runtime.definition import StepDefinition

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from onward.core.instant import DurationLike
    from onward.core.retry import Retry

P = ParamSpec("P")
Q = ParamSpec("Q")
R = TypeVar("R")


class Step(Generic[P, R]):
    """A function whose result is recorded once in a run's history, and read back on replay.

    Calling it always returns an awaitable. Outside a run it just calls the function, so a unit
    test needs no engine. `fn` is the plain function.
    """

    def __init__(self, definition: StepDefinition, *, key: str | None = None) -> None:
        self._definition = definition
        self._key = key
        self.fn: Callable[..., Any] = definition.fn
        update_wrapper(cast("Any", self), definition.fn)

    @property
    def name(self) -> str:
        """The name under which it is stored."""
        return self._definition.name

    def options(
        self,
        *,
        key: str | None = None,
        retry: Retry | None = None,
        timeout: DurationLike | None = None,
    ) -> Step[P, R]:
        """Return this step with other options for the calls that are made through it.

        Args:
            key: What this call is about (an order id): with it the result is found again wherever
                the call stands in the code.
            retry: How often to try.
            timeout: How long one attempt may take.
        """
        old = self._definition
        definition = replace(
            old,
            retry=retry or old.retry,
            timeout=old.timeout if timeout is None else duration(timeout),
        )
        return Step(definition, key=None if key is None else check_id(key, "the key of a step"))

    async def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Do it, or read from history what it gave."""
        body = body_now.get()
        if body is None:
            return await self._plainly(args, kwargs)
        result: R = await body.step(self._definition, args, kwargs, self._key)
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
        bound = replace(
            self._definition,
            fn=self.fn.__get__(instance, owner),
            shape=signature_of(self.fn, method=True),
        )
        return Step[..., R](bound, key=self._key)

    async def _plainly(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> R:
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
) -> _Decorator: ...


def step(
    fn: Callable[..., Any] | None = None,
    /,
    *,
    name: str | None = None,
    retry: Retry | None = None,
    timeout: DurationLike | None = None,
    compare: bool = True,
) -> Any:
    """Make a function a step: done once in a run, then read back from its history.

    An async function runs on the worker's event loop, any other in a thread.

    Args:
        fn: The function, when used without options.
        name: The stored name; the function's own by default. It is kept for ever.
        retry: How often to try; by default three times.
        timeout: How long one attempt may take; by default ten minutes.
        compare: Whether a replay compares the arguments with those recorded.

    Example:
        >>> import asyncio
        >>> @step
        ... def greet(name: str) -> str:
        ...     return f"Hello, {name}!"
        >>> asyncio.run(greet("Ada"))  # outside a run: a plain call
        'Hello, Ada!'
    """
    if fn is None:
        return partial(step, name=name, retry=retry, timeout=timeout, compare=compare)
    return Step(
        StepDefinition(
            check_id(name or fn.__name__, "the name of a step"),
            fn,
            signature_of(fn),
            inspect.iscoroutinefunction(fn),
            retry,
            None if timeout is None else duration(timeout),
            compare,
        )
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
