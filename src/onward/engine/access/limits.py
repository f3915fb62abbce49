"""How much a key and a namespace may ask of one server."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, NamedTuple

from onward.core.instant import SECOND
from onward.core.token_bucket import BucketLimits
from onward.engine.access.buckets import Buckets
from onward.errors import RateLimited

if TYPE_CHECKING:
    from collections.abc import Iterator

    from onward.core.access import Principal
    from onward.core.instant import Duration
    from onward.core.ports import Clock

_MIB: Final = 1024 * 1024


class ServerLimits(NamedTuple):
    """The limits of a server for its clients.

    Attributes:
        key_calls: Calls of one key. A batch counts as many calls as it has items.
        namespace_calls: Calls of all keys of one namespace.
        streams: Open streams of one key.
        message_bytes: The size of one message on the wire.
        payload_bytes: The size of one argument, result, error, signal or event.
    """

    key_calls: BucketLimits = BucketLimits(20_000, 100_000)
    namespace_calls: BucketLimits = BucketLimits(50_000, 200_000)
    streams: int = 2_000
    message_bytes: int = 8 * _MIB
    payload_bytes: int = 2 * _MIB


class RequestLimits:
    """Refuses calls beyond the limits of their key and their namespace."""

    def __init__(self, clock: Clock, limits: ServerLimits | None = None) -> None:
        self.limits = limits or ServerLimits()
        self._keys = Buckets(clock, self.limits.key_calls)
        self._namespaces = Buckets(clock, self.limits.namespace_calls)
        self._streams: dict[str, int] = {}

    def admit(self, principal: Principal, count: int = 1) -> None:
        """Count calls of a client.

        Raises:
            RateLimited: there were too many; these are not counted.
        """
        by = _key(principal)
        wait = self._namespaces.wait(principal.namespace)
        if wait:
            where, limits = f"namespace {principal.namespace!r}", self.limits.namespace_calls
            raise _limited(where, limits, wait)
        wait = self._keys.take(by, count)
        if wait:
            raise _limited(f"key {principal.name!r}", self.limits.key_calls, wait)
        self._namespaces.take(principal.namespace, count)

    @contextmanager
    def stream(self, principal: Principal) -> Iterator[None]:
        """Count a stream of a client for as long as it is open.

        Raises:
            RateLimited: the key has too many open streams.
        """
        by = _key(principal)
        if self._streams.get(by, 0) >= self.limits.streams:
            fact = f"has {self.limits.streams:,} open streams, which is the limit of this server"
            raise RateLimited(f"key {principal.name!r}", fact, "Close some of them")
        self._streams[by] = self._streams.get(by, 0) + 1
        try:
            yield
        finally:
            self._streams[by] -= 1
            if not self._streams[by]:
                del self._streams[by]


def _key(principal: Principal) -> str:
    return principal.key_id or f"open {principal.namespace}"  # no id has a space in it


def _limited(where: str, limits: BucketLimits, wait: Duration) -> RateLimited:
    fact = f"made more than {limits.rate:,} calls a second"
    return RateLimited(
        where, fact, "Make fewer calls, or spread them over time", -(-wait // SECOND)
    )
