"""Token buckets by name, in bounded memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from onward.core.token_bucket import full, is_full, take

if TYPE_CHECKING:
    from onward.core.instant import Duration
    from onward.core.ports import Clock
    from onward.core.token_bucket import Bucket, BucketLimits

MAX_BUCKETS: Final = 10_000
"""Beyond this, full buckets are forgotten, and then those that were used longest ago."""


class Buckets:
    """One bucket for each name: a key, a namespace, or an address."""

    def __init__(self, clock: Clock, limits: BucketLimits, max_buckets: int = MAX_BUCKETS) -> None:
        self._clock = clock
        self._limits = limits
        self._max = max_buckets
        self._buckets: dict[str, Bucket] = {}

    def __len__(self) -> int:
        return len(self._buckets)

    def wait(self, name: str) -> Duration:
        """Return how long it takes until there is a token; 0: there is one."""
        now = self._clock.monotonic()
        bucket = self._buckets.get(name)
        return 0 if bucket is None else take(self._limits, bucket, now).wait

    def take(self, name: str, count: int = 1) -> Duration:
        """Take tokens and return 0, or take none and return how long to wait."""
        now = self._clock.monotonic()
        bucket = self._buckets.pop(name, None) or full(self._limits, now)
        taken = take(self._limits, bucket, now, count)
        if len(self._buckets) >= self._max:
            self._forget()
        self._buckets[name] = taken.bucket  # the last of them: it was used last
        return taken.wait

    def _forget(self) -> None:
        now = self._clock.monotonic()
        for name in [n for n, b in self._buckets.items() if is_full(self._limits, b, now)]:
            del self._buckets[name]
        # Some at a time, or each call would look through all of them.
        for name in list(self._buckets)[: len(self._buckets) - self._max * 9 // 10]:
            del self._buckets[name]
