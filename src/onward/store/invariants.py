"""Invariants of every database, as statements that return what violates them."""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from onward.store.database import Tx
    from onward.store.store import Store

_CHECK = re.compile(r"^-- name: (check_\w+)\n-- ([^\n]+)$", re.MULTILINE)


class Violation(NamedTuple):
    """An invariant that does not hold, and for what."""

    name: str
    rule: str
    subjects: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.name}: {self.rule}; broken by {', '.join(self.subjects)}"


@cache
def invariants() -> dict[str, str]:
    """Return the names of all invariants, and what each means."""
    text = (files("onward.store") / "sql" / "check.sql").read_text("utf-8")
    return dict(_CHECK.findall(text))


async def check(store: Store) -> list[Violation]:
    """Return every invariant that does not hold in the store's namespace.

    All are checked in one consistent view, so a busy database gives no false alarm.
    """
    return await store.view(violated)


async def violated(tx: Tx) -> list[Violation]:
    """Return every invariant that does not hold as this transaction sees it."""
    found = [(name, rule, await tx.fetch(name)) for name, rule in invariants().items()]
    return [
        Violation(name, rule, tuple(str(row[0]) for row in rows))
        for name, rule, rows in found
        if rows
    ]
