"""The result cache: looked up by workers, listed and purged by operators."""

from __future__ import annotations

from typing import TYPE_CHECKING

from onward.model.cache import CacheRow

if TYPE_CHECKING:
    from onward.store.store import Store

PURGED_AT_ONCE = 1000
"""How many entries one transaction deletes, so that none holds others up."""


async def cached_result(store: Store, key: str) -> bytes | None:
    """Return a result that has not expired."""
    rows = await store.read(lambda tx: tx.fetch("cached_result", key=key))
    return rows[0][0] if rows else None


async def list_cache(
    store: Store, *, step: str | None, version: str | None, limit: int, after: str
) -> list[CacheRow]:
    """Return entries that have not expired; `after` is the key of the last one of a page."""
    given = {"step": step, "version": version, "limit": limit, "after": after}
    rows = await store.read(lambda tx: tx.fetch("list_cache", **given))
    return [CacheRow._make(row) for row in rows]


async def purge_cache(
    store: Store, *, key: str | None, step: str | None, version: str | None
) -> int:
    """Delete entries that match, and return how many."""
    given = {"key": key, "step": step, "version": version, "limit": PURGED_AT_ONCE}
    count, last = 0, PURGED_AT_ONCE
    while last == PURGED_AT_ONCE:
        last = len(await store.write(lambda tx: tx.fetch("purge_cache", **given)))
        count += last
    return count


async def purge_expired(store: Store) -> int:
    """Delete some of the entries that have expired, and return how many."""
    if not await store.read(lambda tx: tx.fetch("has_expired_cache")):
        return 0
    return len(await store.write(lambda tx: tx.fetch("purge_expired", limit=PURGED_AT_ONCE)))
