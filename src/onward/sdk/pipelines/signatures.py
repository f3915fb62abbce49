"""How Onward calls producers and the methods of consumers, and whether they can be called so."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

from onward.core.handler import HandlerKind
from onward.sdk.pipelines.consumer import Consumer

if TYPE_CHECKING:
    from collections.abc import Callable

METHODS = {
    "prepare": ("ctx", "state"),
    "mutate": ("ctx", "prepared"),
    "next": ("ctx", "prepared", "outcome"),
}
_PRODUCER = ("ctx", "state")


def method_of(kind: Any, name: str) -> Callable[..., Any] | None:
    """Return a method of a consumer without its `self`, if the class has one of its own."""
    found = inspect.getattr_static(kind, name, None)
    if found is None or found is vars(Consumer).get(name):
        return None
    bound: Callable[..., Any] = found.__get__(kind, kind) if hasattr(found, "__get__") else found
    return bound


def call_problem(kind: HandlerKind, method: str, fn: Any) -> str | None:
    """Return why a producer, or a method of a consumer, cannot be called as it will be."""
    given = _PRODUCER if kind is HandlerKind.PRODUCER else METHODS[method]
    subject = f"has a {method} method that" if method else "is a function that"
    if not callable(fn):
        return f"has {fn!r} as {method or 'its function'}, which is not callable. Write a function"
    if inspect.isasyncgenfunction(fn) or inspect.isgeneratorfunction(fn):
        return f"{subject} yields. Return one value instead"
    if not inspect.iscoroutinefunction(fn):
        return f"{subject} is not async. Write it as async def"
    signature = inspect.signature(fn)
    try:
        signature.bind(*given)
    except TypeError:
        wanted = ", ".join(given)
        return f"{subject} takes {signature}, but is called with ({wanted}). Change its parameters"
    return None
