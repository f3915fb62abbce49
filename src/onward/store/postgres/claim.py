"""Claiming runs on Postgres: one statement, after the limits are locked and counted."""

from __future__ import annotations

from typing import TYPE_CHECKING

from onward.core.lease import GAPS_A_LEASE, MAX_AHEAD
from onward.core.run import MAX_CRASHES, SUSPECT_AT, rooms_after, suspect
from onward.model.runs import ClaimedRun
from onward.store.runs.limits import MAX_DUE, Candidate, pick, pick_suspects

if TYPE_CHECKING:
    from collections.abc import Sequence

    from onward.model.claims import Wanted
    from onward.store.postgres.transaction import PostgresTx


async def claim(
    tx: PostgresTx, wanted: Wanted, limited: Sequence[Candidate] = ()
) -> list[ClaimedRun]:
    """Assign runs to the worker; those in `limited` this transaction has locked already."""
    suspects = rooms_after(wanted.suspects, (run.crashes for run in limited))
    rows = await tx.fetch(
        "claim",
        worker=wanted.worker,
        **_offer(wanted),
        max_crashes=MAX_CRASHES,
        crashes=[crashes for crashes, _ in suspects],
        rooms=[room for _, room in suspects],
        gaps=GAPS_A_LEASE,
        ahead=MAX_AHEAD,
        latest=wanted.latest,
        limited_uid=[run.uid for run in limited],
        limited_priority=[run.priority for run in limited],
        limited_due=[run.due for run in limited],
    )
    return [ClaimedRun._make(row) for row in rows]


async def choose_limited(tx: PostgresTx, wanted: Wanted) -> list[Candidate]:
    """Return runs with a flow key that may be claimed now, all of them or some.

    They and their limits stay locked until the transaction ends.
    """
    await tx.fetch("make_due_ready", limit=MAX_DUE, latest=wanted.latest)
    limits = await tx.fetch("limited_keys", queues=wanted.queues)
    if not limits:
        return []
    rows = await tx.fetch(
        "limited_candidates",
        keys=[key for key, _ in limits],
        max_running=[maximum for _, maximum in limits],
        **_offer(wanted),
    )
    rooms = {row[3]: row[5] for row in rows}
    found = [Candidate._make(row[:5]) for row in rows]
    suspects = [run for run in found if suspect(run.crashes)]
    others = [run for run in found if not suspect(run.crashes)]
    taken = pick_suspects(suspects, rooms, wanted.suspects)
    return pick([*others, *taken], rooms, wanted.limit)


def _offer(wanted: Wanted) -> dict[str, object]:
    return {
        "queues": wanted.queues,
        "names": wanted.names,
        "tags": wanted.tags,
        "version": wanted.version,
        "limit": wanted.limit,
        "suspect_at": SUSPECT_AT,
    }
