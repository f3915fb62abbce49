"""Calls of code that is not ours, which must not harm a run: errors are caught, and logged once."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from onward.telemetry.events import emit, where_of
from onward.telemetry.interrupts import is_interrupt

if TYPE_CHECKING:
    from types import TracebackType


class Guard:
    """Remembers which calls have failed, so that each is logged once and not a thousand times."""

    def __init__(self) -> None:
        self._told: set[str] = set()

    def failed(self, call: str, error: BaseException) -> None:
        """Log that a call failed, unless it has before."""
        if call not in self._told:
            self._told.add(call)
            emit("telemetry.failed", cause=error, call=call, where=where_of(error))

    def harmless(self, call: str) -> Harmless:
        """Log what is raised inside a `with`, and raise nothing."""
        return Harmless(self, call)


class Harmless:
    """A block of code whose errors go to a guard."""

    __slots__ = ("_call", "_guard")

    def __init__(self, guard: Guard, call: str) -> None:
        self._guard = guard
        self._call = call

    def __enter__(self) -> None:
        pass

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool:
        if error is None or isinstance(error, asyncio.CancelledError) or is_interrupt(error):
            return False
        self._guard.failed(self._call, error)
        return True
