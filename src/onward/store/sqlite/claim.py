"""Claiming runs on SQLite: the transaction has the file to itself while it chooses."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, Any, NamedTuple

from onward.core.flow import Candidate
from onward.core.lease import GAPS_A_LEASE, MAX_AHEAD
from onward.core.run import MAX_CRASHES, rooms_after
from onward.model.claims import ROW_BYTES
from onward.model.runs import ClaimedRun
from onward.store.runs.flow_claims import MAX_DUE, FlowClaim, offer

if TYPE_CHECKING:
    from collections.abc import Container, Sequence

    from onward.core.instant import Instant
    from onward.model.claims import ClaimNotes, Wanted
    from onward.store.runs.flow_claims import LaneQuery
    from onward.store.sqlite.transaction import SqliteTx


class _Run(NamedTuple):
    """A run that may be claimed; `vanished` is the worker that had it."""

    uid: str
    priority: int
    rank: int
    due: Instant
    queue: str
    name: str
    vanished: str | None = None


async def claim(
    tx: SqliteTx, wanted: Wanted, dead: Sequence[str], notes: ClaimNotes
) -> list[ClaimedRun]:
    """Assign runs to the worker; the leases of `dead` workers end here."""
    tx.rows("clip_leases", worker=wanted.worker, ahead=MAX_AHEAD)
    tx.rows("expire_leases", worker=wanted.worker, gaps=GAPS_A_LEASE)
    for worker in dead:
        tx.rows("drop_lease", worker=worker)
    if not tx.rows("lease_here", worker=wanted.worker):
        return []
    given = offer(tx, wanted) | {"limit": wanted.limit, "latest": wanted.latest}
    given["max_crashes"] = MAX_CRASHES
    free, adopted = _candidates(tx, wanted, given)
    restricting = {(kind, name): paused for kind, name, paused in tx.rows("restricting_flows")}
    paused = {flow for flow, is_paused in restricting.items() if is_paused}
    limited = [run for run in free if _is_in(restricting, run)] if restricting else []
    _control(tx, limited)
    flow = await _choose_limited(tx, wanted) if wanted.limited or limited else None
    adopted += _suspects(tx, wanted, given, flow)
    if restricting:
        _control(tx, [run for run in adopted if run.vanished is None and _is_in(restricting, run)])
        free = [run for run in free if not _is_in(restricting, run)]
        adopted = [
            run
            for run in adopted
            if not _is_in(paused if run.vanished is not None else restricting, run)
        ]
    ready_at = _merged(wanted.limit, free, adopted, [] if flow is None else flow.chosen)
    if not ready_at:
        return []
    if wanted.max_bytes is not None:
        found, ready_at = ready_at, _fitting(tx, ready_at, wanted.max_bytes)
        notes.is_cut = len(ready_at) < len(found)
    tx.write_rows("claim_run", [(uid,) for uid in ready_at], worker=wanted.worker)
    if flow is not None:
        tx.rows("hold_places", uids=tx.array([uid for uid in flow.holding() if uid in ready_at]))
        await flow.note(ready_at)
    rows = tx.rows("claimed_runs", ready_at=tx.mapping(ready_at))
    taken_from = {run.uid: run.vanished for run in adopted}
    return [ClaimedRun._make((*row, taken_from.get(row[0]))) for row in rows]


def _candidates(
    tx: SqliteTx, wanted: Wanted, given: dict[str, object]
) -> tuple[list[_Run], list[_Run]]:
    """Return runs that nothing limits, as far as is known, and those whose workers vanished."""
    rows: list[Any] = [
        row for queue in wanted.queues for row in tx.rows("ready_candidates", queue=queue, **given)
    ]
    rows += tx.rows("due_candidates", **given)
    orphans = [_Run(*row) for row in tx.rows("orphan_candidates", **given)]
    return [_Run(*row) for row in rows], orphans


def _suspects(
    tx: SqliteTx, wanted: Wanted, given: dict[str, object], flow: FlowClaim | None
) -> list[_Run]:
    taken = () if flow is None else (run.crashes for run in flow.chosen)
    for crashes, room in rooms_after(wanted.suspects, taken):
        rows = tx.rows("suspect_candidates", crashes=crashes, room=room, **given)
        if rows:
            return [_Run(*row) for row in rows]
    return []


def _control(tx: SqliteTx, runs: list[_Run]) -> None:
    """Put runs under flow control whose queue or workflow has been limited since they started."""
    if runs:
        tx.rows("control_runs", uids=tx.array([run.uid for run in runs]))


def _is_in(flows: Container[tuple[str, str]], run: _Run) -> bool:
    return ("queue", run.queue) in flows or ("workflow", run.name) in flows


def _merged(
    limit: int, free: list[_Run], adopted: list[_Run], chosen: list[Candidate]
) -> dict[str, Instant]:
    """Return the runs to claim, each with the time since when it could have been claimed.

    Of one priority, runs that nothing limits and those under flow control are claimed in turn.
    """
    free.sort(key=lambda run: (-run.priority, run.rank, run.due))
    places: dict[int, count[int]] = {}
    found = [(-run.priority, 0, 0, run.uid) for run in adopted]
    for runs in (free, chosen):
        places.clear()
        for run in runs:
            place = next(places.setdefault(run.priority, count(1)))
            found.append((-run.priority, place, run.due, run.uid))
    found.sort(key=lambda run: run[:3])
    return {uid: due for _, _, due, uid in found[:limit]}


def _fitting(tx: SqliteTx, found: dict[str, Instant], max_bytes: int) -> dict[str, Instant]:
    """Return the first runs that are together no larger than this, at least one."""
    fitting: dict[str, Instant] = {}
    for uid, due in found.items():
        max_bytes -= ROW_BYTES + sum(size for (size,) in tx.rows("run_bytes", uid=uid))
        if fitting and max_bytes < 0:
            break
        fitting[uid] = due
    return fitting


async def _choose_limited(tx: SqliteTx, wanted: Wanted) -> FlowClaim:
    """Choose runs under flow control that may be claimed now, all of them or some."""
    tx.rows("make_due_ready", limit=MAX_DUE, latest=wanted.latest)
    given = offer(tx, wanted)

    async def runs_of_lanes(
        queue: str, priority: int, lanes: Sequence[LaneQuery], /
    ) -> list[Candidate]:
        return [
            Candidate._make(row)
            for (key, name, _), rank, limit in lanes
            for row in tx.rows(
                "runs_of_lane",
                **given | {"queue": queue, "priority": priority},
                key=key,
                name=name,
                rank=rank,
                limit=limit,
            )
        ]

    flow = FlowClaim(tx, wanted, runs_of_lanes)
    await flow.lock()
    await flow.choose()
    return flow
