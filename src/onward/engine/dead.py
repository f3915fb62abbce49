"""Dead letters: failed and timed-out runs that await a decision."""

from __future__ import annotations

from typing import TYPE_CHECKING

from onward.engine.display import shown_time
from onward.engine.info import infos_of
from onward.engine.views import FailureGroup
from onward.errors import BadInput
from onward.store.runs import dead

if TYPE_CHECKING:
    from collections.abc import Sequence

    from onward.core.instant import Instant
    from onward.engine.client_engine import Decision, FailurePeriod
    from onward.store.store import Store

MAX_GROUPS = 100
MAX_COUNTED = 1000
"""How many runs of a group are counted."""


async def failure_groups(store: Store, period: FailurePeriod) -> list[FailureGroup]:
    """Return dead letters grouped by workflow, type of error and failed call, largest first.

    Raises:
        BadInput: the timeline has no parts.
    """
    if period.parts < 1:
        raise BadInput(f"parts={period.parts}", "is less than 1", "Use 1 or more")
    now = await store.now()
    since = 0 if period.length is None else now - period.length
    found = await store.snapshot(
        lambda tx: dead.dead_groups(
            tx, name=period.name, since=since, groups=MAX_GROUPS, counted=MAX_COUNTED + 1
        )
    )
    begin = since or min((group.first_at for group in found), default=now)
    rows = [await store.run(group.last_uid) for group in found]
    last = {info.uid: info for info in await infos_of(store, rows)}
    shown = [
        FailureGroup(
            group.name,
            group.error_type,
            group.failed_step or None,
            min(len(group.times), MAX_COUNTED),
            len(group.times) > MAX_COUNTED,
            shown_time(group.first_at),
            shown_time(group.times[0]),
            last[group.last_uid].id,
            last[group.last_uid].error,
            timeline(group.times[:MAX_COUNTED], begin, now, period.parts),
        )
        for group in found
    ]
    return sorted(shown, key=lambda group: (-group.count, group.name))


def timeline(times: Sequence[Instant], begin: Instant, end: Instant, parts: int) -> tuple[int, ...]:
    """Return how many instants are in each of the equal parts of a period."""
    counts = [0] * parts
    length = max(1, end - begin)
    for at in times:
        counts[min(parts - 1, max(0, (at - begin) * parts // length))] += 1
    return tuple(counts)


async def discard(store: Store, uid: str, decision: Decision) -> bool:
    """Discard a dead letter; return False if the run is none."""
    return await store.write(lambda tx: dead.discard(tx, uid, decision.by, decision.reason))
