"""Choosing runs of limited flow on SQLite, where nobody else claims meanwhile."""

from __future__ import annotations

from typing import TYPE_CHECKING

from onward.core.run import SUSPECT_AT
from onward.store.runs.flow import MAX_RIPEN, Candidate, pick, pick_suspects

if TYPE_CHECKING:
    from onward.model.claims import Wanted
    from onward.store.sqlite.transaction import SqliteTx


def choose(tx: SqliteTx, wanted: Wanted) -> list[Candidate]:
    """Return runs with a flow key that may be claimed now, all of them or some."""
    tx.rows("ripen", limit=MAX_RIPEN)
    given = {
        "queues": tx.array(wanted.queues),
        "names": tx.array(wanted.names),
        "tags": tx.array(wanted.tags),
        "version": wanted.version,
        "suspect_at": SUSPECT_AT,
    }
    keys = [
        (queue, *row) for queue in wanted.queues for row in tx.rows("keys_of_queue", queue=queue)
    ]
    rooms = {key: _room(tx, key, most) for _, key, most in keys if most is not None}
    found: list[Candidate] = []
    for queue, key, _ in keys:
        room = min(rooms.get(key, wanted.limit), wanted.limit)
        if room > 0:
            rows = tx.rows("candidates_of_key", queue=queue, key=key, room=room, **given)
            found += [Candidate(uid, priority, due, key) for uid, priority, due in rows]
    suspects = [Candidate._make(row) for row in tx.rows("flow_suspects", **given)]
    found += pick_suspects(suspects, rooms, wanted.suspects)
    return pick(found, rooms, wanted.limit)


def _room(tx: SqliteTx, key: str, most: int) -> int:
    return max(0, most - int(tx.rows("flowing", key=key)[0][0]))
