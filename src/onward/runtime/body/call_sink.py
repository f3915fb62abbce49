"""The interface through which the body of a run makes its calls."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn, Protocol, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from onward.core.instant import Instant
    from onward.model.records import RecordRow
    from onward.runtime.body.calls import Call
    from onward.runtime.registry import Registry

ReadHistory: TypeAlias = "Callable[[str], Awaitable[Sequence[RecordRow]]]"
"""Reads the history of a run, by its uid."""


class CallSink(Protocol):
    """Who does what the code of a run asks for."""

    names: Registry
    """Whose the names of what it calls are."""

    def now(self) -> Instant:
        """Return the time of the database, or a little less."""
        ...

    def latest(self) -> Instant:
        """Return the time of the database, or a little more: much more after a late answer."""
        ...

    def do(self, call: Call) -> None:
        """Do what a call asks for: run a step, start a run, or wait."""

    def abandoned(self, call: Call) -> None:
        """Take note that the code has stopped waiting for a call."""

    def report_progress(self, value: bytes) -> None:
        """Publish how far the run is."""

    def read_history(self, run: str) -> Awaitable[Sequence[RecordRow]]:
        """Return the history of another run; only for steps, whose results are recorded."""
        ...


class ChoiceSink(Protocol):
    """What takes the calls of a body that may only choose one of them."""

    def take(self, call: Call, key: str | None) -> NoReturn:
        """Take a call, or refuse it; the code that makes it does not go on."""
        ...
