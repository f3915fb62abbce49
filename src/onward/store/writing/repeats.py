"""Writes that were sent again because their answer was lost: when they were really written.

A body is told the time of what it is handed, and must be told the same when it is replayed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from onward.core.instant import Instant
    from onward.store.database import Tx
    from onward.store.writing.commit import Commit


async def first_time(tx: Tx, commits: Iterable[Commit]) -> Instant | None:
    """Return when commits were written whose answer was lost: their records know.

    All that is written together is written at one time, so the first one found tells.
    """
    for commit in commits:
        for record in commit.latest_records():
            if record.state != "open":
                place = {"identity": record.identity, "attempt": record.attempt}
                rows = await tx.fetch("recorded_at", run=record.run, **place)
                if rows and rows[0][0] is not None:
                    at: Instant = rows[0][0]
                    return at
    return None
