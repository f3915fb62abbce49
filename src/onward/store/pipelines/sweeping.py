"""Events that callers published in transactions of their own, on their way into topics."""

from __future__ import annotations

from typing import TYPE_CHECKING

from onward.model.pipelines import NewEvent
from onward.store.hints import PIPELINES
from onward.store.pipelines.publishing import publish

if TYPE_CHECKING:
    from onward.store.database import Tx
    from onward.store.store import Store

MAX_SWEEP = 1_000


async def sweep_unpublished(store: Store) -> int:
    """Publish events of callers' transactions, oldest first; return how many were waiting.

    An event and its row move in one transaction: however often this is tried, the topic has the
    event once.
    """
    rows = await store.read(lambda tx: tx.fetch("unpublished_waiting"))
    if not rows[0][0]:
        return 0
    swept = await store.write(_sweep)
    if swept:
        store.database.publish([PIPELINES])
    return swept


async def _sweep(tx: Tx) -> int:
    # Another process that sweeps waits here, and finds the rows gone.
    rows = await tx.fetch("oldest_unpublished", limit=MAX_SWEEP)
    if not rows:
        return 0
    events = [
        NewEvent(uid, topic, message, bytes(payload), key)
        for _, uid, topic, message, payload, key in rows
    ]
    await publish(tx, events, (), None)
    await tx.fetch("drop_unpublished", seqs=tx.array([row[0] for row in rows]))
    return len(rows)
