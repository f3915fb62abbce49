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
    if sought.dead:
        rows = await tx.fetch("list_dead", **given, **_dead(sought))
    elif sought.family is None:
        rows = await tx.fetch("list_runs", **given, **_flat(sought))
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


async def count_runs(tx: Tx, sought: RunQuery, limit: int) -> int:
    """Return how many runs there are outside of families, counting up to a limit."""
    given = _narrowed(sought) | {"before": None, "limit": limit}
    if sought.dead:
        rows = await tx.fetch("count_dead", **given, **_dead(sought))
    else:
        rows = await tx.fetch("count_runs", **given, **_flat(sought))
    return int(rows[0][0])


def _flat(sought: RunQuery) -> dict[str, str | int | None]:
    return {
        "children": int(sought.children),
        "bound": int(sought.bound),
        "is_open": int(sought.is_open),
        "without": sought.without,
        "created_by": sought.created_by,
    }


def _dead(sought: RunQuery) -> dict[str, str | int | None]:
    return {
        "error": sought.error,
        "failed_step": sought.failed_step,
        "since": sought.since,
        "without": sought.without,
        "created_by": sought.created_by,
    }


def _narrowed(sought: RunQuery) -> dict[str, str | int | None]:
    return {
        "name": sought.name,
        "state": sought.state,
        "queue": sought.queue,
        "kind": sought.kind,
        "tag": sought.tag,
    }
