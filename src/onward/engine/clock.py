"""The store's time beside the machine's clock, for operators."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from onward.core.file_time import TOLERATED
from onward.core.instant import Duration, Instant
from onward.store.runs import clock_steps
from onward.store.runs.clock_steps import steps_in_force

if TYPE_CHECKING:
    from onward.store.store import Store


class Reading(NamedTuple):
    """Both clocks, read together.

    `timers` is how many runs of the namespace wait for a timer that they set while the store's time
    was ahead of what the machine's clock says now. `added` is by how much waits last longer because
    workers saw the clock being set forward.
    """

    store: Instant
    machine: Instant
    timers: int
    added: Duration

    @property
    def ahead(self) -> Duration:
        """How far the store's time is ahead of the machine's clock; negative if it is behind."""
        return self.store - self.machine

    @property
    def agrees(self) -> bool:
        """Whether the difference is too small to matter."""
        return abs(self.ahead) <= TOLERATED


async def read_clock(store: Store) -> Reading:
    """Return the time of both clocks."""
    now = await store.now()
    machine = store.machine_time()
    added = sum(each.step for each in await store.read(steps_in_force))
    return Reading(now, machine, await store.timers_set_after(machine), added)


async def retime(store: Store) -> list[str]:
    """Let waits count from now that were set while the store's time was ahead.

    Returns:
        The ids of their runs.
    """
    return [(await store.run(uid)).id for uid in await store.retime()]


async def accept_steps(store: Store) -> Duration:
    """Let the time count that the clock left out when it was set forward.

    Returns:
        By how much waits that began before were longer.
    """
    return await store.write(clock_steps.accept_steps)


async def reset_clock(store: Store) -> Reading:
    """Set the store's time to the machine's clock, and return both as they were before.

    Timers keep their due times. Running workers follow with their next transaction.

    Raises:
        StoreUnusable: the database has a clock of its own.
    """
    before = await read_clock(store)
    ahead = await store.reset_clock()
    return before._replace(store=before.machine + ahead)
