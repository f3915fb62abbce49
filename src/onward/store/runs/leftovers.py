"""Rows that expire by themselves: slots, cached results, workers, ids of deleted runs, idle keys.

Workers delete them as they go. `onward prune` does so, too, where no worker runs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from onward.core.lease import GONE_WORKERS_KEPT
from onward.core.slot import NEWEST_KEPT, SLOTS_KEPT
from onward.store.runs.cache import PURGED_AT_ONCE, purge_expired
from onward.store.runs.flows import FORGOTTEN_AT_ONCE, forget_idle_keys, has_idle_keys
from onward.store.runs.retention import MAX_RUNS, drop_expired

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from onward.store.database import Tx
    from onward.store.store import Store

MAX_COUNTED: Final = 1_000_000
"""How many rows of a table are counted at most."""
_WORKERS_AT_ONCE: Final = 100
_SLOTS_AT_ONCE: Final = 1000


async def count_leftovers(tx: Tx) -> dict[str, int]:
    """Return how many rows of each table have expired."""
    slots = 0
    for name in await _schedules(tx):
        slots += await _count(tx, "count_old_slots", **_slots_of(name))
    return {
        "onward_slot": slots,
        "onward_cache": await _count(tx, "count_expired_cache"),
        "onward_worker": await _count(tx, "count_old_workers", kept=GONE_WORKERS_KEPT),
        "onward_tombstone": await _count(tx, "count_expired_tombstones"),
        "onward_flow": await _count(tx, "count_idle_keys"),
    }


async def delete_leftovers(store: Store) -> dict[str, int]:
    """Delete what has expired, in small transactions; return how many rows of each table."""
    rows = {
        "onward_slot": 0,
        "onward_cache": await _repeat(lambda: purge_expired(store), PURGED_AT_ONCE),
        "onward_worker": await _repeat(
            lambda: store.remove_workers(_WORKERS_AT_ONCE), _WORKERS_AT_ONCE
        ),
        "onward_tombstone": await _repeat(lambda: drop_expired(store), MAX_RUNS),
        "onward_flow": await _repeat(lambda: _forget_keys(store), FORGOTTEN_AT_ONCE),
    }
    for name in await store.read(_schedules):
        rows["onward_slot"] += await _delete_slots(store, name)
    return {table: count for table, count in rows.items() if count}


async def _repeat(delete: Callable[[], Awaitable[int]], at_once: int) -> int:
    """Delete part by part, until a part is not full."""
    deleted = last = await delete()
    while last >= at_once:
        last = await delete()
        deleted += last
    return deleted


async def _forget_keys(store: Store) -> int:
    return await store.write(forget_idle_keys) if await store.read(has_idle_keys) else 0


async def _delete_slots(store: Store, schedule: str) -> int:
    given = _slots_of(schedule)
    if not await store.read(lambda tx: _count(tx, "count_old_slots", **given)):
        return 0

    async def delete() -> int:
        return len(await store.write(lambda tx: tx.fetch("remove_old_slots", **given)))

    return await _repeat(delete, _SLOTS_AT_ONCE)


async def _schedules(tx: Tx) -> list[str]:
    return [row[0] for row in await tx.fetch("names_of_schedules")]


def _slots_of(schedule: str) -> dict[str, str | int]:
    return {"schedule": schedule, "kept": SLOTS_KEPT, "newest": NEWEST_KEPT}


async def _count(tx: Tx, statement: str, **given: str | int) -> int:
    [[count]] = await tx.fetch(statement, **given, limit=MAX_COUNTED)
    return int(count)
