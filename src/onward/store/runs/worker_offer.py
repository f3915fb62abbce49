"""Ready runs for which there is no worker."""

from __future__ import annotations

from typing import TYPE_CHECKING

from onward.core.run import RunState
from onward.model.runs import RunRow
from onward.model.workers import Renewal, RunNeeds, Unserved, WorkerOffer, why_not

if TYPE_CHECKING:
    from onward.core.instant import Duration
    from onward.store.database import Tx


async def unserved(tx: Tx, limit: int) -> list[Unserved]:
    """Return runs that no live worker can take, with the reason."""
    servers = [_server(*row) for row in await tx.fetch("live_workers")]
    found: list[Unserved] = []
    for needs in sorted(await _needs(tx), key=str):
        why = why_not(needs, servers)
        if why is not None and len(found) < limit:
            given = needs._asdict() | {"limit": limit - len(found)}
            runs = [*await tx.fetch("ready_in_need", **given)]
            runs += await tx.fetch("others_in_need", **given)
            found += [await _unserved(tx, RunRow._make(run), why) for run in runs]
    return found[:limit]


async def late_runs(tx: Tx, age: Duration, limit: int) -> list[RunRow]:
    """Return runs that have been ready for long, the latest first."""
    found: list[RunRow] = []
    for needs in await _needs(tx):
        given = needs._asdict() | {"age": age, "limit": limit}
        found += map(RunRow._make, await tx.fetch("late_in_need", **given))
    return sorted(found, key=lambda run: (run.due or 0, run.uid))[:limit]


async def _needs(tx: Tx) -> set[RunNeeds]:
    """Return what runs that could be claimed require of a worker."""
    found = {RunNeeds._make(row) for row in await tx.fetch("rare_needs")}
    last = {"queue": "", "name": "", "tags": ""}
    while rows := await tx.fetch("next_needs", **last):
        queue, name, tags, _ = rows[0]
        last = {"queue": queue, "name": name, "tags": tags}
        if await tx.fetch("ready_in_need", **last, version=None, limit=1):
            found.add(RunNeeds(queue, name, None, tags))
        version = ""
        while rows := await tx.fetch("next_version_needed", **last, after=version):
            version = rows[0][0]
            found.add(RunNeeds(queue, name, version, tags))
    return found


async def _unserved(tx: Tx, run: RunRow, why: str) -> Unserved:
    if run.state != RunState.RUNNING or run.worker is None:
        return Unserved(run, why)
    return Unserved(run, f"{(await last_renewal(tx, run.worker)).why_gone}, and {why}")


async def last_renewal(tx: Tx, worker: str) -> Renewal:
    """Return when a worker last renewed its lease."""
    rows = await tx.fetch("lease_of", worker=worker)
    if not rows:
        return Renewal(worker)
    at, is_alive, length, now = rows[0]
    return Renewal(worker, at, bool(is_alive), length, now)


async def why_unserved(tx: Tx, run: RunRow) -> str | None:
    """Return why no live worker can take a run; None if one can."""
    servers = [_server(*row) for row in await tx.fetch("live_workers")]
    return why_not(RunNeeds(run.queue, run.name, run.version, run.tags), servers)


def _server(queues: str, names: str, version: str | None, tags: str, worker: str) -> WorkerOffer:
    parts = (frozenset(text.split("\n")) for text in (queues, names, tags))
    served, known, marked = parts
    return WorkerOffer(served, known, version, marked, worker)
