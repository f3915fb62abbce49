"""What a worker asks for when it claims runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from onward.core.instant import Instant
from onward.core.run import ONE, Rooms

if TYPE_CHECKING:
    from onward.model.runs import ClaimedRun

NEVER: Instant = 2**63 - 1

ROW_BYTES = 500
"""About the size of a claimed run without its payloads."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a worker can take, and how much of it."""

    worker: str
    queues: tuple[str, ...]
    names: tuple[str, ...]
    limit: int
    version: str | None = None
    tags: tuple[str, ...] = ()
    suspects: Rooms = ONE
    """How many runs with which number of crashes; see `onward.core.run.suspects`."""
    limited: bool = False
    """Take runs that have a flow key too, as far as its limit allows."""
    max_bytes: int | None = None
    """How large the runs may be together, unless it is a single one; None: as large as they are."""
    latest: Instant = NEVER
    """Take no run that is due later than this, even if the database's clock says so by now."""


@dataclass(slots=True)
class ClaimNotes:
    """What a claim tells besides the runs that it returns."""

    was_repeated: bool = False
    """It was sent again because no reply came: the first one may have claimed other runs."""
    is_cut: bool = False
    """It could have taken more runs, but together they are too large."""


def size_of_run(run: ClaimedRun) -> int:
    """Return about how large a claimed run is; a claim measures it in the same way."""
    return ROW_BYTES + len(run.input or b"") + len(run.attributes or b"")
