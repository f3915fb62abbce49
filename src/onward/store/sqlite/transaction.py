"""A SQLite connection in its thread: transactions, savepoints, statements."""

from __future__ import annotations

import re
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import msgspec

from onward.errors import Unavailable
from onward.store.sqlite import batch
from onward.store.sqlite.clock import SavedTime
from onward.store.sqlite.holders import writer
from onward.store.sqlite.library import is_busy, sqlite3, translate_error
from onward.store.sqlite.row_statements import MAX_ROWS, for_rows, padded
from onward.store.sqlite.waiting import LockWait
from onward.telemetry.failpoints import failpoint

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from onward.core.instant import Instant
    from onward.model.messages import NewMessage, SentMessage
    from onward.store.row_values import RowValues
    from onward.store.sqlite.clock import FileClock
    from onward.store.sqlite.files import Presence
    from onward.store.sqlite.locks import Locks
    from onward.store.sqlite.watch import FileWatch
    from onward.store.statements import Statement

BUSY_SECONDS = 5.0
"""How long one try waits for SQLite's own lock."""

_TRIES = 3
_WRITES = re.compile(r"\b(DELETE|INSERT|UPDATE)\b")
_as_json = msgspec.json.Encoder().encode


class SqliteTx:
    """An open transaction. Its methods are coroutines that never suspend."""

    def __init__(
        self, connection: sqlite3.Connection, statements: dict[str, Statement], where: str
    ) -> None:
        self._connection = connection
        self._statements = statements
        self._texts: dict[tuple[str, int], str] = {}
        self.where = where
        self.now: Instant = 0
        self.namespace = ""

    async def fetch(self, name: str, /, **given: object) -> Sequence[Sequence[Any]]:
        return self.rows(name, **given)

    def rows(self, name: str, /, **given: object) -> list[Any]:
        """Run a named statement and return its rows, without a coroutine."""
        statement = self._statements[name]
        given["now"] = self.now
        given["namespace"] = self.namespace
        try:
            return self._connection.execute(statement.sql, statement.arrange(given)).fetchall()
        except sqlite3.OperationalError as error:
            if not _is_broken_text(error, statement.sql):
                raise
        # One damaged text must not hide all other rows.
        self._connection.text_factory = _lenient
        try:
            return self._connection.execute(statement.sql, statement.arrange(given)).fetchall()
        finally:
            self._connection.text_factory = str

    def write_rows(
        self, name: str, rows: Sequence[tuple[object, ...]], **given: object
    ) -> tuple[int, list[Any]]:
        """Run a named statement for all rows at once.

        A row has its values in the declared order; `given` is the same for all rows.

        Returns:
            How many rows of the database changed, and what the statement returns.
        """
        if not rows:
            return 0, []
        before = self._connection.total_changes
        found: list[Any] = []
        statement = self._statements[name]
        same = statement.arrange_rest(given | {"now": self.now, "namespace": self.namespace})
        for at in range(0, len(rows), MAX_ROWS):
            count, values = padded(rows[at : at + MAX_ROWS])
            text = self._texts.get((name, count))
            if text is None:
                text = self._texts[name, count] = for_rows(statement, count)
            found += self._connection.execute(text, [*same, *values]).fetchall()
        return self._connection.total_changes - before, found

    async def fetch_rows(self, name: str, rows: Sequence[RowValues]) -> Sequence[Sequence[Any]]:
        _, found = self.write_rows(name, [tuple(row) for row in rows])
        return found

    def array(self, values: Iterable[str] | Iterable[int]) -> object:
        return _as_json(list(values)).decode()

    def mapping(self, values: Mapping[str, int] | Mapping[str, str]) -> object:
        """Return the parameter that stands for keys with a value each."""
        return _as_json(values).decode()

    async def lock(self, uids: Iterable[str]) -> None:
        """Do nothing: a transaction that writes has the file to itself."""

    async def leased(self, worker: str) -> bool:
        return bool(self.rows("lease_here", worker=worker))

    async def send(self, messages: Sequence[NewMessage]) -> list[SentMessage]:
        return await batch.send(self, messages)


def _is_broken_text(error: Exception, sql: str) -> bool:
    """Return whether a read met text that is no UTF-8; a write is not simply repeated."""
    return "decode to UTF-8" in str(error) and not _WRITES.search(sql)


def _lenient(text: bytes) -> str:
    return text.decode(errors="backslashreplace")


class Sharing(NamedTuple):
    """What the sessions of a file check because other processes may use it too."""

    path: Path
    locks: Locks
    presence: Presence
    watch: FileWatch


class SessionJob(Protocol):
    """Work in a transaction; with an error it leaves no trace."""

    error: Exception | None

    def run(self, tx: SqliteTx) -> None: ...


class Session:
    """A connection, and how a list of jobs becomes one transaction on it."""

    def __init__(
        self,
        connection: sqlite3.Connection,
        statements: dict[str, Statement],
        where: str,
        clock: FileClock,
        *,
        sharing: Sharing | None = None,
        writes: bool = True,
    ) -> None:
        self._connection = connection
        self._tx = SqliteTx(connection, statements, where)
        self._where = where
        self._clock = clock
        self._sharing = sharing
        self._writes = writes
        self._watch = sharing.watch if sharing is not None and writes else None

    def close(self) -> None:
        """Close the connection; the last one to close a file also checkpoints it."""
        with ExitStack() as held:
            # A lock that cannot be had is held by a process with a connection of its own, so ours
            # is not the last one.
            with suppress(Unavailable, sqlite3.Error):  # then time goes back by a second at most
                self._lock(held)
                if self._writes:
                    self._connection.execute("BEGIN IMMEDIATE")
                    now = self._read_time()
                    self._keep_time(SavedTime(now, self._clock.resets))
                    self._connection.execute("COMMIT")
            self._connection.close()

    def run(self, jobs: Sequence[SessionJob]) -> None:
        """Run all jobs in one transaction. A job that fails leaves no trace and harms no other.

        Raises:
            Unavailable: nothing was written, whatever the jobs say.
            StoreUnusable: what was written went to a file that is not there any more.
        """
        wait = None if self._sharing is None else LockWait(self._sharing.locks.patience)
        left = _TRIES
        while not self._try(jobs, left, wait):
            left -= 1

    def look(self) -> None:
        """See whether other connections have committed."""
        if self._watch is not None:
            with suppress(sqlite3.Error):  # the next transaction reports it
                [[version]] = self._connection.execute("PRAGMA data_version")
                self._watch.see(version)

    def _try(self, jobs: Sequence[SessionJob], left: int, wait: LockWait | None) -> bool:
        """Run all jobs and return True, or False if they are to be run again."""
        with ExitStack() as held:
            self._lock(held, wait)
            try:
                self._transact(jobs)
            except (sqlite3.Error, Unavailable) as error:
                self._check_worth_a_retry(error, left, wait)
                return False
            finally:
                self._abandon()
        return True

    def _lock(self, held: ExitStack, wait: LockWait | None = None) -> None:
        if self._sharing is not None and self._writes:
            held.enter_context(self._sharing.locks.writing(wait))

    def _check_worth_a_retry(self, error: Exception, left: int, wait: LockWait | None) -> None:
        """Raise the translated error, unless the transaction is to be tried again."""
        if wait is not None and self._sharing is not None and is_busy(error):
            wait.check(self._sharing.path, writer)
            return
        meaning = error if isinstance(error, Unavailable) else translate_error(error, self._where)
        if left <= 1 or not isinstance(meaning, Unavailable):
            raise meaning or error from error

    def _transact(self, jobs: Sequence[SessionJob]) -> None:
        execute = self._connection.execute
        execute("BEGIN IMMEDIATE" if self._writes else "BEGIN")
        self.look()
        self._tx.now = self._read_time()
        changes = self._connection.total_changes
        if len(jobs) == 1:
            jobs[0].run(self._tx)
            if jobs[0].error is not None:
                self._abandon()
                return
        else:
            for job in jobs:
                execute("SAVEPOINT job")
                job.run(self._tx)
                if job.error is not None:
                    if not self._connection.in_transaction:
                        # SQLite gave it all up, as it may when the disk is full: all jobs are run
                        # again, or fail because the database is away.
                        raise job.error
                    execute("ROLLBACK TO job")
                execute("RELEASE job")
        if self._connection.total_changes == changes:  # an idle worker writes nothing to the disk
            execute("COMMIT")
        else:
            self._commit()
        if self._sharing is not None:
            self._sharing.presence.check()

    def _commit(self) -> None:
        kept = self._clock.due()
        if kept is not None:
            self._keep_time(kept)
        failpoint("commit.before")
        self._connection.execute("COMMIT")
        if kept is not None:
            self._clock.keep(kept)
        failpoint("commit.after")

    def _read_time(self) -> Instant:
        self._clock.learn(SavedTime._make(self._tx.rows("read_time")[0]))
        return self._clock.now()

    def _keep_time(self, kept: SavedTime) -> None:
        self._tx.now = kept.at
        self._tx.rows("keep_time", resets=kept.resets)

    def _abandon(self) -> None:
        if self._connection.in_transaction:
            self._connection.execute("ROLLBACK")
