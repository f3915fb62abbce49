"""Finding runs: by what is in their rows, and by what they say of themselves.

Attributes are notes in the histories of runs, and no index has them. So they are looked through,
newest run first, among those that all else has left, until there are enough.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from onward.codec import encode, fingerprint
from onward.core.run import RunKind, RunState
from onward.engine.starting import check_tag
from onward.errors import BadInput, NotFound
from onward.model.run_filter import Family, RunQuery
from onward.sdk.display import shown_notes
from onward.sdk.run import infos_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from enum import StrEnum

    from onward.sdk.run import RunInfo
    from onward.store.store import Store

LOOKED_THROUGH = 200
"""How many runs are looked through at a time."""


class Page(NamedTuple):
    """A part of a list: how many runs at most, older than the run `before`."""

    limit: int = 100
    before: str | None = None


def check_sought(sought: RunQuery, page: Page) -> None:
    """Refuse what no run could be.

    Raises:
        BadInput: there is no such state or kind, a tag cannot be one, or the limit is negative.
    """
    _check_word("state", sought.state, RunState)
    _check_word("kind", sought.kind, RunKind)
    if sought.tag is not None:
        check_tag(sought.tag)
    if page.limit < 0:
        raise BadInput(f"limit={page.limit}", "is negative", "Ask for some, page by page")


async def family_of(store: Store, parent: str | None, root: str | None) -> Family | None:
    """Return the family that is meant by the id or uid of a run, if one is given.

    Raises:
        BadInput: both are given.
        NotFound: there is no such run.
    """
    if parent is not None and root is not None:
        raise BadInput("parent and root", "are both given", "Give one: children, or all below")
    top = parent or root
    if top is None:
        return None
    try:
        row = await store.newest(top)
    except NotFound:
        row = await store.run(top)
    return Family(row.uid, line=bool(row.newest), children_only=parent is not None)


async def find_runs(
    store: Store, sought: RunQuery, page: Page, attributes: Mapping[str, Sequence[Any]]
) -> list[RunInfo]:
    """Return runs, newest first, whose attributes each have one of the values given for it."""
    if not attributes:
        rows = await store.list_runs(sought, limit=page.limit, before=page.before)
        return await infos_of(store, rows)
    wanted = {
        name: {_print(name, value) for value in values} for name, values in attributes.items()
    }
    found: list[RunInfo] = []
    before = page.before
    while len(found) < page.limit:
        rows = await store.list_runs(sought, limit=LOOKED_THROUGH, before=before)
        said = await store.all_notes(row.uid for row in rows)
        for info in await infos_of(store, rows):
            noted = shown_notes(said[info.uid].notes, said[info.uid].attributes)
            if _fits(noted.attributes, wanted):
                found.append(info._replace(attributes=noted.attributes, counters=noted.counters))
        if len(rows) < LOOKED_THROUGH:
            break
        before = rows[-1].uid
    return found[: page.limit]


def _fits(attributes: Mapping[str, Any], wanted: Mapping[str, set[str]]) -> bool:
    return all(
        name in attributes and _print(name, attributes[name]) in prints
        for name, prints in wanted.items()
    )


def _print(name: str, value: Any) -> str:
    """Return what is equal for equal values; `1` and `True` are not, as they are not in JSON."""
    return fingerprint(encode(value, path=f"attribute {name}"))


def _check_word(what: str, given: str | None, words: type[StrEnum]) -> None:
    if given is not None and given not in set(words):
        raise BadInput(f"{what}={given!r}", f"is no {what}", f"Use one of {', '.join(words)}")
