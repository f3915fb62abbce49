"""Limits: how many more runs of a queue, a workflow or a key may run."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from onward.core.flow.rate import starts_left

if TYPE_CHECKING:
    from collections.abc import Iterable

    from onward.core.flow.rate import Rate, Starts
    from onward.core.instant import Instant


class FlowKind(StrEnum):
    """What a limit is about."""

    QUEUE = "queue"
    WORKFLOW = "workflow"
    KEY = "key"
    EFFECT = "effect"


class FlowId(NamedTuple):
    """A queue, a workflow, a key of the queue `scope`, or an effect."""

    kind: FlowKind
    name: str
    scope: str = ""


class Hold(StrEnum):
    """Which runs a limit counts."""

    RUNNING = "running"
    """Those that a worker executes."""
    OPEN = "open"
    """Those between their first claim and their end, also while they wait."""


class FlowLimits(NamedTuple):
    """What is in force for a queue, a workflow or a key."""

    max: int | None = None
    rate: Rate | None = None
    hold: Hold = Hold.RUNNING
    is_paused: bool = False

    @property
    def restrict(self) -> bool:
        """Whether any run is kept from running by them."""
        return self.is_paused or self.max is not None or self.rate is not None


class Room(NamedTuple):
    """How many more runs may be claimed; None: any number.

    A run that was claimed before is not a new start. If its slot is held while it waits, it needs
    no new one either.
    """

    slots: int | None = None
    starts: int | None = None
    holds_open: bool = False
    is_paused: bool = False

    def fits(self, *, begun: bool) -> bool:
        """Return whether one more run may be claimed."""
        if self.is_paused:
            return False
        has_slot = self.slots is None or self.slots > 0 or (begun and self.holds_open)
        return has_slot and (self.starts is None or self.starts > 0 or begun)

    def after(self, *, begun: bool) -> Room:
        """Return what is left once a run was claimed."""
        slots, starts = self.slots, self.starts
        if slots is not None and not (begun and self.holds_open):
            slots -= 1
        if starts is not None and not begun:
            starts -= 1
        return self._replace(slots=slots, starts=starts)


Rooms: TypeAlias = Mapping[FlowId, Room]


def room_of(limits: FlowLimits, counted: int, starts: Starts, now: Instant) -> Room:
    """Return how many more runs may be claimed.

    Args:
        limits: What is in force.
        counted: How many runs are running, or hold a slot.
        starts: The latest starts.
        now: The time.
    """
    return Room(
        None if limits.max is None else max(0, limits.max - counted),
        None if limits.rate is None else starts_left(limits.rate, starts, now),
        limits.hold is Hold.OPEN,
        limits.is_paused,
    )


def take(rooms: dict[FlowId, Room], flows: Iterable[FlowId], *, begun: bool) -> bool:
    """Take room for one run in all its flows, or in none; return whether there was room."""
    found = [(flow, rooms[flow]) for flow in flows if flow in rooms]
    if not all(room.fits(begun=begun) for _, room in found):
        return False
    rooms.update((flow, room.after(begun=begun)) for flow, room in found)
    return True
