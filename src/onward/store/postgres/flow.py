"""Claiming runs of limited flow on Postgres: hold the limits, then count, then take."""

from __future__ import annotations

from typing import TYPE_CHECKING

from onward.store.flow import RIPEN_MOST, Candidate, pick
from onward.store.rows import Claimed

if TYPE_CHECKING:
    from onward.store.database import Wanted
    from onward.store.postgres.transaction import PostgresTx


async def claim(tx: PostgresTx, wanted: Wanted) -> list[Claimed]:
    """Make runs with a flow key the worker's own, as far as the limits allow."""
    if not await tx.leased(wanted.worker):
        return []
    await tx.fetch("ripen", limit=RIPEN_MOST)
    limits = await tx.fetch("flow_keys", queues=wanted.queues)
    if not limits:
        return []
    rows = await tx.fetch(
        "flow_candidates",
        keys=[key for key, _ in limits],
        mosts=[most for _, most in limits],
        queues=wanted.queues,
        names=wanted.names,
        tags=wanted.tags,
        version=wanted.version,
        limit=wanted.limit,
        suspects=wanted.suspects,
    )
    rooms = {row[3]: row[4] for row in rows}
    uids = pick((Candidate._make(row[:4]) for row in rows), rooms, wanted.limit)
    if not uids:
        return []
    taken = await tx.fetch("take_runs", uids=uids, worker=wanted.worker)
    return [Claimed._make(row) for row in taken]
