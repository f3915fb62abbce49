"""Looks at a database again and again, and finds what must never change changed."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from onward.codec import decode
from onward.engine.payloads import unpack
from onward.store.invariants import check

if TYPE_CHECKING:
    from collections.abc import Collection
    from typing import Any

    from onward.model.records import RecordRow
    from onward.model.runs import RunRow
    from onward.store.store import Store


class Witness:
    """Remembers every record that it ever saw closed."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._closed: dict[tuple[str, str, int], RecordRow] = {}
        self.looks = 0

    async def look(self) -> None:
        """Check every invariant, and that all that was ever recorded is still there, unchanged."""
        self.looks += 1
        assert await check(self._store) == []
        uids = await self.uids()
        now = {
            (row.run, row.identity, row.attempt): row
            for rows in (await self._store.history(uids)).values()
            for row in rows
            if row.state != "open"
        }
        changed = {key: row for key, row in self._closed.items() if now.get(key) != row}
        assert changed == {}, "what was recorded has changed"
        self._closed = now

    async def uids(self) -> list[str]:
        """Return all runs that are there."""
        found: list[str] = []
        before = None
        while page := await self._store.list_runs(limit=500, before=before):
            found += [row.uid for row in page]
            before = found[-1]
        return found

    async def see_starts(self, started: Collection[str]) -> list[RunRow]:
        """Check that only these runs were started, and that each call has one run.

        Returns:
            All runs.
        """
        rows = [await self._store.run(uid) for uid in await self.uids()]
        assert sorted(row.uid for row in rows if row.parent is None) == sorted(started)
        calls = Counter((row.parent, row.parent_identity) for row in rows if row.parent)
        assert set(calls.values()) <= {1}, "a call has two runs"
        return rows

    async def rows(self) -> list[object]:
        """Return everything that owners write: runs, histories, inboxes and results."""
        uids = await self.uids()
        return [
            # A worker that comes back takes back that its runs were counted as crashed.
            [(await self._store.run(uid))._replace(crashes=0) for uid in uids],
            await self._store.history(uids),
            await self._store.look(uids),
            await self._store.ends(uids),
        ]

    async def result(self, uid: str) -> Any:
        """Return what came of a run; it must have succeeded."""
        end = await self._store.end(uid)
        assert end.state == "succeeded", f"run {uid} is {end.state} ({end.reason})"
        assert end.result is not None
        return decode(unpack(end.result))
