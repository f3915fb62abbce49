"""Dead letters: how many there are of which kind, and the decision to discard one."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from onward.core.instant import Instant
    from onward.store.database import Tx


class DeadGroup(NamedTuple):
    """Dead letters that failed alike: when each of the last ones did, newest first."""

    name: str
    error_type: str
    failed_step: str
    first_at: Instant
    last_uid: str
    times: list[Instant]


async def dead_groups(
    tx: Tx, *, name: str | None, since: Instant, groups: int, counted: int
) -> list[DeadGroup]:
    """Return groups of dead letters with the times of at most `counted` runs of each.

    Args:
        tx: Where to read.
        name: Only those of this workflow.
        since: Only runs that failed then or later.
        groups: How many groups at most.
        counted: How many runs of each group are counted at most.
    """
    found: list[DeadGroup] = []
    last = ("" if name is None else name, "", "")
    while len(found) < groups:
        rows = await tx.fetch("next_dead_group", name=last[0], error=last[1], step=last[2])
        if not rows or (name is not None and rows[0][0] != name):
            break
        last = (rows[0][0], rows[0][1], rows[0][2])
        key = {"name": last[0], "error": last[1], "step": last[2]}
        times = await tx.fetch("dead_times", **key, since=since, limit=counted)
        if times:
            [[first_at, uid]] = await tx.fetch("ends_of_dead_group", **key)
            found.append(DeadGroup(*last, first_at, uid, [row[0] for row in times]))
    return found


async def discard(tx: Tx, uid: str, by: str, why: str) -> bool:
    """Discard a dead letter; return False if the run is none."""
    if not await tx.fetch("discard_run", uid=uid):
        return False
    await tx.fetch("keep_discard", uid=uid, by=by, why=why)
    return True
