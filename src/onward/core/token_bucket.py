"""A token bucket: so many calls a second on average, and so many at once after a quiet time.

`core.flow` limits how many runs start within any period, which must hold exactly and is stored.
This limits calls of a server's clients, and lives in the memory of one process.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from onward.core.instant import SECOND

if TYPE_CHECKING:
    from onward.core.instant import Duration, Instant


class BucketLimits(NamedTuple):
    """At most `burst` tokens at once, of which `rate` come back each second."""

    rate: int
    burst: int


class Bucket(NamedTuple):
    """How full a bucket is. One token is `SECOND` units, so that all numbers are whole.

    The level is below zero after a call that took more tokens than the bucket can hold.
    """

    level: int
    at: Instant


class Taken(NamedTuple):
    """The bucket afterwards, and how long to wait; 0: the tokens were taken."""

    bucket: Bucket
    wait: Duration


def full(limits: BucketLimits, now: Instant) -> Bucket:
    """Return a bucket of which nothing was taken."""
    return Bucket(limits.burst * SECOND, now)


def take(limits: BucketLimits, bucket: Bucket, now: Instant, count: int = 1) -> Taken:
    """Take tokens if there are enough.

    A call for more tokens than the bucket holds is let through once the bucket is full, and those
    after it wait longer: it is never refused for good.
    """
    filled = refilled(limits, bucket, now)
    needed = min(count, limits.burst) * SECOND
    if filled.level >= needed:
        return Taken(filled._replace(level=filled.level - count * SECOND), 0)
    return Taken(filled, -((filled.level - needed) // limits.rate))


def refilled(limits: BucketLimits, bucket: Bucket, now: Instant) -> Bucket:
    """Return the bucket as it is at an instant; one that lies before its own changes nothing."""
    passed = max(0, now - bucket.at)
    level = min(limits.burst * SECOND, bucket.level + passed * limits.rate)
    return Bucket(level, max(now, bucket.at))


def is_full(limits: BucketLimits, bucket: Bucket, now: Instant) -> bool:
    """Return whether a bucket can be forgotten: a new one would be the same."""
    return refilled(limits, bucket, now).level == limits.burst * SECOND
