"""The leases of workers, as a part of the store."""

from __future__ import annotations

from typing import TYPE_CHECKING

from onward.core.lease import LEASE
from onward.telemetry.failpoints import failpoint

if TYPE_CHECKING:
    from collections.abc import Mapping

    from onward.core.instant import Duration, Instant
    from onward.model.workers import RenewedLease
    from onward.store.database import Database


class Leases:
    """The operations of a store on the leases of workers."""

    database: Database

    async def take_lease(
        self, worker: str, length: Duration = LEASE, *, is_remote: bool = False
    ) -> Instant | None:
        """Begin a worker's lease and return when it expires; `None` if that worker has one.

        Args:
            worker: The worker.
            length: How long the lease lasts without a renewal.
            is_remote: The worker is not in this process: the lease ends by time alone, also if this
                process ends.
        """
        return await self.database.take_lease(worker, length, is_remote=is_remote)

    async def renew_lease(self, worker: str, length: Duration = LEASE) -> Instant | None:
        """Renew a worker's lease and return when it expires; `None` means that it is lost."""
        failpoint("renew.before")
        until = await self.database.renew_lease(worker, length)
        failpoint("renew.after")
        return until

    async def renew_leases(self, lengths: Mapping[str, Duration]) -> dict[str, RenewedLease]:
        """Renew the leases of many workers at once, each for its own length.

        The answer has an entry for each of the workers.
        """
        failpoint("renew.before")
        renewed = await self.database.renew_leases(lengths)
        failpoint("renew.after")
        return renewed

    async def drop_lease(self, worker: str) -> None:
        """End a worker's lease: other workers may claim the runs that it still has."""
        await self.database.drop_lease(worker)
