"""Ready runs for which there is no worker."""

from __future__ import annotations

from typing import TYPE_CHECKING

from onward.core.run import RunState
from onward.model.runs import RunRow
from onward.model.workers import Renewal, RunNeeds, Unserved, WorkerOffer, why_not

if TYPE_CHECKING:
    from onward.store.database import Tx


async def unserved(tx: Tx, limit: int) -> list[Unserved]:
    """Return runs that no live worker can take, with the reason."""
    servers = [_server(*row) for row in await tx.fetch("live_workers")]
    found: list[Unserved] = []
    for row in await tx.fetch("kinds_to_claim"):
        kind = RunNeeds._make(row)
        why = why_not(kind, servers)
        if why is not None and len(found) < limit:
            left = limit - len(found)
            runs = await tx.fetch("runs_to_claim", limit=left, **kind._asdict())
            found += [await _unserved(tx, RunRow._make(run), why) for run in runs]
    return found


async def _unserved(tx: Tx, run: RunRow, why: str) -> Unserved:
    if run.state != RunState.RUNNING or run.worker is None:
        return Unserved(run, why)
    return Unserved(run, f"{(await last_renewal(tx, run.worker)).why_gone}, and {why}")


async def last_renewal(tx: Tx, worker: str) -> Renewal:
    """Return when a worker last renewed its lease."""
    rows = await tx.fetch("lease_of", worker=worker)
    return Renewal(worker, rows[0][0], bool(rows[0][1])) if rows else Renewal(worker)


async def why_unserved(tx: Tx, run: RunRow) -> str | None:
    """Return why no live worker can take a run; None if one can."""
    servers = [_server(*row) for row in await tx.fetch("live_workers")]
    return why_not(RunNeeds(run.queue, run.name, run.version, run.tags), servers)


def _server(queues: str, names: str, version: str | None, tags: str) -> WorkerOffer:
    parts = (frozenset(text.split("\n")) for text in (queues, names, tags))
    served, known, marked = parts
    return WorkerOffer(served, known, version, marked)
