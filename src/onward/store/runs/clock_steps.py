"""Steps of the database's clock on record, as functions of a transaction."""

from __future__ import annotations

from typing import TYPE_CHECKING

from onward.core.clock_steps import ClockStep, to_record
from onward.core.value import changed

if TYPE_CHECKING:
    from onward.core.clock_steps import SeenStep
    from onward.core.instant import Duration, Instant
    from onward.store.database import Tx


async def time_and_latest_step(tx: Tx) -> tuple[Instant, int]:
    """Return the database's time and the number of the latest step on record by then."""
    [[now, last]] = await tx.fetch("time_and_latest_step")
    return int(now), int(last)


async def latest_step(tx: Tx) -> int:
    """Return the number of the latest step on record."""
    [[last, _]] = await tx.fetch("recorded_steps", after=0)
    return int(last)


async def record_step(tx: Tx, worker: str, known: int, seen: SeenStep) -> int:
    """Record a step that a worker saw, unless another worker has done so.

    A worker without its lease records nothing, nor does one that only believes in a step because
    its own machine stood still: another worker renewed its lease at a time that was left out.

    Args:
        tx: The transaction.
        worker: The worker.
        known: The number of the latest step that it knows.
        seen: What it saw.

    Returns:
        The number of the latest step on record.
    """
    await tx.fetch("lock_clock_steps")
    [[_, recorded]] = await tx.fetch("recorded_steps", after=known)
    after, before = seen.left_out
    if not await tx.leased(worker) or await tx.fetch(
        "renewed_between", worker=worker, after=after, before=before
    ):
        return await latest_step(tx)
    added = to_record(seen, recorded, await steps_in_force(tx))
    for each in added:
        await _add(tx, each, seen.before)
    if seen.step < 0 and (added or recorded < 0):
        # Also if another worker recorded it: this one may have parked runs by the old time since.
        await tx.fetch("look_again")
    return await latest_step(tx)


async def steps_in_force(tx: Tx) -> list[ClockStep]:
    """Return what steps forward have added so far, the newest first."""
    return [ClockStep(*row) for row in await tx.fetch("steps_in_force")]


async def accept_steps(tx: Tx) -> Duration:
    """Let waits end as if no step had added to them; return what had been added."""
    await tx.fetch("lock_clock_steps")
    added = await steps_in_force(tx)
    for each in added:
        await _add(tx, changed(each, step=-each.step), 0)
    if added:
        await tx.fetch("replay_again")
    return sum(each.step for each in added)


async def _add(tx: Tx, each: ClockStep, due_after: Instant) -> None:
    given = {"began_by": each.began_by, "step": each.step}
    await tx.fetch("add_clock_step", **given)
    await tx.fetch("delay_starts", due_after=due_after, **given)
    await tx.fetch("delay_deadlines", due_after=due_after, **given)
