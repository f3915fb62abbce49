"""Maintenance of runs and workers, as functions of a transaction."""

from __future__ import annotations

from typing import TYPE_CHECKING

from onward.core.lease import GONE_WORKERS_KEPT, MAX_AHEAD, Lease, may_share
from onward.core.slot import AHEAD_TOLERATED
from onward.model.maintenance import MaintenanceDue
from onward.model.workers import RunNeeds, why_not
from onward.store.hints import queue_subject, run_subject

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from onward.core.instant import Duration
    from onward.model.workers import WorkerOffer
    from onward.store.database import Tx


async def maintenance_due(tx: Tx, worker: str) -> MaintenanceDue:
    given = {"worker": worker, "tolerated": AHEAD_TOLERATED}
    [[at, latest_step, *there]] = await tx.fetch("maintenance_due", **given)
    return MaintenanceDue(at, latest_step, *map(bool, there))


async def disown(tx: Tx, worker: str, runs: Iterable[tuple[str, int]]) -> set[str]:
    """Release runs that a worker does not know, by uid and fence; return the hints to publish."""
    subjects: set[str] = set()
    if await tx.leased(worker):
        for uid, fence in sorted(runs):
            rows = await tx.fetch("disown", uid=uid, worker=worker, fence=fence)
            subjects |= {queue_subject(row[0]) for row in rows}
    return subjects


async def has_other_workers(tx: Tx, worker: str) -> bool:
    """Return whether another worker is alive."""
    found = await tx.fetch("leases")
    leases = [(row[0], Lease(*row[1:4])) for row in found]
    return bool(found) and may_share(leases, worker, now=found[0][4])


async def release(
    tx: Tx, worker: str, runs: Mapping[str, int], length: Duration
) -> tuple[dict[str, int], set[str]]:
    """Release runs of a worker that may be writing for them; it keeps its lease.

    Writes of steps do not lock the row of their run. So the lease is deleted, which waits for those
    under way, and taken anew in the same transaction. A write that has begun meanwhile finds the
    old lease deleted, and a later one finds other fences.

    Returns:
        The runs that were released, with the fences that the worker had, and the hints to publish.
    """
    released: dict[str, int] = {}
    subjects: set[str] = set()
    if not await tx.fetch("drop_lease", worker=worker):
        return released, subjects
    await tx.fetch("take_lease", worker=worker, length=length)
    for uid, fence in sorted(runs.items()):
        for row in await tx.fetch("disown", uid=uid, worker=worker, fence=fence):
            released[uid] = fence
            subjects.add(queue_subject(row[0]))
    return released, subjects


async def note_blocked(tx: Tx, worker: str, uid: str, error: bytes) -> None:
    """Store an error of a run that its worker still has."""
    if await tx.leased(worker):
        await tx.fetch("note_blocked", uid=uid, worker=worker, error=error)


async def resign(tx: Tx, worker: str, held: Mapping[str, int]) -> tuple[list[str], set[str]]:
    """Release all runs of a worker whose lease is lost, and forgive their crashes.

    `held` has the fence of every run that the worker had. One that another worker has adopted since
    counted a crash, though nothing crashed.

    Returns:
        The runs that were released, and the hints to publish.
    """
    listed = {row[0]: row[1] for row in await tx.fetch("runs_of_worker", worker=worker)}
    await tx.lock({*listed, *held})
    released: list[str] = []
    subjects: set[str] = set()
    for uid, fence in sorted(listed.items()):
        for row in await tx.fetch("disown", uid=uid, worker=worker, fence=fence):
            released.append(uid)
            subjects.add(queue_subject(row[0]))
    for uid, fence in sorted(held.items()):
        if uid not in listed:
            await tx.fetch("forgive_crash", uid=uid, fence=fence + 1)
    return released, subjects


async def retime(tx: Tx) -> tuple[list[str], set[str]]:
    """Restart waits and delayed starts that were set while the clock was ahead.

    So none of them ends early, however long the clock was ahead.

    Returns:
        The runs whose waits were changed, and the hints to publish.
    """
    found = [row[0] for row in await tx.fetch("runs_set_ahead", ahead=MAX_AHEAD)]
    delays = {row[0]: row[1] for row in await tx.fetch("starts_set_ahead", ahead=MAX_AHEAD)}
    await tx.lock({*found, *delays})
    subjects: set[str] = set()
    retimed = []
    for uid, delay in sorted(delays.items()):
        for row in await tx.fetch("retime_start", uid=uid, delay=delay):
            retimed.append(uid)
            subjects.add(queue_subject(row[0]))
    for uid in sorted(found):
        for row in await tx.fetch("retime_run", uid=uid):
            await tx.fetch("retime_records", uid=uid, ahead=MAX_AHEAD)
            await tx.fetch("retime_effects", uid=uid, ahead=MAX_AHEAD)
            retimed.append(uid)
            subjects |= {queue_subject(row[0]), run_subject(uid)}
    return retimed, subjects


async def parked(
    tx: Tx, codes: Mapping[str, str], server: WorkerOffer | None = None
) -> list[tuple[str, str]]:
    """Return runs that only other code has parked, each with the code that parked it."""
    found = [(row[0], row[1], RunNeeds._make(row[2:])) for row in await tx.fetch("diverged_runs")]
    return sorted(
        (uid, parked_by)
        for uid, parked_by, kind in found
        if kind.name in codes
        and codes[kind.name] not in parked_by.split(" ")
        and (server is None or why_not(kind, [server]) is None)
    )


async def unpark(
    tx: Tx, codes: Mapping[str, str], server: WorkerOffer | None = None
) -> tuple[int, set[str]]:
    """Make runs ready that other code has parked; return how many, and the hints to publish.

    `codes` has the code of each workflow that a worker brings. A run that this very code has
    parked stays parked, and so does one that the worker `server` would not take: the worker that
    takes it instead would only park it again.
    """
    count, subjects = 0, set[str]()
    for uid, parked_by in await parked(tx, codes, server):
        rows = await tx.fetch("unpark_run", uid=uid, parked_by=parked_by)
        count += len(rows)
        for row in rows:
            subjects |= {queue_subject(row[0]), run_subject(uid)}
    return count, subjects


async def keep_progress(tx: Tx, worker: str, uid: str, fence: int, value: bytes) -> bool:
    """Store the progress of a run; return whether the worker still owns it."""
    if not await tx.leased(worker):
        return False
    given = {"uid": uid, "worker": worker, "fence": fence, "value": value}
    return bool(await tx.fetch("keep_progress", **given))


async def gone_workers(tx: Tx, limit: int) -> list[str]:
    """Return workers that died, or that left long enough ago to be removed."""
    rows = await tx.fetch("gone_workers", kept=GONE_WORKERS_KEPT, limit=limit)
    return [row[0] for row in rows]


async def remove_workers(tx: Tx, workers: Iterable[str]) -> int:
    """Remove the rows of workers that left long ago, and mark dead ones; return how many went.

    A worker that died leaves no date, so its row is kept from when it is first found dead.
    """
    removed = 0
    for worker in workers:
        removed += len(await tx.fetch("remove_worker", worker=worker, kept=GONE_WORKERS_KEPT))
        await tx.fetch("mark_worker_gone", worker=worker)
    return removed
