"""Who sends a request: from the header of the request to a principal."""

from __future__ import annotations

import asyncio
import ipaddress
from typing import TYPE_CHECKING, Final, NamedTuple

from onward.core.access import Principal, is_secret_of, parse_key
from onward.core.instant import HOUR, SECOND
from onward.core.token_bucket import BucketLimits
from onward.engine.access.buckets import Buckets
from onward.engine.access.views import scopes_of
from onward.errors import RateLimited, StoreUnusable, Unauthenticated, Unavailable
from onward.store import access

if TYPE_CHECKING:
    from collections.abc import Iterable

    from onward.core.access import ApiKey
    from onward.core.instant import Duration
    from onward.core.ports import Clock
    from onward.model.access import StoredKey
    from onward.store.store import Store

CACHED: Final[Duration] = 4 * SECOND
"""How long a key that was read stays valid. Streams check once a second, which makes 5 s in all."""

WATCHED: Final[Duration] = 30 * SECOND
"""How long after the last question of a stream its key is still read with the others."""

TRIED: Final[Duration] = SECOND
"""How long after a failed read the keys of streams are read again."""

USE_NOTED: Final[Duration] = HOUR
MAX_KNOWN: Final = 10_000
"""How many keys are remembered, including ids that do not exist."""

MISSES: Final = BucketLimits(rate=1, burst=20)
"""How many ids that do not exist one address may try before it is slowed."""

LOOKUPS: Final = 8
"""How many unknown ids are looked up at a time; the others wait. Those of addresses that have tried
too many ids are looked up one at a time, so that they do not delay the others."""

_SCHEME: Final = "bearer"
_ADVICE: Final = "Pass a key as key= or ONWARD_KEY; create one with `onward keys create`"
_AWAY: Final = (Unavailable, StoreUnusable)


class _Known(NamedTuple):
    """What was read of an id: a key, or that there is none."""

    stored: StoredKey | None
    read_at: int
    """By the steady clock of this process."""


class Authenticator:
    """Finds the principal of a request by its API key.

    A key that is revoked, has expired, or whose namespace was disabled is noticed within 5 s. Keys
    are read once in 4 s however many requests and streams use them, and while the database is
    unavailable open streams stay open.

    Args:
        store: A store of the database, of any namespace.
        clock: A steady clock.
        pepper: The secret with which keys were hashed (`ONWARD_PEPPER`).
    """

    def __init__(self, store: Store, clock: Clock, pepper: str | None = None) -> None:
        self._store = store
        self._clock = clock
        self._pepper = pepper
        self._known: dict[str, _Known] = {}
        self._reads: dict[str, asyncio.Task[dict[str, StoredKey]]] = {}
        self._misses = Buckets(clock, MISSES)
        self._lookups = asyncio.Semaphore(LOOKUPS)
        self._suspect_lookups = asyncio.Semaphore(1)
        self._watched: dict[str, int] = {}
        """When a stream last asked about a key."""
        self._refreshing: asyncio.Task[None] | None = None
        self._tried_at: int | None = None

    async def authenticate(self, header: str | None, address: str = "") -> Principal:
        """Return the principal of a request.

        Args:
            header: The `authorization` of the request: `Bearer onw_…`.
            address: Where it comes from. An address that tries many keys that do not exist waits,
                but a valid key is never refused because of others.

        Raises:
            Unauthenticated: there is no key, or it cannot be used.
            RateLimited: the key does not exist, and the address has tried too many such keys.
            Unavailable: the database cannot be reached, and the key was not read recently.
        """
        key = key_in(header)
        stored = await self._look_up(key.id, address)
        principal = self._principal(key, stored)
        await self._note_use(stored)
        return principal

    def _principal(self, key: ApiKey, stored: StoredKey | None) -> Principal:
        if stored is None or not is_secret_of(key, stored.secret_hash, self._pepper):
            raise Unauthenticated("this server does not know the API key", _ADVICE)
        if not stored.is_valid:  # only the holder of the secret learns this
            fact = "has expired" if stored.row.revoked_at is None else "was revoked"
            raise Unauthenticated(f"the API key {stored.row.id} {fact}", _ADVICE)
        return principal_of(stored)

    # --- streams ---------------------------------------------------------------------------------

    async def still_valid(self, key_id: str) -> bool:
        """Return whether a stream of a key may stay open; a stream asks about once a second."""
        return await self.current(key_id) is not None

    async def current(self, key_id: str) -> Principal | None:
        """Return the current principal of an open stream; None: end the stream.

        While the database is unavailable the last answer counts.
        """
        self._watched[key_id] = self._clock.monotonic()
        if not self._is_fresh(key_id):
            await self._refresh()
        known = self._known.get(key_id)
        if known is None:  # never read here, and the database is unavailable
            raise Unavailable("the server's database", "cannot be reached")
        return principal_of(known.stored) if known.stored and known.stored.is_valid else None

    async def _refresh(self) -> None:
        """Read the keys of all streams at once, in one task for all that wait for it."""
        now = self._clock.monotonic()
        if self._refreshing is None:
            if self._tried_at is not None and now - self._tried_at < TRIED:
                return
            for key_id in [k for k, asked in self._watched.items() if now - asked > WATCHED]:
                del self._watched[key_id]
            self._refreshing = asyncio.ensure_future(self._read_watched())
        await asyncio.shield(self._refreshing)

    async def _read_watched(self) -> None:
        try:
            await self._read(list(self._watched))
            self._tried_at = None
        except _AWAY:
            self._tried_at = self._clock.monotonic()
        finally:
            self._refreshing = None

    # --- reading ---------------------------------------------------------------------------------

    def _is_fresh(self, key_id: str) -> bool:
        known = self._known.get(key_id)
        return known is not None and self._clock.monotonic() - known.read_at < CACHED

    async def _look_up(self, key_id: str, address: str) -> StoredKey | None:
        known = self._known.get(key_id)
        if known is not None and self._is_fresh(key_id):
            return known.stored
        if (known is not None and known.stored is not None) or key_id in self._reads:
            return await self._read_once(key_id)
        source = source_of(address)
        is_suspect = self._misses.wait(source) > 0
        async with self._suspect_lookups if is_suspect else self._lookups:
            stored = await self._read_once(key_id)
        wait = 0 if stored is not None else self._misses.take(source)
        if wait:
            fact = "has tried too many API keys that do not exist"
            raise RateLimited(f"address {source}", fact, _ADVICE, -(-wait // SECOND))
        return stored

    async def _read_once(self, key_id: str) -> StoredKey | None:
        """Read a key, in one task for all that wait for it."""
        task = self._reads.get(key_id)
        if task is None:
            task = self._reads[key_id] = asyncio.ensure_future(self._read([key_id]))
            task.add_done_callback(lambda done: self._forget_read(key_id, done))
        return (await asyncio.shield(task)).get(key_id)

    def _forget_read(self, key_id: str, done: asyncio.Task[dict[str, StoredKey]]) -> None:
        del self._reads[key_id]
        if not done.cancelled():
            done.exception()  # those that wait for it have it too, if there are any left

    async def _read(self, ids: Iterable[str]) -> dict[str, StoredKey]:
        asked = self._clock.monotonic()  # what changes while it is read may not be in the answer
        wanted = list(ids)
        found = await access.keys(self._store, wanted)
        for key_id in wanted:
            self._known.pop(key_id, None)
            self._known[key_id] = _Known(found.get(key_id), asked)  # the last: it was read last
        while len(self._known) > max(MAX_KNOWN, len(wanted)):
            del self._known[next(iter(self._known))]
        return found

    async def _note_use(self, stored: StoredKey | None) -> None:
        assert stored is not None
        noted = stored.row.last_used_at
        if noted is not None and stored.read_at - noted < USE_NOTED:
            return
        row = stored.row._replace(last_used_at=stored.read_at)
        known = self._known.get(row.id)
        if known is not None and known.stored is not None:  # once, however many calls there are
            self._known[row.id] = known._replace(stored=known.stored._replace(row=row))
        try:
            await access.note_key_use(self._store, row.id, USE_NOTED)
        except _AWAY:
            return  # it is only for people, and the next call after an hour notes it


def key_in(header: str | None) -> ApiKey:
    """Return the key in an `authorization` header.

    Raises:
        Unauthenticated: there is none. The message quotes nothing of the header.
    """
    if not header:
        raise Unauthenticated("the request has no API key", _ADVICE)
    scheme, _, text = header.strip().partition(" ")
    if scheme.lower() != _SCHEME:
        raise Unauthenticated("the authorization header is not a Bearer token", _ADVICE)
    return parse_key(text.strip())


def principal_of(stored: StoredKey) -> Principal:
    """Return the principal of a key."""
    row = stored.row
    return Principal(row.id, row.name, row.namespace, frozenset(scopes_of(row)), stored.is_enabled)


def source_of(address: str) -> str:
    """Return what counts as one place: an IPv4 address, or the /64 network of an IPv6 address."""
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return address
    if parsed.version == 4:
        return str(parsed)
    if parsed.ipv4_mapped is not None:
        return str(parsed.ipv4_mapped)
    return str(ipaddress.ip_network((int(parsed), 64), strict=False))
