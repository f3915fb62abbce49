"""A Postgres server as a database of the store."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from onward.core.lease import GAPS_A_LEASE
from onward.errors import StoreUnusable, Unavailable
from onward.model.health import StoreHealth, TableHealth
from onward.model.workers import RenewedLease
from onward.store.caller_writes import CallerWrites
from onward.store.postgres import batch, claim, pipeline_batch
from onward.store.postgres.admission import Home, PostgresAdmission, ServerIdentity
from onward.store.postgres.connections import PostgresConnections
from onward.store.postgres.listener import channel_of
from onward.store.runs.flows import add_queues
from onward.store.runs.stopping import subjects_of
from onward.telemetry.failpoints import failpoint

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence

    from onward.core.instant import Duration, Instant
    from onward.core.ports import Clock
    from onward.errors import LeaseLost
    from onward.model.claims import ClaimNotes, Wanted
    from onward.model.messages import NewMessage, SentMessage
    from onward.model.runs import ClaimedRun, Start, Started
    from onward.store.address import PostgresAddress
    from onward.store.database import Tx, Written
    from onward.store.hints import Carrier
    from onward.store.postgres.listener import Channel
    from onward.store.postgres.pool import Pool
    from onward.store.postgres.transaction import PostgresTx
    from onward.store.writing.batch import Batch

T = TypeVar("T")

MAX_SWEEP = 500


class PostgresDatabase:
    """A namespace in a Postgres database.

    Args:
        address: Where it is.
        namespace: The namespace.
        clock: Where time is read; `None` is the server's own clock.
        shared: The connections of another namespace that is open, which stay that one's.
    """

    def __init__(
        self,
        address: PostgresAddress,
        namespace: str,
        clock: Clock | None,
        shared: PostgresConnections | None = None,
    ) -> None:
        self._connections = PostgresConnections(address, clock) if shared is None else shared
        self._is_owner = shared is None
        self.is_private = False
        self.lanes = 2
        self.capabilities = self._connections.capabilities
        self.hints = self._connections.hints.of(namespace)
        self.carrier: Carrier | None = None
        self.where = str(address)
        self._address = address
        self._namespace = namespace
        self._clock = clock
        self._hot = self._connections.hot
        self._slow = self._connections.slow
        self._channel: Channel | None = None
        self._queues: set[str] = set()
        """Queues whose rows are there; they are never deleted."""
        self._place: ServerIdentity | None = None

    def in_namespace(self, namespace: str) -> PostgresDatabase:
        return PostgresDatabase(self._address, namespace, self._clock, self._connections)

    async def open(self) -> None:
        """Connect, migrate, and begin to listen; a shared connection does this already."""
        if self._is_owner:
            await self._connections.open()
        else:
            self._slow.check_open()
        if self._connections.listener is not None:
            self._channel = self._connections.listener.join(self._namespace, self.hints)

    async def close(self) -> None:
        channel, self._channel = self._channel, None
        if channel is not None:
            channel.leave()
        if self._is_owner:
            await self._connections.close()

    async def write(
        self, work: Callable[[Tx], Coroutine[Any, Any, T]], *, patient: bool = True
    ) -> T:
        if patient:
            return await self._transact(work, self._slow)

        async def at_once(tx: PostgresTx) -> T:
            await tx.fetch("wait_shortly_for_locks")
            return await work(tx)

        return await self._transact(at_once, self._slow, splits=True)

    async def _transact(
        self, work: Callable[[PostgresTx], Awaitable[T]], pool: Pool, *, splits: bool = False
    ) -> T:
        async def transact(connection: Any) -> T:
            async with connection.transaction():
                result = await work(self._tx(connection))
                failpoint("commit.before")
            failpoint("commit.after")
            return result

        return await pool.run(transact, splits=splits)

    async def read(self, work: Callable[[Tx], Coroutine[Any, Any, T]]) -> T:
        return await self._slow.run(lambda connection: work(self._tx(connection)))

    async def snapshot(self, work: Callable[[Tx], Coroutine[Any, Any, T]]) -> T:

        async def look(connection: Any) -> T:
            async with connection.transaction(isolation="repeatable_read", readonly=True):
                return await work(self._tx(connection))

        return await self._slow.run(look)

    async def commit(self, writes: Batch) -> Written:
        if not pipeline_batch.has_pipelines(writes):
            return await self._single(lambda tx: batch.write(tx, writes), splits=True)
        return await self._transact(
            lambda tx: pipeline_batch.write(tx, writes), self._hot, splits=True
        )

    async def start(self, starts: Sequence[Start]) -> Sequence[Started | LeaseLost]:
        return await self._single(lambda tx: batch.start(tx, starts), splits=True)

    async def send(self, messages: Sequence[NewMessage]) -> Sequence[SentMessage | None]:
        answers, behind = await self._single(
            lambda tx: batch.send_in_turn(tx, messages), splits=True
        )
        if not behind:
            return answers
        try:
            swept = await self._transact(
                lambda tx: batch.sweep_runs(tx, behind, MAX_SWEEP), self._hot, splits=True
            )
            self.publish(subjects_of(swept))
            left = [message for message, sent in zip(messages, answers, strict=True) if not sent]
            rest = iter(await self._single(lambda tx: batch.send(tx, left), splits=True))
        except Unavailable:
            if not any(answers):
                raise
            return answers  # what was sent is answered, the others are tried by themselves
        return [sent or next(rest) for sent in answers]

    async def sweep(self, limit: int) -> Sequence[SentMessage]:
        return await self._transact(lambda tx: batch.sweep(tx, limit), self._hot)

    async def claim(self, wanted: Wanted, notes: ClaimNotes) -> list[ClaimedRun]:
        tries = 0

        async def work(tx: PostgresTx) -> list[ClaimedRun]:
            nonlocal tries
            tries += 1
            notes.was_repeated = tries > 1
            flow = await claim.choose_limited(tx, wanted) if wanted.limited else None
            return await claim.claim(tx, wanted, notes, flow)

        if not wanted.limited:
            return await self._single(work)
        await self._add_queues(wanted.queues)
        return await self._transact(work, self._hot)

    async def _add_queues(self, queues: Iterable[str]) -> None:
        """Add the rows of queues before a claim locks them.

        A change of limits must see these rows, so that it waits for the claims that lock them.
        """
        new = set(queues) - self._queues
        if new:
            await self._single(lambda tx: add_queues(tx, new))
            self._queues |= new

    async def take_lease(
        self,
        worker: str,
        length: Duration,
        *,
        is_remote: bool = False,  # noqa: ARG002 - all leases end by time alone here
    ) -> Instant | None:
        tries = 0

        async def take(tx: PostgresTx) -> Sequence[Sequence[Any]]:
            nonlocal tries
            tries += 1
            rows = await tx.fetch("take_lease", worker=worker, length=length)
            if rows or tries == 1:
                return rows
            # Names of workers are never used twice, so it is ours: a reply was lost.
            return await tx.fetch("lease_here", worker=worker)

        return await self._lease(take)

    async def renew_lease(self, worker: str, length: Duration) -> Instant | None:
        """Prolong a worker's lease on a connection of its own; `None` means that it is lost."""
        return await self._lease(
            lambda tx: tx.fetch("renew_lease", worker=worker, length=length, gaps=GAPS_A_LEASE)
        )

    async def renew_leases(self, lengths: Mapping[str, Duration]) -> dict[str, RenewedLease]:
        workers = sorted(lengths)
        given = {"worker": workers, "length": [lengths[worker] for worker in workers]}
        rows = await self._renew(lambda tx: tx.fetch("renew_leases", gaps=GAPS_A_LEASE, **given))
        return {worker: RenewedLease(until, bool(drains)) for worker, until, drains in rows}

    async def drop_lease(self, worker: str) -> None:
        await self._lease(lambda tx: tx.fetch("drop_lease", worker=worker))

    def within(self, connection: object, *, waits: bool = True) -> CallerWrites:
        look = self._connections.statements["place"]
        channel = channel_of(self._address, self._namespace)
        home = Home(self._address.schema, channel, look, lambda: self._place, self.locate)
        admit = PostgresAdmission(connection, self.where, home, waits=waits)
        return CallerWrites(admit, self._connections.statements, self._namespace, self._clock)

    async def measure(self) -> StoreHealth:
        async def look(tx: Tx) -> StoreHealth:
            settings = {row[0]: row[1] for row in await tx.fetch("durability_settings")}
            tables = tuple(TableHealth._make(row) for row in await tx.fetch("table_health"))
            [[oldest]] = await tx.fetch("oldest_transaction")
            size = sum(table.size for table in tables)
            return StoreHealth(settings, size, tables=tables, oldest_transaction=oldest)

        return await self.read(look)

    async def reset_clock(self) -> Duration:
        """Refuse: the time is the server's.

        Raises:
            StoreUnusable: always.
        """
        raise StoreUnusable(
            self.where,
            "gets the time from the clock of the Postgres server",
            "Set the clock of that machine",
        )

    async def locate(self) -> None:
        """Learn which server this is, to compare with what callers' connections see."""
        schema = self._address.schema
        [[database, started, *_]] = await self.read(lambda tx: tx.fetch("place", schema=schema))
        self._place = ServerIdentity(database, started)

    def publish(self, subjects: Iterable[str]) -> None:
        """Ring hints here and, where LISTEN works, in other processes."""
        changed = frozenset(subjects)
        self.hints.publish(changed)
        for carrier in (self._channel, self.carrier):
            if carrier is not None:
                carrier.publish(changed)

    def _tx(self, connection: Any) -> PostgresTx:
        return self._connections.tx(connection, self._namespace)

    async def _single(
        self, work: Callable[[PostgresTx], Awaitable[T]], *, splits: bool = False
    ) -> T:
        """Run work that is one statement, and so a transaction by itself."""

        async def run(connection: Any) -> T:
            failpoint("commit.before")
            result = await work(self._tx(connection))
            failpoint("commit.after")
            return result

        return await self._hot.run(run, quick=True, splits=splits)

    async def _lease(
        self, work: Callable[[PostgresTx], Awaitable[Sequence[Sequence[Any]]]]
    ) -> Instant | None:
        """Run a statement about a lease and return the first value of its first row."""
        rows = await self._renew(work)
        return rows[0][0] if rows else None

    async def _renew(
        self, work: Callable[[PostgresTx], Awaitable[Sequence[Sequence[Any]]]]
    ) -> Sequence[Sequence[Any]]:
        """Run a statement about leases on the connection that is kept for them."""
        renewals = self._connections.renewals
        return await renewals.run(lambda connection: work(self._tx(connection)), quick=True)
