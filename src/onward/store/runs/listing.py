"""Lists of runs for operators: newest first, by pages."""

from __future__ import annotations

from operator import itemgetter
from typing import TYPE_CHECKING, Any

from onward.core.run import TERMINAL, RunState
from onward.model.runs import RunRow

if TYPE_CHECKING:
    from collections.abc import Sequence

    from onward.model.run_filter import RunQuery
    from onward.store.database import Tx

_DEEP = 1_000_000


async def listed(tx: Tx, sought: RunQuery, limit: int, before: str | None) -> list[RunRow]:
    """Return runs, newest first; `before` is the uid of the last one of the page before."""
    given: dict[str, Any] = _narrowed(sought) | {"limit": limit, "before": before}
    rows: Sequence[Sequence[Any]]
    if sought.dead:
        rows = await tx.fetch("list_dead", **given, **_dead(sought))
    elif sought.family is None and sought.name is not None:
        rows = await _named(tx, sought, given)
    elif sought.family is None and sought.state is not None:
        by_state = "list_ended" if sought.state in TERMINAL else "list_open"
        rows = await tx.fetch(by_state, **given, **_flat(sought))
    elif sought.family is None:
        rows = await tx.fetch("list_runs", **given, **_flat(sought))
    else:
        top, line, children_only = sought.family
        highest, deepest = (1, 1) if children_only else (0, _DEEP)
        rows = await tx.fetch(
            "list_family", **given, top=top, line=int(line), highest=highest, deepest=deepest
        )
    return [RunRow._make(row) for row in rows]


async def _named(tx: Tx, sought: RunQuery, given: dict[str, Any]) -> Sequence[Sequence[Any]]:
    """Return runs of a workflow: those of each state are found by themselves, newest first."""
    states = sorted(RunState) if sought.state is None else [sought.state]
    rows: list[Sequence[Any]] = []
    for state in states:
        rows += await tx.fetch("list_named", in_state=state, **given, **_flat(sought))
    return sorted(rows, key=itemgetter(0), reverse=True)[: given["limit"]]


async def count_started_by_runs(tx: Tx, sought: RunQuery, limit: int) -> int:
    """Return how many there are that other runs have started, as far as that is worth counting."""
    rows = await tx.fetch("count_started_by_runs", **_narrowed(sought), limit=limit)
    return int(rows[0][0])


async def counts(tx: Tx, limit: int) -> dict[str, int]:
    """Return how many runs are in each state that has any, counting up to a limit."""
    found: dict[str, int] = {}
    for state in sorted(RunState):
        statement = "count_ended" if state in TERMINAL else "count_open"
        [[count]] = await tx.fetch(statement, state=state, limit=limit)
        if count:
            found[state.value] = int(count)
    return found


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
