"""The store: one set of functions over SQLite and Postgres, and the group commit before them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self, TypeVar

from onward.core.lease import LEASE
from onward.errors import NotFound, StoreUnusable
from onward.store.address import SqliteAddress, parse
from onward.store.clock import SystemChance, SystemClock, new_uid, spawn_thread
from onward.store.commit import Commit
from onward.store.fitness import check_message, check_run, is_storable
from onward.store.hints import queue_subject, run_subject
from onward.store.lane import Lane
from onward.store.rows import (
    InboxRow,
    Message,
    Move,
    NewRun,
    RecordRow,
    RunEnd,
    RunRow,
    Sent,
    Started,
)
from onward.store.sqlite.database import SqliteDatabase
from onward.store.writer import Writer
from onward.telemetry.failpoints import failpoint

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Coroutine, Iterable, Sequence
    from types import TracebackType

    from onward.core.instant import Duration, Instant
    from onward.core.ports import Chance, Clock, Spawn
    from onward.store.database import Database, Tx, Wanted
    from onward.store.hints import Ear
    from onward.store.rows import Claimed
    from onward.store.within import Within

T = TypeVar("T")

SWEEP_MOST = 500


class Store:
    """A namespace in a database. Open it with `async with`.

    Every call is safe to repeat: ids are made by the client, and every statement recognises its
    own result. Cancelling the task that waits for a call does not undo or damage it.
    """

    def __init__(self, database: Database, namespace: str, clock: Clock, chance: Chance) -> None:
        self.database = database
        self.namespace = namespace
        self._clock = clock
        self._chance = chance
        self._starts: Lane[NewRun, Started] = Lane(
            self._write_starts, name="onward starts", key=lambda run: run.id
        )
        self._sends: Lane[Message, Sent] = Lane(
            self._write_messages, name="onward messages", key=lambda message: message.target
        )
        self._writers: dict[str, Writer] = {}

    async def __aenter__(self) -> Self:
        await self.database.open()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            await self._starts.close()
            await self._sends.close()
            for writer in self._writers.values():
                await writer.close()
        finally:
            await self.database.close()

    # --- clients ---------------------------------------------------------------------------------

    def new_uid(self) -> str:
        """Return a fresh id that sorts by time."""
        return new_uid(self._clock, self._chance)

    async def start(self, run: NewRun) -> Started:
        """Start a run, unless one of that id is there; the answer says which it is."""
        check_run(run)
        return await self._starts.submit(run)

    async def send(self, message: Message) -> Sent:
        """Put a message into a run's inbox; a message id that is there already does nothing."""
        check_message(message)
        return await self._sends.submit(message)

    async def run(self, uid: str) -> RunRow:
        """Return a run as it stands.

        Raises:
            NotFound: there is none of that uid.
        """
        return RunRow._make(await self._one("run_by_uid", uid=uid))

    async def newest(self, id: str) -> RunRow:  # noqa: A002 - it is the user's word
        """Return the newest run of an id.

        Raises:
            NotFound: there is none of that id.
        """
        return RunRow._make(await self._one("newest_run", id=id))

    async def end(self, uid: str) -> RunEnd:
        """Return what a run was given and what came of it.

        Raises:
            NotFound: there is none of that uid.
        """
        return RunEnd._make(await self._one("run_end", uid=uid))

    async def counts(self) -> dict[str, int]:
        """Return how many runs are in each state."""
        rows = await self.read(lambda tx: tx.fetch("counts"))
        return {row[0]: row[1] for row in rows}

    async def list_runs(
        self,
        *,
        name: str | None = None,
        state: str | None = None,
        queue: str | None = None,
        limit: int = 100,
        before: str | None = None,
    ) -> list[RunRow]:
        """Return runs, newest first; `before` is the uid of the last one of the page before."""
        rows = await self.read(
            lambda tx: tx.fetch(
                "list_runs", name=name, state=state, queue=queue, limit=limit, before=before
            )
        )
        return [RunRow._make(row) for row in rows]

    async def now(self) -> Instant:
        """Return the database's time."""
        rows = await self.read(lambda tx: tx.fetch("clock"))
        at: Instant = rows[0][0]
        return at

    # --- workers ---------------------------------------------------------------------------------

    async def take_lease(self, worker: str, length: Duration = LEASE) -> Instant | None:
        """Begin a worker's lease and return its end; `None` if that worker has one."""
        return await self.database.take_lease(worker, length)

    async def renew_lease(self, worker: str, length: Duration = LEASE) -> Instant | None:
        """Prolong a worker's lease and return its end; `None` means that it is lost."""
        failpoint("renew.before")
        until = await self.database.renew_lease(worker, length)
        failpoint("renew.after")
        return until

    async def drop_lease(self, worker: str) -> None:
        """End a worker's lease: whatever it still has may be claimed by others."""
        await self.database.drop_lease(worker)

    async def claim(self, wanted: Wanted) -> list[Claimed]:
        """Make runs the worker's own: ready ones, due ones, and those whose worker vanished."""
        failpoint("claim.before")
        once = tuple(dict.fromkeys(wanted.queues))  # or a run would be claimed as often
        claimed = await self.database.claim(replace(wanted, queues=once))
        failpoint("claim.after")
        return claimed

    def writer(self, worker: str) -> Writer:
        """Return the group commit of a worker; there is one a worker."""
        if worker not in self._writers:
            self._writers[worker] = Writer(self.database, worker)
        return self._writers[worker]

    async def history(self, uids: Iterable[str]) -> dict[str, list[RecordRow]]:
        """Return the histories of runs, each in the order of delivery, what is open last."""
        found: dict[str, list[RecordRow]] = {uid: [] for uid in uids}
        for row in await self.read(lambda tx: tx.fetch("history", uids=tx.texts(found))):
            record = RecordRow._make(row)
            found[record.run].append(record)
        return found

    async def look(self, uids: Iterable[str]) -> dict[str, list[InboxRow]]:
        """Return the inboxes of runs, each in the order of arrival."""
        found: dict[str, list[InboxRow]] = {uid: [] for uid in uids}
        for row in await self.read(lambda tx: tx.fetch("look", uids=tx.texts(found))):
            message = InboxRow._make(row)
            found[message.run].append(message)
        return found

    async def owned(self, worker: str) -> dict[str, int]:
        """Return the runs in a worker's name, with their fences: what an audit compares."""
        rows = await self.read(lambda tx: tx.fetch("runs_of_worker", worker=worker))
        return {row[0]: row[1] for row in rows}

    async def audit(self, worker: str, known: Container[str]) -> list[str]:
        """Release the runs in a worker's name that it does not know, and return them.

        A claim whose reply was lost leaves such runs. The worker must not be claiming meanwhile.
        """
        strays = [
            (uid, fence) for uid, fence in (await self.owned(worker)).items() if uid not in known
        ]
        writer = self.writer(worker)
        for uid, fence in strays:
            await writer.commit(Commit(uid, fence, move=Move("ready")))
        return [uid for uid, _ in strays]

    async def next_due(self, since: Instant = 0) -> Instant | None:
        """Return when the next waiting run is due, of those that were not by `since`."""
        rows = await self.read(lambda tx: tx.fetch("next_due", since=since))
        due: Instant | None = rows[0][0]
        return due

    async def register(self, worker: dict[str, object]) -> None:
        """Let operators see a worker."""
        await self.write(lambda tx: tx.fetch("register_worker", **worker))

    async def unregister(self, worker: str) -> None:
        """Let operators see that a worker has left."""
        await self.write(lambda tx: tx.fetch("unregister_worker", worker=worker))

    async def served_queues(self) -> set[str]:
        """Return the queues that some live worker serves."""
        rows = await self.read(lambda tx: tx.fetch("live_queues"))
        return {queue for row in rows for queue in row[0].split("\n")}

    async def ends(self, uids: Iterable[str]) -> list[RunEnd]:
        """Return those of the runs that are over or paused, with what came of them."""
        wanted = dict.fromkeys(uids)
        rows = await self.read(lambda tx: tx.fetch("run_ends", uids=tx.texts(wanted)))
        return [RunEnd._make(row) for row in rows]

    async def sweep(self) -> int:
        """Deliver messages that callers wrote in transactions of their own; say how many."""
        rows = await self.read(lambda tx: tx.fetch("marks_waiting"))
        if not rows[0][0]:
            return 0
        sent = await self.database.sweep(SWEEP_MOST)
        self.database.tell(_heard(sent))
        return len(sent)

    # --- both ------------------------------------------------------------------------------------

    async def read(self, work: Callable[[Tx], Coroutine[Any, Any, T]]) -> T:
        """Run `work`, which only reads."""
        return await self.database.read(work)

    async def view(self, work: Callable[[Tx], Coroutine[Any, Any, T]]) -> T:
        """Run `work`, which only reads, with all its statements seeing the same moment."""
        return await self.database.view(work)

    async def write(self, work: Callable[[Tx], Coroutine[Any, Any, T]]) -> T:
        """Run `work` in a transaction; it may be run again, whole, so it must only use its `Tx`."""
        return await self.database.write(work)

    def within(self, connection: object) -> Within:
        """Return the store as seen from a caller's open transaction: its writes join the caller's.

        Raises:
            StoreUnusable: the connection is not one to this database.
        """
        return self.database.within(connection)

    def ear(self, subjects: Iterable[str]) -> Ear:
        """Return an ear for hints on these subjects."""
        return self.database.exchange.ear(subjects)

    async def _one(self, statement: str, **given: str) -> Sequence[Any]:
        """Return the row of a run, which is not there if no database could hold what is given."""
        [name] = given.values()
        rows: Sequence[Sequence[Any]] = ()
        if is_storable(name):
            rows = await self.read(lambda tx: tx.fetch(statement, **given))
        if not rows:
            raise NotFound("run", name, self.namespace)
        return rows[0]

    async def _write_starts(self, runs: list[NewRun]) -> Sequence[Started]:
        failpoint("start.before")
        answers = await self.database.start(runs)
        failpoint("start.after")
        self.database.tell({queue_subject(run.queue) for run in runs})
        return answers

    async def _write_messages(self, messages: list[Message]) -> Sequence[Sent]:
        failpoint("send.before")
        answers = await self.database.send(messages)
        failpoint("send.after")
        self.database.tell(_heard(answers))
        return answers


def open_store(
    url: str,
    *,
    namespace: str = "default",
    clock: Clock | None = None,
    chance: Chance | None = None,
    spawn: Spawn | None = spawn_thread,
) -> Store:
    """Return the store at an address; enter it to connect.

    Args:
        url: A file name, `:memory:`, or `postgresql://…`.
        namespace: The tenant; nothing is read or written outside it.
        clock: Where time is read; on Postgres the database's own clock unless given.
        chance: Where ids come from.
        spawn: How threads are started. `None` makes SQLite work in the caller's thread, so that a
            simulation decides every turn.

    Raises:
        BadStoreUrl: the address cannot be understood.
        StoreUnusable: the driver for it is not installed.
    """
    address = parse(url)
    real_clock = clock or SystemClock()
    database: Database
    if isinstance(address, SqliteAddress):
        database = SqliteDatabase(address, namespace, real_clock, spawn)
    else:
        try:
            from onward.store.postgres.database import PostgresDatabase
        except ModuleNotFoundError as error:
            if error.name != "asyncpg":
                raise
            advice = "Install it: pip install 'onward[postgres]'"
            raise StoreUnusable(str(address), "needs the driver asyncpg", advice) from error
        database = PostgresDatabase(address, namespace, clock)
    return Store(database, namespace, real_clock, chance or SystemChance())


def _heard(answers: Iterable[Sent]) -> set[str]:
    subjects: set[str] = set()
    for sent in answers:
        if sent.fate == "delivered" and sent.uid is not None:
            subjects |= {run_subject(sent.uid), queue_subject(sent.queue)}
    return subjects
