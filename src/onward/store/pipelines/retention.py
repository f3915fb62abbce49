"""Deleting old events and inputs, a batch in a transaction.

An event goes with its deliveries and causes when all consumers have consumed or skipped it and
that was long ago. An input goes when nothing is left of what it has caused. What is pending stays.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from onward.core.delivery import DeliveryState
from onward.core.ids import uid7
from onward.core.instant import MINUTE
from onward.model.retention import PruneBatch

if TYPE_CHECKING:
    from collections.abc import Sequence

    from onward.core.instant import Duration
    from onward.core.retention import Retention
    from onward.model.retention import Position
    from onward.store.database import Tx
    from onward.store.store import Store

KINDS = ("event", "input")
START = (KINDS[0], "")
MAX_ROWS = 200
"""How many events or inputs are looked at in a transaction."""


def kept_for(keep: Retention) -> Duration | None:
    """Return how long events are kept once they are settled; None: they are not deleted.

    That is as long as runs that succeeded, and as long as ids are recognised: while an event is
    there, its message id is not published again.
    """
    return None if keep.succeeded is None else max(keep.succeeded, keep.ids)


async def is_due(store: Store, keep: Retention) -> bool:
    """Return whether there may be events or inputs to delete."""
    if kept_for(keep) is None:
        return False
    return bool((await store.read(lambda tx: tx.fetch("has_pipelines")))[0][0])


async def prune(
    store: Store, keep: Retention, position: Position, *, dry_run: bool = False
) -> PruneBatch:
    """Delete, or count, some events or inputs."""
    length = kept_for(keep)
    if length is None:
        return PruneBatch({}, None)
    kind, after = position
    old, last = await store.snapshot(lambda tx: _old(tx, kind, after, length))
    rows: dict[str, int] = {}
    if old and dry_run:
        rows = await store.snapshot(lambda tx: _count(tx, kind, old))
    elif old:
        rows = await store.write(lambda tx: _delete(tx, kind, old))
    if last is not None:
        return PruneBatch(rows, (kind, last))
    following = KINDS[KINDS.index(kind) + 1 :]
    return PruneBatch(rows, (following[0], "") if following else None)


async def _old(tx: Tx, kind: str, after: str, length: Duration) -> tuple[list[str], str | None]:
    """Return what may go of the next rows, and the last of them if there are more."""
    [[now]] = await tx.fetch("clock")
    # A row is older than its end, unless the clock of the client that made it was ahead.
    below = uid7(max(0, now - length) + MINUTE, 0)
    given = {"after": after, "below": below, "limit": MAX_ROWS}
    rows = await tx.fetch("old_events" if kind == "event" else "old_inputs", **given)
    if kind == "event":
        old = [uid for uid, at in rows if at is not None and at + length <= now]
    else:
        old = [uid for uid, may_go in rows if may_go]
    return old, rows[-1][0] if len(rows) == MAX_ROWS else None


async def _count(tx: Tx, kind: str, uids: Sequence[str]) -> dict[str, int]:
    if kind == "input":
        return {"onward_input": len(uids)}
    given = {"uids": tx.array(uids)}
    [[deliveries]] = await tx.fetch("count_deliveries_of", **given)
    [[causes]] = await tx.fetch("count_event_causes", **given)
    rows = {"onward_event": len(uids), "onward_delivery": deliveries, "onward_cause": causes}
    return {table: count for table, count in rows.items() if count}


async def _delete(tx: Tx, kind: str, uids: Sequence[str]) -> dict[str, int]:
    if kind == "input":
        return await _delete_inputs(tx, uids)
    # An operator may have replayed one since it was looked at.
    rows = await tx.fetch("lock_deliveries_of", events=tx.array(sorted(uids)))
    is_open = {row[0] for row in rows if row[3] in (DeliveryState.PENDING, DeliveryState.RESERVED)}
    given = {"uids": tx.array([uid for uid in uids if uid not in is_open])}
    gone = {
        "onward_delivery": len(await tx.fetch("delete_deliveries_of", **given)),
        "onward_cause": len(await tx.fetch("delete_event_causes", **given)),
        "onward_event": len(await tx.fetch("delete_events", **given)),
    }
    return {table: count for table, count in gone.items() if count}


async def _delete_inputs(tx: Tx, uids: Sequence[str]) -> dict[str, int]:
    rows = await tx.fetch("lock_old_inputs", uids=tx.array(sorted(uids)))
    free = [row for row in rows if not row[5]]
    registered = Counter((row[1], row[2], row[3]) for row in free)
    skipped = Counter((row[1], row[2], row[3]) for row in free if row[4] is not None)
    for kind, count in sorted(registered.items()):
        names = dict(zip(("pipeline", "source", "type"), kind, strict=True))
        await tx.fetch("uncount_inputs", registered=count, skipped=skipped[kind], **names)
    gone = await tx.fetch("delete_inputs", uids=tx.array([row[0] for row in free]))
    return {"onward_input": len(gone)} if gone else {}
