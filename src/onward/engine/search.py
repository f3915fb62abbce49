"""Lists of runs: filtered by their rows, by their family and by their attributes.

Attributes are notes in the histories of runs, and no index has them. So the runs that match all
else are looked through, newest first, until there are enough.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from onward.codec import encode, fingerprint
from onward.core.run import RunKind, RunState
from onward.engine.display import shown_notes
from onward.engine.info import infos_of
from onward.engine.starting import check_tag
from onward.errors import BadInput, NotFound
from onward.model.run_filter import Family, RunQuery

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from enum import StrEnum

    from onward.engine.views import RunInfo
    from onward.store.store import Store

SCANNED = 200
"""How many runs are looked through at a time for their attributes."""


class RunPage(NamedTuple):
    """A part of a list: how many runs at most, older than the run `before`."""

    limit: int = 100
    before: str | None = None


async def list_runs(
    store: Store,
    query: RunQuery,
    page: RunPage,
    attributes: Mapping[str, Sequence[Any]],
    *,
    parent: str | None = None,
    root: str | None = None,
) -> list[RunInfo]:
    """Return runs, newest first.

    Args:
        store: Where they are.
        query: What their rows must have.
        page: Which part of the list.
        attributes: The values that each of these attributes may have.
        parent: Only runs that this one, by id or uid, has started.
        root: This run and all below it.

    Raises:
        BadInput: no run can match.
        NotFound: there is no such parent or root.
    """
    _check(query, page)
    query = query._replace(family=await _family(store, parent, root))
    return await _find_runs(store, query, page, attributes)


def _check(query: RunQuery, page: RunPage) -> None:
    """Refuse what no run could be.

    Raises:
        BadInput: there is no such state or kind, a tag cannot be one, or the limit is negative.
    """
    _check_word("state", query.state, RunState)
    _check_word("kind", query.kind, RunKind)
    if query.tag is not None:
        check_tag(query.tag)
    if page.limit < 0:
        raise BadInput(f"limit={page.limit}", "is negative", "Pass a limit of 0 or more")


async def _family(store: Store, parent: str | None, root: str | None) -> Family | None:
    """Return the family that is meant by the id or uid of a run, if one is given.

    Raises:
        BadInput: both are given.
        NotFound: there is no such run.
    """
    if parent is not None and root is not None:
        raise BadInput(
            "parent and root",
            "cannot be combined",
            "Use parent for direct children, or root for all descendants",
        )
    top = parent or root
    if top is None:
        return None
    try:
        row = await store.newest(top)
    except NotFound:
        row = await store.run(top)
    return Family(row.uid, line=bool(row.newest), children_only=parent is not None)


async def _find_runs(
    store: Store, query: RunQuery, page: RunPage, attributes: Mapping[str, Sequence[Any]]
) -> list[RunInfo]:
    """Return runs, newest first, whose attributes each have one of the values given for it."""
    if not attributes:
        rows = await store.list_runs(query, limit=page.limit, before=page.before)
        return await infos_of(store, rows)
    wanted = {
        name: {_print(name, value) for value in values} for name, values in attributes.items()
    }
    found: list[RunInfo] = []
    before = page.before
    while len(found) < page.limit:
        rows = await store.list_runs(query, limit=SCANNED, before=before)
        said = await store.all_notes(row.uid for row in rows)
        for info in await infos_of(store, rows):
            noted = shown_notes(said[info.uid].notes, said[info.uid].attributes)
            if _fits(noted.attributes, wanted):
                found.append(replace(info, attributes=noted.attributes, counters=noted.counters))
        if len(rows) < SCANNED:
            break
        before = rows[-1].uid
    return found[: page.limit]


def _fits(attributes: Mapping[str, Any], wanted: Mapping[str, set[str]]) -> bool:
    return all(
        name in attributes and _print(name, attributes[name]) in prints
        for name, prints in wanted.items()
    )


def _print(name: str, value: Any) -> str:
    """Return a fingerprint that is equal for equal JSON values; `1` and `True` are not equal."""
    return fingerprint(encode(value, path=f"attribute {name}"))


def _check_word(what: str, given: str | None, words: type[StrEnum]) -> None:
    if given is not None and given not in set(words):
        raise BadInput(f"{what}={given!r}", f"is not a {what}", f"Use one of {', '.join(words)}")
