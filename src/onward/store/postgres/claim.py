"""Claiming runs on Postgres: one statement, after those that choose runs under flow control."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING

from onward.core.flow import Candidate, FlowKind
from onward.core.lease import GAPS_A_LEASE, MAX_AHEAD
from onward.core.run import MAX_CRASHES, rooms_after
from onward.model.claims import ROW_BYTES
from onward.model.runs import ClaimedRun
from onward.store.runs.flow_claims import MAX_DUE, FlowClaim, offer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from onward.model.claims import ClaimNotes, Wanted
    from onward.store.postgres.transaction import PostgresTx
    from onward.store.runs.flow_claims import LaneQuery


async def claim(
    tx: PostgresTx, wanted: Wanted, notes: ClaimNotes, flow: FlowClaim | None = None
) -> list[ClaimedRun]:
    """Assign runs to the worker; those that `flow` chose have room in their locked limits."""
    limited = [] if flow is None else flow.chosen
    suspects = rooms_after(wanted.suspects, (run.crashes for run in limited))
    places: dict[int, count[int]] = {}
    rows = await tx.fetch(
        "claim" if wanted.max_bytes is None else "claim_sized",
        worker=wanted.worker,
        **offer(tx, wanted),
        limit=wanted.limit,
        max_bytes=wanted.max_bytes,
        row_bytes=ROW_BYTES,
        max_crashes=MAX_CRASHES,
        crashes=[crashes for crashes, _ in suspects],
        rooms=[room for _, room in suspects],
        gaps=GAPS_A_LEASE,
        ahead=MAX_AHEAD,
        latest=wanted.latest,
        limited_uid=[run.uid for run in limited],
        limited_priority=[run.priority for run in limited],
        limited_place=[next(places.setdefault(run.priority, count(1))) for run in limited],
        limited_due=[run.due for run in limited],
        holding=[] if flow is None else flow.holding(),
    )
    claimed = [ClaimedRun._make(row[:-1]) for row in rows]
    notes.is_cut = bool(rows) and rows[0][-1]
    if flow is not None and claimed:
        await flow.note({run.uid for run in claimed})
    return claimed


async def choose_limited(tx: PostgresTx, wanted: Wanted) -> FlowClaim:
    """Choose runs under flow control that may be claimed now, all of them or some.

    The rows of their limits stay locked until the transaction ends.
    """
    given = offer(tx, wanted)

    async def runs_of_lanes(
        queue: str, priority: int, lanes: Sequence[LaneQuery], /
    ) -> list[Candidate]:
        rows = await tx.fetch(
            "runs_of_lanes",
            **given,
            queue=queue,
            priority=priority,
            lane_keys=[each.lane.key for each in lanes],
            lane_names=[each.lane.name for each in lanes],
            lane_ranks=[each.rank for each in lanes],
            lane_limits=[each.limit for each in lanes],
        )
        return [Candidate._make(row) for row in rows]

    flow = FlowClaim(tx, wanted, runs_of_lanes)
    await flow.lock()
    await _control(tx, wanted, flow)
    await tx.fetch("make_due_ready", limit=MAX_DUE, latest=wanted.latest)
    await flow.choose()
    return flow


async def _control(tx: PostgresTx, wanted: Wanted, flow: FlowClaim) -> None:
    """Put runs under flow control whose queue or workflow has been limited since they started."""
    limited = [each for each, row in flow.flows.rows.items() if row.limits.restrict]
    if not limited:
        return
    rows = await tx.fetch(
        "runs_to_control",
        queues=wanted.queues,
        limit=wanted.limit,
        limited_queues=[each.name for each in limited if each.kind is FlowKind.QUEUE],
        limited_names=[each.name for each in limited if each.kind is FlowKind.WORKFLOW],
    )
    if rows:
        await tx.fetch("control_runs", uids=[row[0] for row in rows])
