"""Lists of runs for operators: newest first, by pages."""

from __future__ import annotations

from operator import itemgetter
from typing import TYPE_CHECKING, Any

from onward.core.run import TERMINAL, RunKind, RunState
from onward.model.run_filter import RunQuery
from onward.model.runs import RunRow

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Sequence

    from onward.store.database import Tx

_DEEP = 1_000_000
_LAST = chr(0x10FFFF)
"""Sorts after every uid."""
_OPEN = tuple(sorted(frozenset(RunState) - TERMINAL))

_STATEMENTS = {
    "any": ("list_any", "count_any"),
    "top": ("list_top", "count_top"),
    "top_kind": ("list_top_kind", "count_top_kind"),
    "child": ("list_child", "count_child"),
    "queue": ("list_queue", "count_queue"),
    "queue_child": ("list_queue_child", "count_queue_child"),
    "named": ("list_named", "count_named"),
    "tagged": ("list_tagged", "count_tagged"),
}
"""How runs are listed and counted by each index."""

Source = tuple[str, dict[str, str]]
"""An index by which runs are found, and what is looked for in it."""


async def listed(tx: Tx, sought: RunQuery, limit: int, before: str | None) -> list[RunRow]:
    """Return runs, newest first; `before` is the uid of the last one of the page before."""
    given: dict[str, Any] = _narrowed(sought) | {"limit": limit, "before": before or _LAST}
    rows: list[Sequence[Any]] = []
    if sought.dead:
        rows += await tx.fetch("list_dead", **given, **_dead(sought))
    elif sought.family is not None:
        top, line, children_only = sought.family
        highest, deepest = (1, 1) if children_only else (0, _DEEP)
        rows += await tx.fetch(
            "list_family", **given, top=top, line=int(line), highest=highest, deepest=deepest
        )
    else:
        given |= _flat(sought)
        for source, values in await _sources(tx, sought):
            rows += await tx.fetch(_STATEMENTS[source][0], **given, **values)
    rows.sort(key=itemgetter(0), reverse=True)
    return [RunRow._make(row) for row in rows[:limit]]


async def count_runs(tx: Tx, sought: RunQuery, limit: int) -> int:
    """Return how many runs there are outside of families, counting up to a limit."""
    given: dict[str, Any] = _narrowed(sought) | {"before": _LAST}
    if sought.dead:
        [[count]] = await tx.fetch("count_dead", **given, **_dead(sought), limit=limit)
        return int(count)
    given |= _flat(sought)
    found = 0
    for source, values in await _sources(tx, sought):
        statement = _STATEMENTS[source][1]
        [[count]] = await tx.fetch(statement, **given, **values, limit=limit - found)
        found += count
        if found >= limit:
            break
    return found


async def counts(tx: Tx, limit: int) -> dict[str, int]:
    """Return how many runs are in each state that has any, counting up to a limit."""
    found = {
        state.value: await count_runs(tx, RunQuery(state=state), limit)
        for state in sorted(RunState)
    }
    return {state: count for state, count in found.items() if count}


async def _sources(tx: Tx, sought: RunQuery) -> list[Source]:
    """Return by which indexes the runs are found; each run is found by one of them.

    What is read grows with the runs that one filter chooses: the first that is given of workflow,
    tag, queue, and state. Further filters choose among those.
    """
    states = [sought.state] if sought.state is not None else _OPEN if sought.is_open else RunState
    if sought.name is not None:
        return [("named", {"in_state": state}) for state in states]
    if sought.tag is not None:
        with_tag = [tags async for tags in _combinations(tx) if sought.tag in tags.split(" ")]
        return [("tagged", {"tags": tags, "in_state": s}) for tags in with_tag for s in states]
    is_narrow = sought.is_open or sought.state or sought.queue or sought.kind
    if not is_narrow and sought.children and not sought.only_children:
        return [("any", {})]
    return [source for state in states for source in _by_state(sought, state)]


def _by_state(sought: RunQuery, state: str) -> Iterator[Source]:
    by_state = {"in_state": state}
    if not sought.only_children:
        top = "top" if sought.kind in (None, RunKind.WORKFLOW) else "top_kind"
        yield top if sought.queue is None else "queue", by_state
    if sought.children and sought.queue is not None:
        yield "queue_child", by_state
    elif sought.children:
        kinds = RunKind if sought.kind is None else [sought.kind]
        yield from (("child", by_state | {"of_kind": kind}) for kind in kinds)


async def _combinations(tx: Tx) -> AsyncIterator[str]:
    """Return the combinations of tags that runs have."""
    last = ""
    while rows := await tx.fetch("next_tags", after=last):
        last = rows[0][0]
        yield last


def _flat(sought: RunQuery) -> dict[str, str | int | None]:
    return {
        "children": "only" if sought.only_children else "with" if sought.children else "without",
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
