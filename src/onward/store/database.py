"""The seam between the store and its two databases.

Store functions are written once, as coroutines that take a `Tx` and await nothing else. Postgres
runs them on the event loop; SQLite runs them to their end inside its writer thread, where a `Tx`
never really waits. So one text serves both, and many of them share one SQLite transaction.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence

    from onward.core.instant import Duration, Instant
    from onward.core.lease import Fate
    from onward.errors import LeaseLost
    from onward.model.claims import Wanted
    from onward.model.commits import Commit
    from onward.model.messages import NewMessage, SentMessage
    from onward.model.runs import ClaimedRun, Start, Started
    from onward.store.caller_writes import CallerWrites
    from onward.store.hints import Carrier, HintBus
    from onward.store.writing.batch import Batch

T = TypeVar("T")

RecordKey: TypeAlias = tuple[str, str, int]
"""The run, identity and attempt of a record."""


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What a database can do beyond transactions; each branch is taken in some test."""

    listen: bool = True
    prepared: bool = True
    skip_locked: bool = True
    clock: bool = True
    """Whether it has a clock of its own; otherwise its time is made of the machines' clocks."""


@dataclass(frozen=True, slots=True)
class Written:
    """The answer to a batch.

    Attributes:
        fates: What became of each run's commit.
        at: The database's time of this answer.
        queues: Queues in which a run became ready.
        earlier: When records were written that an earlier try of the batch had written.
    """

    fates: dict[str, Fate]
    at: Instant
    queues: frozenset[str] = frozenset()
    earlier: Mapping[RecordKey, Instant] = field(default_factory=dict)

    def time_of(self, commit: Commit) -> Instant:
        """Return the time that the records of a commit have in the database."""
        if self.earlier:
            for record in commit.records:
                at = self.earlier.get((record.run, record.identity, record.attempt))
                if at is not None:
                    return at
        return self.at


class Tx(Protocol):
    """An open transaction."""

    @property
    def namespace(self) -> str:
        """The tenant on whose behalf everything here is read and written."""
        ...

    async def fetch(self, name: str, /, **given: object) -> Sequence[Sequence[Any]]:
        """Run a named statement and return its rows."""
        ...

    def array(self, values: Iterable[str] | Iterable[int]) -> object:
        """Return the parameter that stands for a list."""
        ...

    async def lock(self, uids: Iterable[str]) -> None:
        """Let nobody else change these runs before this transaction ends.

        Whoever changes several runs locks them first and at once: they are locked in one order, so
        that no two wait for each other.
        """
        ...

    async def leased(self, worker: str) -> bool:
        """Say whether a worker has its lease, and let nobody take it before this ends."""
        ...

    async def send(self, messages: Sequence[NewMessage]) -> Sequence[SentMessage]:
        """Put messages into the inboxes of runs, whatever callers sent to them before."""
        ...


class Database(Protocol):
    """One database, seen by the store."""

    carrier: Carrier | None
    """What takes hints to other processes beside the database itself."""

    @property
    def capabilities(self) -> Capabilities:
        """What it can do."""
        ...

    @property
    def is_private(self) -> bool:
        """Whether nobody else can reach it: a database in memory."""
        ...

    @property
    def lanes(self) -> int:
        """How many batches of one worker may be under way at a time."""
        ...

    @property
    def hints(self) -> HintBus:
        """Where hints about changes are rung and heard."""
        ...

    @property
    def where(self) -> str:
        """How people call it; holds no password."""
        ...

    async def open(self) -> None:
        """Connect, check that it can be used, and migrate it."""
        ...

    async def close(self) -> None:
        """Finish what is under way and let go of everything."""
        ...

    async def write(self, work: Callable[[Tx], Coroutine[Any, Any, T]]) -> T:
        """Run `work` in a transaction; run it again, whole, if the database asks for that."""
        ...

    async def read(self, work: Callable[[Tx], Coroutine[Any, Any, T]]) -> T:
        """Run `work`, which only reads; each statement is a consistent view by itself."""
        ...

    async def view(self, work: Callable[[Tx], Coroutine[Any, Any, T]]) -> T:
        """Run `work`, which only reads, with all its statements seeing the same moment."""
        ...

    # The hot path: each of these is one transaction and, on Postgres, one trip.

    async def commit(self, worker: str, batch: Batch) -> Written:
        """Write a batch of owners' commits."""
        ...

    async def start(self, starts: Sequence[Start]) -> Sequence[Started | LeaseLost]:
        """Start runs that are not there yet; an owner that lost its run starts nothing."""
        ...

    async def send(self, messages: Sequence[NewMessage]) -> Sequence[SentMessage | None]:
        """Put messages into the inboxes of runs, after what callers sent to the same runs.

        Some, but not all, may be left for another call; their answer is None.
        """
        ...

    async def sweep(self, most: int) -> Sequence[SentMessage]:
        """Deliver messages that callers wrote in transactions of their own."""
        ...

    async def claim(self, wanted: Wanted, repeated: Callable[[], None]) -> list[ClaimedRun]:
        """Make runs the worker's own; `repeated` is called if this is sent again."""
        ...

    async def take_lease(self, worker: str, length: Duration) -> Instant | None:
        """Begin a worker's lease; `None` means that one of that name is there."""
        ...

    async def renew_lease(self, worker: str, length: Duration) -> Instant | None:
        """Prolong a worker's lease, whatever else is under way; `None` means that it is lost."""
        ...

    async def drop_lease(self, worker: str) -> None:
        """End a worker's lease."""
        ...

    async def reset_clock(self) -> Duration:
        """Set the store's time to the machine's clock, and return by how much it was ahead."""
        ...

    def within(self, connection: object, *, waits: bool = True) -> CallerWrites:
        """Return the store as seen from a caller's open transaction on this database."""
        ...

    async def locate(self) -> None:
        """Learn where this is, as far as callers' connections are compared with it."""
        ...

    def tell(self, subjects: Iterable[str]) -> None:
        """Ring hints here and, as far as this database can, in other processes."""
        ...
