"""Create, list, revoke and rotate keys; create, list, enable and disable namespaces."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from onward.codec.names import check_id
from onward.core.access import (
    ID_BITS,
    ROOT,
    SECRET_BITS,
    check_scope,
    hash_secret,
    is_key_id,
    make_key,
    parse_key,
    role_scopes,
)
from onward.core.instant import DAY
from onward.engine.access.views import CreatedKey, key_info, namespace_info
from onward.engine.local_client import LocalClient
from onward.errors import BadInput, NotFound, StoreUnusable, Unauthenticated
from onward.model.access import NewApiKey
from onward.store import access
from onward.system.clock import SystemRandomness

if TYPE_CHECKING:
    from collections.abc import Collection

    from onward.core.instant import Duration
    from onward.core.ports import Randomness
    from onward.engine.access.views import ApiKeyInfo, NamespaceInfo
    from onward.engine.client_engine import ClientEngine
    from onward.model.access import StoredKey
    from onward.store.store import Store

DEFAULT_NAMESPACE: Final = "default"
FIRST_KEY: Final = "first"
"""The name of the key that a server creates."""

GRACE: Final[Duration] = DAY
"""How long a key can still be used that was rotated, unless the caller says otherwise."""


def administration_of(engine: ClientEngine, pepper: str | None = None) -> Administration:
    """Return the administration of the database that an engine reaches itself.

    Raises:
        StoreUnusable: it reaches a server instead.
    """
    if not isinstance(engine, LocalClient):
        raise StoreUnusable(
            "a server",
            "does not let its clients manage keys and namespaces",
            "Pass the address of its database as --db",
        )
    return Administration(engine.store, pepper)


class Administration:
    """Manages the namespaces and API keys of a database.

    Args:
        store: A store of the database, of any namespace.
        pepper: A secret of the servers that is not in the database (`ONWARD_PEPPER`).
        randomness: Where keys come from.
    """

    def __init__(
        self, store: Store, pepper: str | None = None, randomness: Randomness | None = None
    ) -> None:
        self._store = store
        self._pepper = pepper
        self._randomness = randomness or SystemRandomness()

    # --- namespaces ------------------------------------------------------------------------------

    async def create_namespace(self, name: str, title: str = "") -> NamespaceInfo:
        """Create a namespace.

        Raises:
            BadInput: the name is not valid, or there is one of that name.
        """
        check_id(name, "namespace")
        if title:
            check_id(title, "title")
        if not await access.add_namespace(self._store, name, title):
            raise BadInput(
                f"namespace {name!r}", "already exists", "List namespaces: onward namespaces list"
            )
        return await self.namespace(name)

    async def namespace(self, name: str) -> NamespaceInfo:
        """Return a namespace.

        Raises:
            NotFound: there is none of that name.
        """
        row = await access.namespace(self._store, name)
        if row is None:
            raise _no_namespace(name)
        return namespace_info(row)

    async def namespaces(self, *, limit: int = 1000, after: str = "") -> list[NamespaceInfo]:
        """Return namespaces by name; `after` is the last of the page before."""
        rows = await access.list_namespaces(self._store, limit=limit, after=after)
        return [namespace_info(row) for row in rows]

    async def enable(self, name: str, *, enabled: bool) -> NamespaceInfo:
        """Enable or disable a namespace.

        Servers apply it within 5 s. In a disabled namespace their clients start and publish
        nothing; open runs continue.

        Raises:
            NotFound: there is none of that name.
        """
        row = await access.enable_namespace(self._store, name, enabled=enabled)
        if row is None:
            raise _no_namespace(name)
        return namespace_info(row)

    # --- keys ------------------------------------------------------------------------------------

    async def create_key(
        self,
        namespace: str,
        name: str,
        scopes: Collection[str],
        *,
        by: str,
        expires_in: Duration | None = None,
    ) -> CreatedKey:
        """Create a key. The answer is the only place where its text ever stands.

        The namespace must exist, except for `default`, which is made with its first key.

        Args:
            namespace: The namespace that the holder of the key sees and changes.
            name: What the key is for, for people.
            scopes: What its holder may do.
            by: Who creates it.
            expires_in: How long it can be used; None: it does not expire.

        Raises:
            BadInput: a name or a scope is not valid, or there is no scope.
            NotFound: there is no such namespace.
        """
        check_id(name, "key name")
        checked = sorted({check_scope(scope) for scope in scopes})
        if not checked:
            raise BadInput(f"key {name!r}", "has no scope", "Pass a role or a scope")
        if ROOT in checked and len(checked) > 1:
            raise BadInput(
                f"key {name!r}",
                "combines the scope root with other scopes",
                "Create one key with only root, and another key with the other scopes",
            )
        if namespace == DEFAULT_NAMESPACE:
            await access.add_namespace(self._store, namespace, "")
        draft = NewApiKey("", namespace, name, "\n".join(checked), "", by, expires_in)
        return await self._add(draft)

    async def create_first_key(self, *, by: str) -> CreatedKey | None:
        """Create an administrator's key for `default`; None if the database has had a key.

        However many processes do this at a time, one of them gets the key.
        """
        await access.add_namespace(self._store, DEFAULT_NAMESPACE, "")
        scopes = "\n".join(sorted(role_scopes("admin")))
        key = make_key(self._randomness.bits(ID_BITS), self._randomness.bits(SECRET_BITS))
        new = NewApiKey(
            key.id, DEFAULT_NAMESPACE, FIRST_KEY, scopes, hash_secret(key, self._pepper), by, None
        )
        stored = await access.add_key(self._store, new, only_first=True)
        return None if stored is None else CreatedKey(key_info(stored.row, stored.read_at), key)

    async def keys(
        self, namespace: str | None = None, *, limit: int = 1000, after: str = ""
    ) -> list[ApiKeyInfo]:
        """Return the keys of a namespace, or of all, by id, also those that cannot be used."""
        now = await self._store.now()
        rows = await access.list_keys(self._store, namespace, limit=limit, after=after)
        return [key_info(row, now) for row in rows]

    async def revoke(self, key_id: str, *, namespace: str | None = None) -> ApiKeyInfo:
        """Revoke a key for good; servers refuse it within 5 s and end its streams.

        Args:
            key_id: Its id, or its whole text.
            namespace: The only namespace whose keys may be revoked; None: any.

        Raises:
            NotFound: there is no such key.
        """
        stored = await self._key(key_id, namespace)
        revoked = await access.revoke_key(self._store, stored.row.id)
        assert revoked is not None, "keys are never deleted"
        return key_info(revoked.row, revoked.read_at)

    async def rotate(
        self,
        key_id: str,
        *,
        by: str,
        grace: Duration = GRACE,
        expires_in: Duration | None = None,
        namespace: str | None = None,
    ) -> CreatedKey:
        """Create a key that can do the same as another one, which expires after a grace period.

        Args:
            key_id: The id of the old key, or its whole text.
            by: Who creates the new one.
            grace: How long the old one can still be used.
            expires_in: How long the new one can be used; None: as long as the old one could from
                its creation on, if it expires.
            namespace: The only namespace whose keys may be rotated; None: any.

        Raises:
            BadInput: the old key was revoked or has expired.
            NotFound: there is no such key.
        """
        old = await self._key(key_id, namespace)
        if not old.is_valid:
            info = key_info(old.row, old.read_at)
            raise BadInput(f"key {info.id}", f"is {info.state}", "Create another key instead")
        if expires_in is None and old.row.expires_at is not None:
            expires_in = old.row.expires_at - old.row.created_at
        row = old.row
        draft = NewApiKey("", row.namespace, row.name, row.scopes, "", by, expires_in)
        return await self._add(draft, replaces=row.id, grace=grace)

    async def has_keys(self) -> bool:
        """Return whether any key was ever made: then a server accepts no call without one."""
        return await access.has_keys(self._store)

    async def _add(
        self, draft: NewApiKey, *, replaces: str | None = None, grace: Duration = 0
    ) -> CreatedKey:
        key = make_key(self._randomness.bits(ID_BITS), self._randomness.bits(SECRET_BITS))
        new = draft._replace(id=key.id, secret_hash=hash_secret(key, self._pepper))
        stored = await access.add_key(self._store, new, replaces=replaces, within=grace)
        if stored is None:
            raise _no_namespace(draft.namespace)
        return CreatedKey(key_info(stored.row, stored.read_at), key)

    async def _key(self, key_id: str, namespace: str | None) -> StoredKey:
        found = await access.keys(self._store, [_id_in(key_id)])
        for stored in found.values():
            if namespace in (None, stored.row.namespace):
                return stored
        raise NotFound("key", _id_in(key_id), namespace or "", "List the keys: onward keys list")


def _id_in(text: str) -> str:
    """Return the id that a text is or has.

    Raises:
        BadInput: it is neither an id nor a key; the message does not quote it.
    """
    if is_key_id(text):
        return text
    try:
        return parse_key(text).id
    except Unauthenticated:
        pass
    raise BadInput("the argument", "is not the id of a key", "List the ids: onward keys list")


def _no_namespace(name: str) -> NotFound:
    return NotFound("namespace", name, "", f"Create it: onward namespaces create {name}")
