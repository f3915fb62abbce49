"""Namespaces and API keys: rows about all namespaces of a database.

Each function takes a store of any namespace.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from onward.model.access import ApiKeyRow, NamespaceRow, StoredKey

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from typing import Any

    from onward.core.instant import Duration
    from onward.model.access import NewApiKey
    from onward.store.database import Tx
    from onward.store.store import Store

_KEY_FIELDS = len(ApiKeyRow._fields)


async def add_namespace(store: Store, name: str, title: str) -> bool:
    """Make a namespace; return False if there is one of that name."""
    return bool(await store.write(lambda tx: tx.fetch("add_namespace", of=name, title=title)))


async def namespace(store: Store, name: str) -> NamespaceRow | None:
    rows = await store.read(lambda tx: tx.fetch("namespace_row", of=name))
    return NamespaceRow._make(rows[0]) if rows else None


async def list_namespaces(store: Store, *, limit: int, after: str = "") -> list[NamespaceRow]:
    """Return namespaces by name; `after` is the last of the page before."""
    rows = await store.read(lambda tx: tx.fetch("list_namespaces", limit=limit, after=after))
    return [NamespaceRow._make(row) for row in rows]


async def enable_namespace(store: Store, name: str, *, enabled: bool) -> NamespaceRow | None:
    """Enable or disable a namespace, and return it; None if there is none of that name."""
    rows = await store.write(lambda tx: tx.fetch("enable_namespace", of=name, enabled=int(enabled)))
    return NamespaceRow._make(rows[0]) if rows else None


async def add_key(
    store: Store,
    key: NewApiKey,
    *,
    replaces: str | None = None,
    within: Duration = 0,
    only_first: bool = False,
) -> StoredKey | None:
    """Store a key; None if its namespace does not exist, or the id belongs to another key.

    Args:
        store: A store of the database.
        key: The key.
        replaces: The id of a key that is to expire in its place.
        within: How long that one can still be used.
        only_first: Store it only if the database has no other key.
    """

    async def add(tx: Tx) -> StoredKey | None:
        if only_first:
            await tx.fetch("lock_namespace", of=key.namespace)
            is_repeated = await _keys(tx, [key.id])  # the transaction may run twice
            if await tx.fetch("has_api_keys") and not is_repeated:
                return None
        given = key._asdict()
        given["of"] = given.pop("namespace")
        await tx.fetch("add_api_key", **given)
        found = await _keys(tx, [key.id])
        if not found or found[0].secret_hash != key.secret_hash:
            return None
        if replaces is not None:
            await tx.fetch("expire_api_key", id=replaces, within=within)
        return found[0]

    return await store.write(add)


async def keys(store: Store, ids: Collection[str]) -> dict[str, StoredKey]:
    """Return those of these keys that exist, whether they can be used or not."""
    found = await store.read(lambda tx: _keys(tx, ids))
    return {key.row.id: key for key in found}


async def list_keys(
    store: Store, namespace: str | None, *, limit: int, after: str = ""
) -> list[ApiKeyRow]:
    """Return keys of a namespace, or of all for None, by id; `after` is the last of a page."""
    rows = await store.read(
        lambda tx: tx.fetch("list_api_keys", of=namespace, limit=limit, after=after)
    )
    return [ApiKeyRow._make(row) for row in rows]


async def revoke_key(store: Store, key_id: str) -> StoredKey | None:
    """Revoke a key for good, and return it; None if there is none of that id."""

    async def revoke(tx: Tx) -> StoredKey | None:
        await tx.fetch("revoke_api_key", id=key_id)
        found = await _keys(tx, [key_id])
        return found[0] if found else None

    return await store.write(revoke)


async def note_key_use(store: Store, key_id: str, interval: Duration) -> None:
    """Store that a key was used now, unless that was noted less than `interval` ago."""
    await store.write(lambda tx: tx.fetch("note_key_use", id=key_id, interval=interval))


async def has_keys(store: Store) -> bool:
    """Return whether any key was ever made, even if none of them can be used any more."""
    return bool(await store.read(lambda tx: tx.fetch("has_api_keys")))


async def _keys(tx: Tx, ids: Collection[str]) -> list[StoredKey]:
    return [_stored(row) for row in await tx.fetch("api_keys", ids=tx.array(ids))]


def _stored(row: Sequence[Any]) -> StoredKey:
    secret_hash, enabled, read_at = row[_KEY_FIELDS:]
    return StoredKey(ApiKeyRow._make(row[:_KEY_FIELDS]), secret_hash, bool(enabled), read_at)
