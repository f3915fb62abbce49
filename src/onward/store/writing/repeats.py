"""Commits that are sent again: when their records were really written.

A body is given the time of each record it is handed, and must be given the same time on replay. So
the time of a record is the one in its row, not the one of the try that was answered.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from onward.core.instant import Instant
    from onward.model.commits import Commit
    from onward.store.database import RecordKey, Tx


async def recorded_times(tx: Tx, commits: Iterable[Commit]) -> dict[RecordKey, Instant]:
    """Return when the closed records of some commits were written."""
    keys = [
        (record.run, record.identity)
        for commit in commits
        for record in commit.latest_records()
        if record.state != "open"
    ]
    if not keys:
        return {}
    runs, identities = tx.array(run for run, _ in keys), tx.array(name for _, name in keys)
    rows = await tx.fetch("recorded_times", runs=runs, identities=identities)
    return {(run, identity, attempt): at for run, identity, attempt, at in rows}
