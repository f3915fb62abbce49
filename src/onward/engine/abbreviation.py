"""Which run or effect is meant by an id, or by the beginning of one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, TypeVar

from onward.errors import NotFound, RunOver, UserError
from onward.store.runs import ledger

if TYPE_CHECKING:
    from collections.abc import Mapping

    from onward.model.effects import EffectRow
    from onward.model.runs import RunRow
    from onward.store.store import Store

T = TypeVar("T")

MAX_FOUND = 10
_MAX_NAMED = 3


@dataclass(eq=False, repr=False)
class Unclear(UserError):
    """What was given is not the id of one thing, but the beginning of others."""

    code: ClassVar[str] = "unclear"
    kind: str
    given: str
    found: tuple[str, ...]
    advice: str = "Pass more of the id, or all of it"

    def __str__(self) -> str:
        named = ", ".join(self.found[:_MAX_NAMED])
        more = " and others" if len(self.found) > _MAX_NAMED else ""
        return (
            f"{self.given!r} is not a complete {self.kind} id: it matches {named}{more}. "
            f"{self.advice}."
        )


async def find_run(store: Store, given: str, *, changes: bool) -> RunRow:
    """Return the run that is meant: by id, uid, or the beginning of either.

    With `changes`, an id must be given whole, so that a change meant for `order-1` never reaches
    `order-10`, and only the newest run of an id will do.

    Raises:
        NotFound: there is none.
        Unclear: there are several, or the id must be whole.
        RunOver: the run is to be changed, but another has its id now.
    """
    try:
        return await store.newest(given)
    except NotFound:
        pass
    found = {row.uid: row for row in await store.find_runs(given.lower())}
    if found:
        row = only_one("run", given, found, store.namespace)
        if changes and not row.newest:
            raise RunOver(
                row.uid,
                f"a newer run has the same id, {row.id!r}",
                "Use that id to change the newer run",
            )
        return row
    named = {row.id: row for row in await store.find_ids(given)}
    if changes and named:
        raise Unclear("run", given, tuple(named), "To change a run, pass its full id")
    return only_one("run", given, named, store.namespace)


async def find_effect(store: Store, given: str) -> EffectRow:
    """Return the effect that is meant by its key, or the beginning of it.

    Raises:
        NotFound: there is none.
        Unclear: there are several.
    """
    rows = await ledger.effects_beginning(store, given.lower(), MAX_FOUND)
    return only_one("effect", given, {row.key: row for row in rows}, store.namespace)


def only_one(kind: str, given: str, found: Mapping[str, T], namespace: str) -> T:
    """Return what a text stands for, of all that was found to begin so, by id.

    Raises:
        NotFound: there is none.
        Unclear: there are several.
    """
    if given in found:
        return found[given]
    if len(found) > 1:
        raise Unclear(kind, given, tuple(found))
    for only in found.values():
        return only
    raise NotFound(kind, given, namespace)
