"""What clients ask of schedules: one method for each use case. Everything that crosses is data."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from onward.core.instant import Instant
    from onward.engine.client_engine import RunKey
    from onward.engine.schedules.views import ScheduleInfo, Slot
    from onward.model.schedules import ScheduleSpec


class ScheduleEngine(Protocol):
    """The schedules of an engine. A call raises `NotFound` if there is none of the name."""

    async def create(self, spec: ScheduleSpec) -> ScheduleInfo:
        """Create a schedule, or find the one that is the same.

        Raises:
            BadInput: it cannot be done, or another schedule has the name.
        """
        ...

    async def declare(self, spec: ScheduleSpec) -> ScheduleInfo:
        """Create a schedule as code declares it, or change what no operator has changed.

        Raises:
            BadInput: it cannot be done.
        """
        ...

    async def all(self) -> list[ScheduleInfo]:
        """Return all schedules by name."""
        ...

    async def get(self, name: str) -> ScheduleInfo:
        """Return one schedule."""
        ...

    async def update(self, name: str, changes: Mapping[str, Any]) -> ScheduleInfo:
        """Change fields of a `ScheduleSpec`.

        Raises:
            BadInput: it cannot be done.
        """
        ...

    async def pause(self, name: str) -> ScheduleInfo:
        """Let a schedule start no more runs."""
        ...

    async def resume(self, name: str) -> ScheduleInfo:
        """Let a schedule go on from now, whether it is paused or parked.

        Raises:
            BadInput: what broke it is still broken.
        """
        ...

    async def trigger(self, name: str) -> RunKey:
        """Start a run of a schedule now, whatever else it does."""
        ...

    async def backfill(
        self, name: str, start: Instant, before: Instant, *, dry_run: bool
    ) -> list[Slot]:
        """Start runs for slots that have passed without one, and return these slots.

        Raises:
            BadInput: there are too many of them.
        """
        ...

    async def delete(self, name: str) -> None:
        """Delete a schedule and the record of its slots; its runs stay."""
        ...

    async def preview(self, name: str, count: int, after: Instant | None) -> list[datetime]:
        """Return the next slots."""
        ...

    async def first_slots(self, spec: ScheduleSpec, count: int) -> list[datetime]:
        """Return the slots that a schedule would have from now, without creating it.

        Raises:
            BadInput: it cannot be done.
        """
        ...

    async def slots(self, name: str, limit: int) -> list[Slot]:
        """Return the latest slots that have a disposition, newest first."""
        ...
