"""Lists of runs for people: which ones are wanted, newest first, by pages."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from onward.store.rows import RunRow

if TYPE_CHECKING:
    from onward.store.database import Tx

_DEEP = 1_000_000


class Family(NamedTuple):
    """Runs that belong together: those that one run has started, and all below."""

    top: str
    """The uid of the run above them."""
    line: bool = True
    """Also those of the runs before it under the same id."""
    children_only: bool = False
    """Only those that it has started itself; otherwise itself too, and all below."""


class Sought(NamedTuple):
    """Which runs a list is to have; None means any."""

    name: str | None = None
    state: str | None = None
    queue: str | None = None
    kind: str | None = None
    tag: str | None = None
    children: bool = True
    """Also those that other runs have started."""
    family: Family | None = None


EVERY = Sought()


async def listed(tx: Tx, sought: Sought, limit: int, before: str | None) -> list[RunRow]:
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


async def count_started_by_runs(tx: Tx, sought: Sought, most: int) -> int:
    """Return how many there are that other runs have started, as far as that is worth counting."""
    rows = await tx.fetch("count_started_by_runs", **_narrowed(sought), limit=most)
    return int(rows[0][0])


def _narrowed(sought: Sought) -> dict[str, str | None]:
    return {
        "name": sought.name,
        "state": sought.state,
        "queue": sought.queue,
        "kind": sought.kind,
        "tag": sought.tag,
    }
