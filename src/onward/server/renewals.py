"""Renewals of leases: those that arrive while others are being written become one statement."""

from __future__ import annotations

from typing import TYPE_CHECKING

from onward.store.writing.lane import Lane

if TYPE_CHECKING:
    from collections.abc import Sequence

    from onward.core.instant import Duration
    from onward.model.workers import RenewedLease
    from onward.store.store import Store

    Renewal = tuple[str, Duration]


class Renewals:
    """Renews the leases of all workers of a namespace."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lane: Lane[Renewal, RenewedLease] = Lane(
            self._apply, name="onward renewals", key=lambda renewal: renewal[0]
        )

    async def renew(self, worker: str, length: Duration) -> RenewedLease:
        """Renew a lease for so long from now.

        Raises:
            Unavailable: the database cannot be reached.
        """
        return await self._lane.submit((worker, length))

    async def _apply(self, renewals: list[Renewal]) -> Sequence[RenewedLease | None]:
        renewed = await self._store.renew_leases(dict(renewals))
        return [renewed[worker] for worker, _ in renewals]
