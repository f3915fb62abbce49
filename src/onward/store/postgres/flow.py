"""Choosing runs of limited flow on Postgres: hold the limits, then count."""

from __future__ import annotations

from typing import TYPE_CHECKING

from onward.core.run import SUSPECT_AT, suspect
from onward.store.runs.flow import MAX_RIPEN, Candidate, pick, pick_suspects

if TYPE_CHECKING:
    from onward.model.claims import Wanted
    from onward.store.postgres.transaction import PostgresTx


async def choose(tx: PostgresTx, wanted: Wanted) -> list[Candidate]:
    """Return runs with a flow key that may be claimed now, all of them or some.

    They and their limits are held until the transaction ends.
    """
    await tx.fetch("ripen", limit=MAX_RIPEN)
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
        suspect_at=SUSPECT_AT,
    )
    rooms = {row[3]: row[5] for row in rows}
    found = [Candidate._make(row[:5]) for row in rows]
    suspects = [run for run in found if suspect(run.crashes)]
    others = [run for run in found if not suspect(run.crashes)]
    taken = pick_suspects(suspects, rooms, wanted.suspects)
    return pick([*others, *taken], rooms, wanted.limit)
