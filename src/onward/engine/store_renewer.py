"""The renewal of a lease by a process that reaches the database itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from onward.core.instant import Duration
    from onward.store.store import Store


class StoreRenewer:
    """Renews a lease in a store."""

    def __init__(self, store: Store, worker: str) -> None:
        self._store = store
        self._worker = worker

    async def renew(self, length: Duration) -> bool:
        return await self._store.renew_lease(self._worker, length) is not None

    async def release_others(
        self, blocking: Collection[str], length: Duration
    ) -> Mapping[str, int]:
        return await self._store.release_others(self._worker, blocking, length)

    async def note_blocked(self, run: str, error: bytes) -> None:
        await self._store.note_blocked(self._worker, run, error)
