"""Reconcilers are checked where their effect is declared, not when one is first needed."""

from __future__ import annotations

import inspect
from inspect import Parameter, Signature
from typing import TYPE_CHECKING, Any

from onward.errors import BadInput

if TYPE_CHECKING:
    from collections.abc import Callable

    from onward.runtime.body.effects import EffectDefinition


def check_reconciler(definition: EffectDefinition) -> None:
    """See that a reconciler takes what it will be given, or it would never know anything.

    Raises:
        BadInput: it cannot be called with the arguments of the effect and `key=`, or the effect has
            an argument of that name itself.
    """
    reconcile: Any = definition.reconcile
    if reconcile is None:
        return
    what = f"effect {definition.name!r}"
    if not callable(reconcile):
        fact = f"has a reconcile= of type {type(reconcile).__name__}, which is not callable"
        raise BadInput(what, fact, "Pass a function: reconcile=find")
    given = _given(definition.fn)
    if any(each.name == "key" for each in given or ()):
        fact = "has a parameter named key, but its reconciler receives the effect key as key="
        raise BadInput(what, fact, "Give the parameter another name")
    # What a decorator wraps may take something else than what is called.
    takes = _signature(reconcile, follow_wrapped=False)
    if given is None or takes is None or _fits(given, takes):
        return
    name = getattr(reconcile, "__name__", type(reconcile).__name__)
    takes_all = takes.parameters.values()
    has_key = any(each.name == "key" or each.kind is each.VAR_KEYWORD for each in takes_all)
    missing = "the arguments of the effect" if has_key else "key="
    fact = f"has a reconciler {name}{takes} that does not take {missing}"
    right = Signature([*given, Parameter("key", Parameter.KEYWORD_ONLY)])
    raise BadInput(what, fact, f"Write it with the same parameters and key: def {name}{right}")


def _given(fn: Callable[..., Any]) -> list[Parameter] | None:
    """Return the parameters of an effect, without `self`; none if they are unknown."""
    signature = _signature(fn)
    if signature is None:
        return None
    given = list(signature.parameters.values())
    if any(each.kind in (each.VAR_POSITIONAL, each.VAR_KEYWORD) for each in given):
        return None
    if given and given[0].name == "self":
        return given[1:]
    # In a class the first one may be bound whatever its name, or it is a static method.
    is_in_class = "." in getattr(fn, "__qualname__", "").rpartition("<locals>.")[2]
    return None if is_in_class else given


def _signature(fn: Callable[..., Any], *, follow_wrapped: bool = True) -> Signature | None:
    """Return a signature by names and defaults alone; none if it cannot be read."""
    try:
        signature = inspect.signature(fn, follow_wrapped=follow_wrapped)
    except Exception:  # noqa: BLE001 - it may evaluate annotations, which name what comes later
        return None
    bare = [each.replace(annotation=Parameter.empty) for each in signature.parameters.values()]
    return Signature(bare)


def _fits(given: list[Parameter], takes: Signature) -> bool:
    needed = [each for each in given if each.default is Parameter.empty]
    try:
        for those in (given, needed):  # what a caller leaves to defaults is not passed on
            args = [None for each in those if each.kind is not Parameter.KEYWORD_ONLY]
            named = {each.name for each in those if each.kind is Parameter.KEYWORD_ONLY}
            takes.bind(*args, **dict.fromkeys(named | {"key"}))
    except TypeError:
        return False
    return True
