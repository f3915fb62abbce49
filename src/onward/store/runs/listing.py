"""Lists of runs for operators: newest first, by pages."""

from __future__ import annotations

from typing import TYPE_CHECKING

from onward.model.runs import RunRow

if TYPE_CHECKING:
    from onward.model.run_filter import RunQuery
    from onward.store.database import Tx

_DEEP = 1_000_000


async def listed(tx: Tx, sought: RunQuery, limit: int, before: str | None) -> list[RunRow]:
    """Return runs, newest first; `before` is the uid of the last one of the page before."""
    given = _narrowed(sought) | {"limit": limit, "before": before}
    if sought.family is None:
        rows = await tx.fetch("list_runs", **given, children=int(sought.children))
    else:
        top, line, children_only = sought.family
        highest, deepest = (1, 1) if children_only else (0, _DEEP)
        rows = await tx.fetch(
            "list_family", **given, top=top, line=int(line), highest=highest, deepest=deepest
        )
    return [RunRow._make(row) for row in rows]


async def count_started_by_runs(tx: Tx, sought: RunQuery, limit: int) -> int:
    """Return how many there are that other runs have started, as far as that is worth counting."""
    rows = await tx.fetch("count_started_by_runs", **_narrowed(sought), limit=limit)
    return int(rows[0][0])


def _narrowed(sought: RunQuery) -> dict[str, str | None]:
    return {
        "name": sought.name,
        "state": sought.state,
        "queue": sought.queue,
        "kind": sought.kind,
        "tag": sought.tag,
    }
