"""Ready runs for which there is no worker."""

from __future__ import annotations

from typing import TYPE_CHECKING

from onward.model.runs import RunRow
from onward.model.workers import RunNeeds, Unserved, WorkerOffer, why_not

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
            found += [Unserved(RunRow._make(run), why) for run in runs]
    return found


async def why_unserved(tx: Tx, run: RunRow) -> str | None:
    """Return why no live worker can take a run; None if one can."""
    servers = [_server(*row) for row in await tx.fetch("live_workers")]
    return why_not(RunNeeds(run.queue, run.name, run.version, run.tags), servers)


def _server(queues: str, names: str, version: str | None, tags: str) -> WorkerOffer:
    parts = (frozenset(text.split("\n")) for text in (queues, names, tags))
    served, known, marked = parts
    return WorkerOffer(served, known, version, marked)
