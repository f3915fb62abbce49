"""Coroutines that never wait."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from onward.errors import InvariantBroken

if TYPE_CHECKING:
    from collections.abc import Coroutine
    from typing import Any

T = TypeVar("T")


def drive(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine that never waits to its end, without an event loop."""
    try:
        work.send(None)
    except StopIteration as end:
        result: T = end.value
        return result
    work.close()
    raise InvariantBroken("a store function waited for something other than its transaction")
