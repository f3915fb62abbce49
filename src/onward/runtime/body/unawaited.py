"""Reports coroutines that a body made and never awaited, such as a step without `await`.

Python calls a function of `warnings` for every coroutine that is freed before it began. A worker
puts its own in front of it, so that nothing is counted where steps are called.
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any, Self

from onward.runtime.body.divergence import origin_of, place_now, place_of_code
from onward.runtime.context import body_now
from onward.telemetry.events import emit
from onward.telemetry.scope import scope_now

if TYPE_CHECKING:
    from onward.runtime.body.divergence import Place

_HOOK = "_warn_unawaited_coroutine"


def report_coroutines() -> None:
    """Let coroutines that bodies of this process do not await be reported, from now on."""
    before: Any = getattr(warnings, _HOOK, None)
    if before is None or (isinstance(before, type) and issubclass(before, _Reported)):
        return

    class Reported(_Reported):
        # Python's own function, which prints a warning with the line of its caller. To construct
        # an object is the way to call it after our code without being that caller.
        __init__ = staticmethod(before)

    setattr(warnings, _HOOK, Reported)


class _Reported:
    """What Python calls with a coroutine that is freed."""

    def __new__(cls, coro: Any) -> Self:
        name = _called(coro)
        if name is not None:
            coro.__qualname__ = name
        body, scope = body_now.get(), scope_now.get()
        if body is not None and scope is not None and not scope.silent:
            where = origin_of(coro) or place_now() or _begin(body)
            emit("run.unawaited", scope, calls=coro.__qualname__, where=str(where or ""))
        return super().__new__(cls)


def _begin(body: Any) -> Place | None:
    """Return where a body begins: what is freed with its frame has no line any more."""
    main = getattr(body, "main", None)
    return place_of_code(None if main is None else getattr(main.get_coro(), "cr_code", None))


def _called(coro: Any) -> str | None:
    """Return the name of the step, effect or workflow whose call a coroutine is."""
    frame = coro.cr_frame
    if frame is None or not frame.f_globals.get("__name__", "").startswith("onward.sdk."):
        return None
    name = getattr(frame.f_locals.get("self"), "name", None)
    return name if isinstance(name, str) else None
