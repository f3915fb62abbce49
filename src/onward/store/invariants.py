"""Invariants of every database, as statements that return what violates them.

Most are checked run by run. `check` and `check_page` read all runs, and `check_some` a number that
does not grow with the store: open runs and the newest ones.
"""

from __future__ import annotations

import re
from functools import cache, partial
from importlib.resources import files
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from onward.store.database import Tx
    from onward.store.store import Store

PAGE_RUNS: Final = 1000
"""How many runs one statement checks at most."""
PAGE_ROWS: Final = 20_000
"""How many rows these runs have at most, unless a single run has more."""
SOME_RUNS: Final = 5000
"""How many runs of each state, and of the newest, `check_some` reads at most."""
SOME_ROWS: Final = 200_000
"""How many rows these runs have at most."""
ALL_ROWS: Final = 1 << 62

_CHECK = re.compile(r"^-- name: (check_\w+)\n-- ([^\n]+)$", re.MULTILINE)


class Violation(NamedTuple):
    """An invariant that does not hold, and for what."""

    name: str
    rule: str
    subjects: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.name}: {self.rule}; broken by {', '.join(self.subjects)}"


class Checked(NamedTuple):
    """What a check has found.

    Attributes:
        violations: What does not hold.
        runs: How many runs were checked.
        is_all: Whether these are all that there are, from where the check began.
        after: Where the next page begins; None if this was the last one.
    """

    violations: list[Violation]
    runs: int
    is_all: bool = True
    after: str | None = None


def invariants() -> dict[str, str]:
    """Return the names of all invariants, and what each means."""
    return _of_runs() | _of_rows()


@cache
def _of_runs() -> dict[str, str]:
    return _read("check.sql")


@cache
def _of_rows() -> dict[str, str]:
    return _read("check_rows.sql")


def _read(file: str) -> dict[str, str]:
    text = (files("onward.store") / "sql" / file).read_text("utf-8")
    return dict(_CHECK.findall(text))


async def check(store: Store) -> list[Violation]:
    """Return every invariant that does not hold in the store's namespace.

    All are checked in one consistent view, so a busy database gives no false alarm.
    """
    return await store.snapshot(violated)


async def violated(tx: Tx) -> list[Violation]:
    """Return every invariant that does not hold as this transaction sees it."""
    found = _Found()
    after = ""
    while uids := await _next_page(tx, after):
        await found.check_runs(tx, uids)
        after = uids[-1]
    await found.check_rows(tx, ALL_ROWS)
    return found.violations()


async def check_page(store: Store, after: str) -> Checked:
    """Check the runs that come after a uid, some at a time, in a view of their own.

    The last page, which has no runs, checks the rows that belong to none.
    """

    async def work(tx: Tx) -> Checked:
        found, uids = _Found(), await _next_page(tx, after)
        if not uids:
            await found.check_rows(tx, ALL_ROWS)
            return Checked(found.violations(), 0)
        await found.check_runs(tx, uids)
        return Checked(found.violations(), len(uids), after=uids[-1])

    return await store.snapshot(work)


async def check_some(store: Store) -> Checked:
    """Check open runs and the newest ones; what is read does not grow with the store."""
    found, runs, rows = _Found(), 0, 0
    sample = await store.read(lambda tx: tx.fetch("some_runs_to_check", limit=SOME_RUNS))
    for uids, size in _pages([(row[0], row[1]) for row in sample]):
        await store.snapshot(partial(found.check_runs, uids=uids))
        runs, rows = runs + len(uids), rows + size
        if rows >= SOME_ROWS:
            break
    await store.snapshot(partial(found.check_rows, limit=SOME_RUNS))
    # If the newest runs were fewer than could be, they are all there are.
    return Checked(found.violations(), runs, is_all=runs == len(sample) < SOME_RUNS)


async def _next_page(tx: Tx, after: str) -> list[str]:
    rows = await tx.fetch("runs_to_check", after=after, limit=PAGE_RUNS)
    return next((uids for uids, _ in _pages([(row[0], row[1]) for row in rows])), [])


def _pages(runs: Sequence[tuple[str, int]]) -> Iterator[tuple[list[str], int]]:
    """Divide runs into pages, each with the number of its rows."""
    uids: list[str] = []
    rows = 0
    for uid, size in runs:
        uids.append(uid)
        rows += size + 1
        if len(uids) == PAGE_RUNS or rows >= PAGE_ROWS:
            yield uids, rows
            uids, rows = [], 0
    if uids:
        yield uids, rows


class _Found:
    """What violates each invariant."""

    def __init__(self) -> None:
        self._subjects: dict[str, dict[str, None]] = {}

    async def check_runs(self, tx: Tx, uids: Sequence[str]) -> None:
        given = tx.array(uids)
        for name in _of_runs():
            self._add(name, await tx.fetch(name, uids=given))

    async def check_rows(self, tx: Tx, limit: int) -> None:
        for name in _of_rows():
            self._add(name, await tx.fetch(name, limit=limit))

    def _add(self, name: str, rows: Sequence[Sequence[object]]) -> None:
        if rows:
            self._subjects.setdefault(name, {}).update((str(row[0]), None) for row in rows)

    def violations(self) -> list[Violation]:
        rules = invariants()
        return [
            Violation(name, rules[name], tuple(self._subjects[name]))
            for name in rules
            if name in self._subjects
        ]
