"""Effects: calls that change the outside world, kept in a ledger and never blindly repeated."""

from __future__ import annotations

import inspect
from dataclasses import replace
from functools import partial, update_wrapper
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, TypeVar, cast, overload
from uuid import uuid4

from onward.codec import check_id, signature_of
from onward.core.effect import START_WITHIN
from onward.core.flow import MAX_INTERVAL, read_rate
from onward.core.instant import duration, show
from onward.engine.payloads import pack
from onward.errors import BadInput, NotInBody
from onward.runtime.body.effects import (
    SETTLE,
    TIMEOUT,
    EffectCall,
    EffectDefinition,
    check_key,
    sending_now,
)
from onward.runtime.body.settling import until_settled
from onward.runtime.context import body_now, step_now
from onward.runtime.registry import define
from onward.sdk.functions import stored_name, time_limit
from onward.sdk.reconciler import check_reconciler

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from onward.core.instant import Duration, DurationLike
    from onward.core.retry import Retry

P = ParamSpec("P")
Q = ParamSpec("Q")
R = TypeVar("R")


registered: dict[str, list[EffectDefinition]] = {}
"""Every effect that was decorated in this process, by name."""


class Effect(Generic[P, R]):
    """A function, decorated with `@effect`, that changes the outside world.

    In a run, the ledger records each send before it is made. An effect is sent again only if there
    is proof that it did not happen, or while its receiver still remembers its key. Outside a run, a
    call simply runs the function. `fn` is the plain function.

    Example:
        >>> import asyncio
        >>> from onward import effect
        >>> @effect(timeout="5s")
        ... async def ring(bell: str) -> str:
        ...     return f"{bell}: ding"
        >>> asyncio.run(ring.options(key="door-1")("door"))
        'door: ding'
    """

    def __init__(self, definition: EffectDefinition, *, key: str | None = None) -> None:
        self.definition = definition
        self._key = key
        self.fn: Callable[..., Any] = definition.fn
        update_wrapper(cast("Any", self), definition.fn)

    @property
    def name(self) -> str:
        """The name under which the effect is stored."""
        return self.definition.name

    def options(
        self,
        *,
        key: str | None = None,
        retry: Retry | None = None,
        timeout: DurationLike | None = None,
    ) -> Effect[P, R]:
        """Return this effect with different options, for the calls that you make with it.

        Args:
            key: A value, such as an order id, that identifies the call. Without a key, the position
                of the call in the code identifies it.
            retry: The maximum number of sends, and how long to wait between them.
            timeout: How long one call may take.

        Raises:
            BadInput: with this timeout, a call can arrive after its receiver has forgotten the
                key.
        """
        old = self.definition
        definition = replace(
            old,
            retry=retry or old.retry,
            timeout=old.timeout if timeout is None else time_limit(timeout),
        )
        _check_memory(definition)
        own_key = None if key is None else check_id(key, "the key of an effect")
        return Effect(definition, key=own_key)

    async def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Send the effect, or read its outcome.

        Raises:
            NotApplied: it did not happen, and is not tried again.
            EffectSkipped: an operator decided to go on without it.
        """
        body = body_now.get()
        if body is None:
            return await self._plainly(args, kwargs)
        body.names.check("effect", self.name, self.fn)
        bound = self.definition.shape.bind(args, kwargs)
        asked = body.ask(
            EffectCall(self.definition, pack(bound.payload()), bound.fingerprint()), self._key
        )
        return cast("R", await until_settled(asked))

    @overload
    def __get__(self, instance: None, owner: type | None = None) -> Effect[P, R]: ...
    @overload
    def __get__(
        self: Effect[Concatenate[Any, Q], R], instance: object, owner: type | None = None
    ) -> Effect[Q, R]: ...
    def __get__(self, instance: object, owner: type | None = None) -> Any:
        if instance is None:
            return self
        bound = replace(
            self.definition,
            fn=self.fn.__get__(instance, owner),
            shape=signature_of(self.fn, method=True),
        )
        return Effect[..., R](bound, key=self._key)

    async def _plainly(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> R:
        if step_now.get() is not None:
            raise NotInBody(
                f"effect {self.name!r}",
                "was called in a step, but effects can be called only from a workflow body",
                "Call it from the workflow, or call .fn for the plain function",
            )
        result = self.fn(*args, **kwargs)
        if inspect.isawaitable(result):
            result = await result
        return cast("R", result)

    def __repr__(self) -> str:
        return f"<effect {self.name}>"


@overload
def effect(fn: Callable[P, Coroutine[Any, Any, R]], /) -> Effect[P, R]: ...
@overload
def effect(
    *,
    name: str | None = None,
    reconcile: Callable[..., Any] | None = None,
    retry: Retry | None = None,
    timeout: DurationLike | None = None,
    settle: DurationLike | None = None,
    start_within: DurationLike | None = None,
    idempotency_window: DurationLike | None = None,
    approve: bool = False,
    rate: str | None = None,
) -> _Decorator: ...


def effect(  # noqa: PLR0913 - each is a thing of its own that one may want
    fn: Callable[..., Any] | None = None,
    /,
    *,
    name: str | None = None,
    reconcile: Callable[..., Any] | None = None,
    retry: Retry | None = None,
    timeout: DurationLike | None = None,
    settle: DurationLike | None = None,
    start_within: DurationLike | None = None,
    idempotency_window: DurationLike | None = None,
    approve: bool = False,
    rate: str | None = None,
) -> Any:
    """Make a function an effect: a call to the outside world that is never blindly repeated.

    If the function returns, the effect happened. If the function raises `NotApplied`, the effect
    did not happen and is retried according to `retry`. Any other error leaves the outcome
    uncertain. Onward then calls `reconcile`, or sends the effect again within the receiver's
    `idempotency_window`. If neither settles the effect, it waits for an operator's verdict.

    Args:
        fn: The function, if you use the decorator without options.
        name: The stored name; by default the name of the function. Never change it while runs are
            open.
        reconcile: A function that looks up the outcome of a call. It receives the arguments of the
            call and `key=`, and returns `Applied(result)`, `NotApplied()` or `Unknown()`. If the
            effect is a method, the reconciler is still a plain function, without `self`.
        retry: The maximum number of sends, by default three, and the delays between them. A delay
            applies after the function has raised `NotApplied`. If a reconciler or an operator
            establishes that the effect did not happen, the effect is sent again at once.
        timeout: How long one call may take; by default 30 s. For a function that is not async,
            `timeout` is required, and the function must enforce it itself.
        settle: How long after its timeout a call may still take effect; by default 10 s.
        start_within: The time within which a call must begin after it is recorded in the ledger; by
            default 15 s. After that, the worker does not send it.
        idempotency_window: How long the receiver remembers a key, counted from the first send. Set
            it only if you pass `effect_key()` to the receiver and the receiver applies only one
            call for each key. Onward then sends an uncertain call again, as `retry` allows, while
            the receiver remembers the key. This option cannot be combined with `reconcile`.
        approve: Whether an operator must approve each call, with its exact arguments, before it is
            sent.
        rate: How often the effect may be sent, such as "10/m", "1/5s" or "100/h". Sends are spaced
            evenly.

    Raises:
        BadInput: an option is invalid, or `reconcile` does not accept the arguments.

    Example:
        >>> import asyncio
        >>> from onward import effect, effect_key
        >>> @effect
        ... async def charge(cents: int) -> str:
        ...     return f"charged {cents} under a key of {len(effect_key())} characters"
        >>> asyncio.run(charge(100))  # outside a run: a plain call
        'charged 100 under a key of 32 characters'
    """
    if fn is None:
        given = {"reconcile": reconcile, "retry": retry, "timeout": timeout, "settle": settle}
        given |= {"start_within": start_within, "idempotency_window": idempotency_window}
        return partial(effect, name=name, approve=approve, rate=rate, **cast("Any", given))
    own_name = stored_name(fn, name, "effect")
    is_async = inspect.iscoroutinefunction(fn)
    if not is_async and timeout is None:
        raise BadInput(
            f"effect {own_name!r}",
            "is not async, so Onward cannot stop it after a timeout",
            "Pass the time limit that its client library enforces: @effect(timeout=...)",
        )
    definition = EffectDefinition(
        own_name,
        fn,
        signature_of(fn),
        is_async,
        reconcile,
        retry,
        TIMEOUT if timeout is None else time_limit(timeout),
        SETTLE if settle is None else duration(settle),
        approve,
        None if rate is None else _interval(rate),
        START_WITHIN if start_within is None else duration(start_within),
        None if idempotency_window is None else duration(idempotency_window),
    )
    _check_memory(definition)
    check_reconciler(definition)
    define(registered, definition)
    return Effect(definition)


class _Decorator:
    """The type of `@effect(...)`: keeps the signature of what it decorates."""

    @overload
    def __call__(self, fn: Callable[P, Coroutine[Any, Any, R]], /) -> Effect[P, R]: ...
    @overload
    def __call__(self, fn: Callable[P, R], /) -> Effect[P, R]: ...
    def __call__(self, fn: Callable[..., Any], /) -> Any:
        """Decorate a function."""
        raise NotImplementedError


def _check_memory(definition: EffectDefinition) -> None:
    """See that what its author says of keys is of use.

    Raises:
        BadInput: it could never be sent again, or it is said twice what to do with doubt.
    """
    idempotency_window, reach = definition.idempotency_window, definition.terms.reach
    if idempotency_window is None:
        return
    what = f"effect {definition.name!r}"
    if definition.reconcile is not None:
        raise BadInput(
            what,
            "has both reconcile= and idempotency_window=, which cannot be combined",
            "Keep idempotency_window= if the receiver deduplicates by key; otherwise reconcile=",
        )
    if idempotency_window <= reach:
        raise BadInput(
            what,
            f"has idempotency_window={show(idempotency_window)}, but a call can take"
            f" {show(reach)} to arrive, so the effect could never be sent again",
            "Raise idempotency_window=, or lower start_within=, timeout= or settle=",
        )


def _interval(rate: str) -> Duration:
    read = read_rate(rate)
    interval = max(1, read.period // read.count)
    if interval > MAX_INTERVAL:
        raise BadInput(f"rate={rate!r}", "allows less than one send a day", 'Use "1/d" or more')
    return interval


def effect_key() -> str:
    """Return the idempotency key of the effect that is being sent.

    The key is the same in every attempt and retry, so a receiver that remembers keys applies the
    effect once. Call this right before you send, because it checks one last time that sending is
    still allowed. Outside a run, it returns a new key each time.

    Raises:
        TooLate: the send window has closed. Let this exception propagate.
        NotInBody: the caller is part of a run, but not the handler of an effect.

    Example:
        >>> from onward import effect_key
        >>> len(effect_key())
        32
    """
    sending = sending_now.get()
    if sending is not None:
        return check_key(sending)
    if body_now.get() is not None or step_now.get() is not None:
        raise NotInBody(
            "effect_key()",
            "was called outside an effect handler",
            "Call it in a function that is decorated with @effect",
        )
    return uuid4().hex
