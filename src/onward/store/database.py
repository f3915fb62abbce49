"""What the store needs of a database.

Store functions are written once, as coroutines that take a `Tx` and await nothing else. Postgres
runs them on the event loop; SQLite runs them to completion in its writer thread, where a `Tx` never
suspends, and many of them share one SQLite transaction.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeVar

from onward.model.commits import CommitOutcome

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence

    from onward.core.instant import Duration, Instant
    from onward.core.lease import Fate
    from onward.errors import LeaseLost
    from onward.model.claims import ClaimNotes, Wanted
    from onward.model.commits import Commit
    from onward.model.health import StoreHealth
    from onward.model.messages import NewMessage, SentMessage
    from onward.model.runs import ClaimedRun, Start, Started
    from onward.model.workers import RenewedLease
    from onward.store.caller_writes import CallerWrites
    from onward.store.hints import Carrier, HintBus
    from onward.store.row_values import RowValues
    from onward.store.writing.batch import Batch

T = TypeVar("T")

RecordKey: TypeAlias = tuple[str, str, int]
"""The run, identity and attempt of a record."""


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What a database can do beyond transactions."""

    listen: bool = True
    prepared: bool = True
    skip_locked: bool = True
    clock: bool = True
    """Whether it has a clock of its own; otherwise its time comes from the machines' clocks."""


@dataclass(frozen=True, slots=True)
class Written:
    """The answer to a batch.

    Attributes:
        fates: The fate of each run's commit.
        at: The database's time of this answer.
        queues: Queues in which a run became ready.
        earlier: When records were written that an earlier try of the batch had written.
    """

    fates: dict[str, Fate]
    at: Instant
    queues: frozenset[str] = frozenset()
    earlier: Mapping[RecordKey, Instant] = field(default_factory=dict)

    def outcome_of(self, commit: Commit) -> CommitOutcome:
        """Return the outcome of a commit, with the time that its records have in the database."""
        fate = self.fates[commit.run]
        for record in commit.records:
            at = self.earlier.get((record.run, record.identity, record.attempt))
            if at is not None:
                return CommitOutcome(fate, at, at != self.at)
        return CommitOutcome(fate, self.at)


class Tx(Protocol):
    """An open transaction."""

    @property
    def namespace(self) -> str: ...

    async def fetch(self, name: str, /, **given: object) -> Sequence[Sequence[Any]]:
        """Run a named statement and return its rows."""
        ...

    def array(self, values: Iterable[str] | Iterable[int]) -> object:
        """Return the parameter that stands for a list."""
        ...

    async def fetch_rows(self, name: str, rows: Sequence[RowValues]) -> Sequence[Sequence[Any]]:
        """Run a statement of `sqlite/` and `postgres/` for many rows at once.

        The statement has a parameter for each field; on Postgres it is the array of its values.
        """
        ...

    async def lock(self, uids: Iterable[str]) -> None:
        """Lock runs until the transaction ends.

        A transaction that changes several runs locks all of them first and at once: they are
        locked in one order, so that no two transactions wait for each other.
        """
        ...

    async def leased(self, worker: str) -> bool:
        """Return whether a worker has its lease, and lock that until the transaction ends."""
        ...

    async def send(self, messages: Sequence[NewMessage]) -> Sequence[SentMessage]:
        """Put messages into the inboxes of runs, ahead of what the outbox holds for them."""
        ...


class Database(Protocol):
    """A namespace of a database, as the store uses it."""

    carrier: Carrier | None
    """What carries hints to other processes beside the database itself."""

    @property
    def capabilities(self) -> Capabilities: ...

    @property
    def is_private(self) -> bool:
        """Whether no other process can reach it: a database in memory."""
        ...

    @property
    def lanes(self) -> int:
        """How many batches of one group commit may be in flight at a time."""
        ...

    @property
    def hints(self) -> HintBus: ...

    @property
    def where(self) -> str:
        """The address for messages, without its password."""
        ...

    def in_namespace(self, namespace: str) -> Database:
        """Return another namespace of it, which shares all connections while this one is open."""
        ...

    async def open(self) -> None:
        """Connect, check that it can be used, and migrate it."""
        ...

    async def close(self) -> None:
        """Finish what is in flight and release all connections."""
        ...

    async def write(
        self, work: Callable[[Tx], Coroutine[Any, Any, T]], *, patient: bool = True
    ) -> T:
        """Run `work` in a transaction; run it again, whole, if the database asks for that.

        Raises:
            Contended: this is not `patient`, and another transaction holds a lock of a row.
        """
        ...

    async def read(self, work: Callable[[Tx], Coroutine[Any, Any, T]]) -> T:
        """Run `work`, which only reads; each statement is a consistent view by itself."""
        ...

    async def snapshot(self, work: Callable[[Tx], Coroutine[Any, Any, T]]) -> T:
        """Run `work`, which only reads, with all its statements seeing one snapshot."""
        ...

    # The hot path: each of these is one transaction and, on Postgres, one round trip.

    async def commit(self, batch: Batch) -> Written:
        """Write the commits of one worker or several, each under the lease of its own worker.

        A worker whose lease is gone loses its own runs alone.
        """
        ...

    async def start(self, starts: Sequence[Start]) -> Sequence[Started | LeaseLost]:
        """Start runs that do not exist yet; an owner that lost its run starts nothing."""
        ...

    async def send(self, messages: Sequence[NewMessage]) -> Sequence[SentMessage | None]:
        """Put messages into the inboxes of runs, after what the outbox holds for the same runs.

        Some, but not all, may be left for another call; their answer is None.
        """
        ...

    async def sweep(self, limit: int) -> Sequence[SentMessage]:
        """Move messages from the outbox into inboxes, oldest first."""
        ...

    async def claim(self, wanted: Wanted, notes: ClaimNotes) -> list[ClaimedRun]:
        """Assign runs to a worker, and note what its engine may have to know."""
        ...

    async def take_lease(
        self, worker: str, length: Duration, *, is_remote: bool = False
    ) -> Instant | None:
        """Begin a worker's lease; `None` means that one of that name exists.

        The lease of a remote worker, whose process is not this one, ends by time alone.
        """
        ...

    async def renew_lease(self, worker: str, length: Duration) -> Instant | None:
        """Renew a worker's lease, without waiting for other work; `None` means that it is lost."""
        ...

    async def renew_leases(self, lengths: Mapping[str, Duration]) -> dict[str, RenewedLease]:
        """Renew the leases of many workers at once, without waiting for other work."""
        ...

    async def drop_lease(self, worker: str) -> None: ...

    async def measure(self) -> StoreHealth:
        """Return settings and sizes, for operators."""
        ...

    async def reset_clock(self) -> Duration:
        """Set the store's time to the machine's clock, and return by how much it was ahead."""
        ...

    def within(self, connection: object, *, waits: bool = True) -> CallerWrites: ...

    async def locate(self) -> None:
        """Learn which server this is, to compare it with callers' connections."""
        ...

    def publish(self, subjects: Iterable[str]) -> None:
        """Publish hints here and, as far as this database can, to other processes."""
        ...
