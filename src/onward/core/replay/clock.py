"""Clock records: from when the waits of a run count that comes to them late.

For a body it is the time of the last record that it was handed. Mostly that is a moment ago. After
a crash, a deploy, a pause or a retry it may be long ago, and a limit of three seconds that counts
from there is over before it begins. So the owner first writes a clock record, and waits that are
not in history count from that. A wait that is in history keeps its due time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from onward.core.instant import SECOND
from onward.core.value import Value

if TYPE_CHECKING:
    from onward.core.instant import Duration, Instant

LATE_MAX: Duration = SECOND
LATE_MIN: Duration = SECOND // 10
"""How late waits may begin without a clock record: at most, and in a live run at least."""


class LateStart(Value):
    """What a clock record is about: waits that were asked for at `since` or later.

    `is_replayed` says that history was read before: then limits asked for earlier count on from
    here, too, for nothing was done within them since `since`. Sleeps asked for earlier do not.
    """

    since: Instant
    is_replayed: bool


def is_late(delay: Duration, since: Instant, now: Instant, *, is_replayed: bool) -> bool:
    """Return whether a wait of this length needs a clock record to count from."""
    allowed = min(delay // 4, LATE_MAX)
    return is_ahead(since, now) or now - since > (
        allowed if is_replayed else max(allowed, LATE_MIN)
    )


def is_ahead(since: Instant, now: Instant) -> bool:
    """Return whether a clock that was ahead, and was set back since, wrote a time."""
    return since - now > LATE_MAX


def delayed_by(start: LateStart, at: Instant, asked_at: Instant, *, is_limit: bool) -> Duration:
    """Return by how much a clock record of the time `at` puts off a wait that is not in history.

    It is negative if the wait was asked for while the clock was ahead, and that was set back.
    """
    if asked_at >= start.since:
        return at - asked_at
    if asked_at > at:  # by a clock that was ahead: what was left of it is left now
        return at - start.since
    if start.is_replayed and is_limit:
        return max(0, at - start.since)
    return 0


def put_off_after(before: Duration, step: Duration) -> Duration:
    """Return by how much an end is put off after the database's clock was set by a step.

    It stays as far away as before when the clock is put forward, and when that is put back again.
    It is never before the time that was first given: a clock that was put back for a moment may be
    put forward again while the end is on record.
    """
    return max(0, before + step)


def put_off_since(at: Instant, put_off: Duration, now: Instant) -> Duration:
    """Return by how much an end that counts from `at` is put off, after `put_off` in all.

    The clock may have been set while `at` was being recorded. If `at` is a time before that, the
    clock has gone on by all of `put_off` since; otherwise `at` counts in the new time already.
    """
    return put_off if at + put_off <= now else 0
