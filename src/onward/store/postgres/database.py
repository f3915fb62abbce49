"""A Postgres server as a database of the store."""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any, TypeVar

from onward.core.lease import GAPS_A_LEASE
from onward.errors import StoreUnusable, Unavailable
from onward.model.health import StoreHealth, TableHealth
from onward.store.caller_writes import CallerWrites
from onward.store.database import Capabilities
from onward.store.hints import HintBus
from onward.store.migrations import missing
from onward.store.postgres import batch, claim, pipeline_batch
from onward.store.postgres import pool as pools
from onward.store.postgres.admission import Home, PostgresAdmission, ServerIdentity
from onward.store.postgres.listener import Listener, channel_of
from onward.store.postgres.pool import Pool
from onward.store.postgres.transaction import PostgresTx
from onward.store.runs.stopping import subjects_of
from onward.store.statements import Dialect
from onward.telemetry.failpoints import failpoint

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence

    from onward.core.instant import Duration, Instant
    from onward.core.ports import Clock
    from onward.errors import LeaseLost
    from onward.model.claims import Wanted
    from onward.model.messages import NewMessage, SentMessage
    from onward.model.runs import ClaimedRun, Start, Started
    from onward.store.address import PostgresAddress
    from onward.store.database import Tx, Written
    from onward.store.hints import Carrier
    from onward.store.writing.batch import Batch

T = TypeVar("T")

# What workers and clients do all the time, and what may take long: neither waits for the other.
MAX_HOT = 6
MAX_SLOW = 4
MAX_SWEEP = 500
_MIGRATION_LOCK = 7_166_273_214  # any number, the same everywhere


class PostgresDatabase:
    """A namespace in a Postgres database.

    Renewals have a connection of their own, so that nothing can make them wait; so has listening.
    Reads and closures, which may be slow, are kept apart from the hot path.
    """

    def __init__(self, address: PostgresAddress, namespace: str, clock: Clock | None) -> None:
        self.is_private = False
        self.lanes = 2
        self.capabilities = Capabilities(listen=not address.pooled, prepared=not address.pooled)
        self.hints = HintBus()
        self.carrier: Carrier | None = None
        self.where = str(address)
        self._address = address
        self._namespace = namespace
        self._clock = clock
        self._dialect = Dialect(postgres=True, schema=address.schema, database_time=clock is None)
        self._statements = self._dialect.statements()
        self._hot = Pool(address, MAX_HOT)
        self._slow = Pool(address, MAX_SLOW)
        self._renewals = Pool(address, 1)
        self._listener: Listener | None = None
        self._place: ServerIdentity | None = None

    async def open(self) -> None:
        """Connect, migrate, and begin to listen."""
        for pool in (self._hot, self._slow, self._renewals):
            pool.open()
        try:
            await self._slow.run(self._migrate, patience=pools.OPEN_SECONDS)
        except BaseException:  # the caller cannot close what was never opened
            await self._slow.abandon()
            raise
        for pool in (self._hot, self._slow, self._renewals):
            pool.is_proven = True
        if self.capabilities.listen:
            self._listener = Listener(self._address, self._namespace, self.hints)
            self._listener.start()

    async def close(self) -> None:
        async with AsyncExitStack() as last:  # all of them, also if this is cancelled half way
            for pool in (self._hot, self._slow, self._renewals):
                last.push_async_callback(pool.close)
            if self._listener is not None:
                last.push_async_callback(self._listener.close)

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

    async def view(self, work: Callable[[Tx], Coroutine[Any, Any, T]]) -> T:

        async def look(connection: Any) -> T:
            async with connection.transaction(isolation="repeatable_read", readonly=True):
                return await work(self._tx(connection))

        return await self._slow.run(look)

    async def commit(self, worker: str, writes: Batch) -> Written:
        if not pipeline_batch.has_pipelines(writes):
            return await self._single(lambda tx: batch.write(tx, worker, writes), splits=True)
        return await self._transact(
            lambda tx: pipeline_batch.write(tx, worker, writes), self._hot, splits=True
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

    async def claim(self, wanted: Wanted, repeated: Callable[[], None]) -> list[ClaimedRun]:
        tries = 0

        async def work(tx: PostgresTx) -> list[ClaimedRun]:
            nonlocal tries
            tries += 1
            if tries > 1:
                repeated()
            flow = await claim.choose_limited(tx, wanted) if wanted.limited else None
            return await claim.claim(tx, wanted, flow)

        if wanted.limited:
            return await self._transact(work, self._hot)
        return await self._single(work)

    async def take_lease(self, worker: str, length: Duration) -> Instant | None:
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

    async def drop_lease(self, worker: str) -> None:
        await self._lease(lambda tx: tx.fetch("drop_lease", worker=worker))

    def within(self, connection: object, *, waits: bool = True) -> CallerWrites:
        look = self._statements["place"]
        channel = channel_of(self._address, self._namespace)
        home = Home(self._address.schema, channel, look, lambda: self._place, self.locate)
        admit = PostgresAdmission(connection, self.where, home, waits=waits)
        return CallerWrites(admit, self._statements, self._namespace, self._clock)

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
            "takes its time from the clock of the Postgres server",
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
        for carrier in (self._listener, self.carrier):
            if carrier is not None:
                carrier.publish(changed)

    def _tx(self, connection: Any) -> PostgresTx:
        return PostgresTx(connection, self._statements, self._namespace, self.where, self._clock)

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
        rows = await self._renewals.run(lambda connection: work(self._tx(connection)), quick=True)
        return rows[0][0] if rows else None

    async def _migrate(self, connection: Any) -> None:
        if not missing(await schema_number(connection, self._dialect), self.where):
            return
        failpoint("migrate.before")
        async with connection.transaction():
            await connection.execute(f"SELECT pg_advisory_xact_lock({_MIGRATION_LOCK})")
            if not await connection.fetchval("SELECT to_regnamespace($1)", self._address.schema):
                await connection.execute(f"CREATE SCHEMA {self._address.schema}")
            for number, text in missing(await schema_number(connection, self._dialect), self.where):
                for statement in self._dialect.script(text):
                    await connection.execute(statement)
                await self._tx(connection).fetch("set_schema", number=number)
        failpoint("migrate.after")


async def schema_number(connection: Any, dialect: Dialect) -> int:
    """Return the number of the schema in this database; 0 if there is none."""
    table = f"{dialect.schema}.onward_meta"
    if await connection.fetchval("SELECT to_regclass($1)", table) is None:
        return 0
    rows = await connection.fetch(dialect.statements()["schema"].sql)
    return int(rows[0][0]) if rows else 0
