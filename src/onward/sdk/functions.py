"""What can be made a workflow, a step or an effect, and the name under which it is stored."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

from onward.codec.names import check_name
from onward.core.instant import duration
from onward.errors import BadInput

if TYPE_CHECKING:
    from collections.abc import Callable

    from onward.core.instant import Duration, DurationLike


def stored_name(fn: object, name: str | None, kind: str) -> str:
    """Return the name of a function, if it can be a workflow, a step or an effect.

    Raises:
        BadInput: it cannot be called, has no name, or has more than one result.
    """
    if not callable(fn):
        raise BadInput(
            f"@{kind}", f"was given {fn!r}, which is not callable", "Decorate a function"
        )
    own = name or getattr(fn, "__name__", None)
    a_kind = f"an {kind}" if kind == "effect" else f"a {kind}"
    if own is None:
        raise BadInput(
            f"{a_kind} made from a {type(fn).__name__}",
            "has no name",
            f"Pass one: {kind}(name=...)",
        )
    if inspect.isgeneratorfunction(fn) or inspect.isasyncgenfunction(fn):
        raise BadInput(
            f"{kind} {own!r}",
            "is a generator, but a durable function returns one result",
            "Return a list instead",
        )
    return check_name(own, f"the name of {a_kind}")


def refuse_method(fn: Callable[..., Any], name: str) -> None:
    """Refuse to make a method a workflow: its runs go on in processes that have no such object.

    Raises:
        BadInput: it is one.
    """
    place = getattr(fn, "__qualname__", "").rpartition(".")[0]
    if not place or place.endswith("<locals>"):
        return
    if next(iter(inspect.signature(fn).parameters), "") in ("self", "cls"):
        raise BadInput(
            f"workflow {name!r}",
            f"is a method of {place.rpartition('.')[2]}, but a run has no object to call it on",
            "Make it a function; steps may be methods",
        )


def time_limit(timeout: DurationLike) -> Duration:
    """Return how long an attempt may take.

    Raises:
        BadInput: it is no duration, or none at all.
    """
    limit = duration(timeout)
    if not limit:
        raise BadInput(
            f"timeout={timeout!r}",
            "leaves no time at all",
            "Allow more time, or leave out the timeout",
        )
    return limit
