"""Deletes old runs in the background, a little at a time."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import TYPE_CHECKING

from onward.core.instant import MINUTE, SECOND
from onward.store.runs.retention import drop_expired, prune

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from onward.core.ports import Clock
    from onward.core.retention import Retention
    from onward.model.retention import Position
    from onward.store.store import Store

BURST = SECOND // 5
"""For how long a tick works at most, apart from the last transaction: a fifth of the time."""
REST = MINUTE
"""How long after it has found no more old runs it looks again."""


class Pruner:
    """Deletes runs that ended long ago. Call `tick()` about once a second.

    Any number of processes may do so at a time: each leaves alone what another is working on.

    Args:
        store: Where the runs are.
        clock: Tells when to look again.
        keep: How long runs are kept; None deletes nothing.
        on_deleted: Called with the number of rows that were deleted, by table.
    """

    def __init__(
        self,
        store: Store,
        clock: Clock,
        keep: Retention | None,
        on_deleted: Callable[[Mapping[str, int]], None],
    ) -> None:
        self._store = store
        self._clock = clock
        self._keep = keep
        self._on_deleted = on_deleted
        self._position: Position | None = None
        self._next_look = clock.monotonic() + REST // 2
        self._next_report = 0
        self._deleted: Counter[str] = Counter()
        self._task: asyncio.Task[None] | None = None

    def tick(self) -> None:
        """Do a part of the work in a task of its own, so that claims do not wait for it.

        Raises:
            OnwardError: the part before failed.
        """
        if self._task is not None:
            if not self._task.done():
                return
            failed, self._task = self._task, None
            failed.result()
        now = self._clock.monotonic()
        if self._keep is not None and now >= self._next_look:
            self._next_look = now + SECOND
            self._task = asyncio.create_task(self._work(self._keep), name="onward retention")

    async def close(self) -> None:
        """Stop after the transaction under way."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
            if not self._task.cancelled():
                self._task.exception()  # it was about to be raised by a tick that does not come
        self._report()

    async def _work(self, keep: Retention) -> None:
        begun = self._clock.monotonic()
        while True:
            rows, self._position = await prune(self._store, keep, self._position)
            self._deleted.update(rows)
            now = self._clock.monotonic()
            if self._position is None:
                await drop_expired(self._store)
                self._next_look = now + REST
            if self._position is None or now >= self._next_report:
                self._report()
                self._next_report = now + MINUTE
            if self._position is None or now - begun >= BURST:
                return

    def _report(self) -> None:
        if self._deleted:
            deleted, self._deleted = self._deleted, Counter()
            self._on_deleted(deleted)
