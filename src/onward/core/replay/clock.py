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
    return now - since > (allowed if is_replayed else max(allowed, LATE_MIN))


def delayed_by(start: LateStart, at: Instant, asked_at: Instant, *, is_limit: bool) -> Duration:
    """Return by how much a clock record of the time `at` puts off a wait that is not in history."""
    if asked_at >= start.since:
        return max(0, at - asked_at)
    if start.is_replayed and is_limit:
        return max(0, at - start.since)
    return 0


def put_off_after(before: Duration, step: Duration) -> Duration:
    """Return by how much a wait is put off after the database's clock was set by a step.

    It lasts as long as before when the clock is put forward, and when that is put back again. It is
    never over before the time that was first asked for: a clock that was put back for a moment may
    be put forward again while the wait is on record.
    """
    return max(0, before + step)
