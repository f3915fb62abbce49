"""How much there is to do in a store, and who does it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from onward.core.effect import EffectState
from onward.core.instant import SECOND
from onward.model.run_filter import RunQuery
from onward.store.runs.listing import count_runs

if TYPE_CHECKING:
    from onward.core.instant import Instant
    from onward.store.database import Tx
    from onward.store.store import Store

MAX_DEAD = 1000
"""How many dead letters are counted."""

OPEN_EFFECTS = (
    EffectState.PLANNED,
    EffectState.IN_FLIGHT,
    EffectState.NEEDS_RECONCILE,
    EffectState.INDETERMINATE,
)


@dataclass(frozen=True, slots=True)
class QueueStats:
    """A queue.

    Attributes:
        queue: Its name.
        ready: How many of its runs a worker could claim now.
        age_seconds: Since when the oldest of them is due.
    """

    queue: str
    ready: int
    age_seconds: float


@dataclass(frozen=True, slots=True)
class Stats:
    """How much there is to do.

    Attributes:
        runs: How many open runs are in each state.
        queues: The queues that have runs to claim.
        effects: How many unsettled effects are in each state.
        workers: How many live workers there are.
        slots: How many runs they may execute at a time.
        outbox: How many messages of callers' transactions are to be delivered.
        schedule_lag_seconds: Since when the oldest slot of a schedule waits to be decided.
        dead: How many dead letters there are; at most 1,000 are counted.
    """

    runs: Mapping[str, int]
    queues: tuple[QueueStats, ...]
    effects: Mapping[str, int]
    workers: int
    slots: int
    outbox: int
    schedule_lag_seconds: float
    dead: int


async def stats(store: Store) -> Stats:
    """Return how much there is to do; the cost hardly grows with what is over."""
    return await store.snapshot(_stats)


async def _stats(tx: Tx) -> Stats:
    [[now, outbox, oldest_slot]] = await tx.fetch("store_lags")
    runs: Counter[str] = Counter(ready=0)
    for state, count in await tx.fetch("open_counts"):
        runs[state] += count
    effects = {str(state): 0 for state in OPEN_EFFECTS}
    effects |= {row[0]: row[1] for row in await tx.fetch("effect_counts")}
    ready: Counter[str] = Counter()
    due: dict[str, Instant] = {}
    for queue, state, count, oldest in await tx.fetch("queue_depths"):
        runs["ready"] += count if state == "ready" else 0
        ready[queue] += count
        due[queue] = min(due.get(queue, oldest), oldest)
    queues = tuple(
        QueueStats(queue, count, max(0.0, (now - due[queue]) / SECOND))
        for queue, count in sorted(ready.items())
    )
    live = [row for row in await tx.fetch("list_workers", gone=0) if row[12]]
    lag = 0.0 if oldest_slot is None else (now - oldest_slot) / SECOND
    slots = sum(row[7] for row in live)
    dead = await count_runs(tx, RunQuery(dead=True), MAX_DEAD)
    return Stats(dict(runs), queues, effects, len(live), slots, outbox, lag, dead)
