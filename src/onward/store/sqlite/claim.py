"""Claiming runs on SQLite: the transaction has the file to itself while it chooses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from onward.core.lease import GAPS_A_LEASE, MAX_AHEAD
from onward.core.run import MAX_CRASHES, SUSPECT_AT, rooms_after
from onward.model.runs import ClaimedRun
from onward.store.runs.limits import MAX_DUE, Candidate, pick, pick_suspects

if TYPE_CHECKING:
    from collections.abc import Sequence

    from onward.core.instant import Instant
    from onward.model.claims import Wanted
    from onward.store.sqlite.transaction import SqliteTx


async def claim(tx: SqliteTx, wanted: Wanted, dead: Sequence[str]) -> list[ClaimedRun]:
    """Assign runs to the worker; the leases of `dead` workers end here."""
    tx.rows("clip_leases", worker=wanted.worker, ahead=MAX_AHEAD)
    tx.rows("expire_leases", worker=wanted.worker, gaps=GAPS_A_LEASE)
    for worker in dead:
        tx.rows("drop_lease", worker=worker)
    if not tx.rows("lease_here", worker=wanted.worker):
        return []
    ready_at, taken_from = _choose(tx, wanted)
    if not ready_at:
        return []
    tx.write_rows("claim_run", [(uid,) for uid in ready_at], worker=wanted.worker)
    rows = tx.rows("claimed_runs", ready_at=tx.mapping(ready_at))
    return [ClaimedRun._make((*row, taken_from.get(row[0]))) for row in rows]


def _choose(tx: SqliteTx, wanted: Wanted) -> tuple[dict[str, Instant], dict[str, str | None]]:
    """Return the runs to claim, each with the time since when it could have been claimed.

    Beside them, the workers that vanished while they had these runs.
    """
    given = _offer(tx, wanted)
    limited = _choose_limited(tx, wanted, given) if wanted.limited else []
    given |= {"limit": wanted.limit, "max_crashes": MAX_CRASHES}
    found: list[Any] = [
        row for queue in wanted.queues for row in tx.rows("ready_candidates", queue=queue, **given)
    ]
    found += limited
    found += tx.rows("due_candidates", **given)
    orphans: list[Any] = list(tx.rows("orphan_candidates", **given))
    for crashes, room in rooms_after(wanted.suspects, (run.crashes for run in limited)):
        suspects = tx.rows("suspect_candidates", crashes=crashes, room=room, **given)
        if suspects:
            orphans += suspects
            break
    found += orphans
    found.sort(key=lambda row: (-row[1], row[2]))
    ready_at = {row[0]: row[2] for row in found[: wanted.limit]}
    return ready_at, {row[0]: row[3] for row in orphans}


def _offer(tx: SqliteTx, wanted: Wanted) -> dict[str, object]:
    return {
        "queues": tx.array(wanted.queues),
        "names": tx.array(wanted.names),
        "tags": tx.array(wanted.tags),
        "version": wanted.version,
        "latest": wanted.latest,
        "suspect_at": SUSPECT_AT,
    }


def _choose_limited(tx: SqliteTx, wanted: Wanted, given: dict[str, object]) -> list[Candidate]:
    """Return runs with a flow key that may be claimed now, all of them or some."""
    tx.rows("make_due_ready", limit=MAX_DUE, latest=wanted.latest)
    keys = [
        (queue, *row) for queue in wanted.queues for row in tx.rows("keys_of_queue", queue=queue)
    ]
    rooms = {key: _room(tx, key, maximum) for _, key, maximum in keys if maximum is not None}
    found: list[Candidate] = []
    for queue, key, _ in keys:
        room = min(rooms.get(key, wanted.limit), wanted.limit)
        if room > 0:
            rows = tx.rows("candidates_of_key", queue=queue, key=key, room=room, **given)
            found += [Candidate(uid, priority, due, key) for uid, priority, due in rows]
    suspects = [Candidate._make(row) for row in tx.rows("limited_suspects", **given)]
    found += pick_suspects(suspects, rooms, wanted.suspects)
    return pick(found, rooms, wanted.limit)


def _room(tx: SqliteTx, key: str, maximum: int) -> int:
    return max(0, maximum - int(tx.rows("count_running", key=key)[0][0]))
