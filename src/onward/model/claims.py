"""What a worker asks for when it claims runs."""

from __future__ import annotations

from dataclasses import dataclass

from onward.core.instant import Instant
from onward.core.run import ONE, Rooms

NEVER: Instant = 2**63 - 1


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
    """About how large the runs may be together; None: as large as they are."""
    latest: Instant = NEVER
    """Take no run that is due later than this, even if the database's clock says so by now."""
