"""A SQLite connection in the hands of its thread: transactions, savepoints, statements."""

from __future__ import annotations

from contextlib import nullcontext, suppress
from typing import TYPE_CHECKING, Any

import msgspec

from onward.errors import Unavailable
from onward.store.sqlite import batch
from onward.store.sqlite.library import sqlite3, told
from onward.telemetry.failpoints import failpoint

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from contextlib import AbstractContextManager

    from onward.core.instant import Instant
    from onward.store.rows import Message, Sent
    from onward.store.sqlite.files import Locks
    from onward.store.sqlite.highwater import HighWater
    from onward.store.sqlite.threads import Job
    from onward.store.statements import Statement

BUSY_SECONDS = 5.0
_BUSY_TRIES = 3
_as_json = msgspec.json.Encoder().encode


class SqliteTx:
    """An open transaction. Its methods are coroutines that never wait."""

    def __init__(
        self, connection: sqlite3.Connection, statements: dict[str, Statement], where: str
    ) -> None:
        self._connection = connection
        self._statements = statements
        self.where = where
        self.now: Instant = 0
        self.namespace = ""

    async def fetch(self, name: str, /, **given: object) -> Sequence[Sequence[Any]]:
        """Run a named statement and return its rows."""
        return self.rows(name, **given)

    def rows(self, name: str, /, **given: object) -> list[Any]:
        """Run a named statement and return its rows, without the pretence of waiting."""
        statement = self._statements[name]
        given["now"] = self.now
        given["namespace"] = self.namespace
        return self._connection.execute(statement.sql, statement.arrange(given)).fetchall()

    def write_rows(self, name: str, rows: Iterable[tuple[object, ...]]) -> int:
        """Run a named statement once a row, and say how many rows of a table that changed.

        A row gives its parameters in the declared order.
        """
        return self._connection.executemany(self._statements[name].sql, rows).rowcount

    def write_row(self, name: str, row: tuple[object, ...]) -> bool:
        """Run a named statement that returns what it wrote, and say whether it wrote."""
        return bool(self._connection.execute(self._statements[name].sql, row).fetchall())

    def texts(self, values: Iterable[str]) -> object:
        """Return the parameter that stands for a list of texts."""
        return _as_json(list(values)).decode()

    async def lock(self, uids: Iterable[str]) -> None:
        """Do nothing: a transaction that writes has the file to itself."""

    async def leased(self, worker: str) -> bool:
        """Say whether a worker has its lease."""
        return bool(self.rows("lease_here", worker=worker))

    async def send(self, messages: Sequence[Message]) -> list[Sent]:
        """Put messages into the inboxes of runs."""
        return await batch.send(self, messages)


class Session:
    """A connection, and how a list of jobs becomes one transaction on it."""

    def __init__(
        self,
        connection: sqlite3.Connection,
        statements: dict[str, Statement],
        where: str,
        time: HighWater,
        *,
        locks: Locks | None = None,
        writes: bool = True,
    ) -> None:
        self._connection = connection
        self._tx = SqliteTx(connection, statements, where)
        self._where = where
        self._time = time
        self._locks = locks
        self._writes = writes

    def close(self) -> None:
        """Close the connection; the last one to close a file also checkpoints it."""
        with self._alone():
            if self._writes:
                with suppress(sqlite3.Error):  # then time goes back by a second at most
                    self._tx.now = self._time.now()
                    self._tx.rows("keep_time")
            self._connection.close()

    def run(self, jobs: list[Job]) -> None:
        """Run all jobs in one transaction. A job that fails leaves no trace and harms no other.

        Raises:
            Unavailable: nothing was written, whatever the jobs say.
        """
        for _ in range(_BUSY_TRIES):
            with self._alone():
                try:
                    return self._transact(jobs)
                except Unavailable as error:
                    failure = error
                except sqlite3.Error as error:
                    meaning = told(error, self._where)
                    if not isinstance(meaning, Unavailable):
                        raise meaning or error from error
                    failure = meaning
                finally:
                    self._abandon()
        raise failure

    def _alone(self) -> AbstractContextManager[None]:
        return nullcontext() if self._locks is None else self._locks.writing()

    def _transact(self, jobs: list[Job]) -> None:
        execute = self._connection.execute
        execute("BEGIN IMMEDIATE" if self._writes else "BEGIN")
        self._tx.now = self._read_time()
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
                        # again, or told that the database is away.
                        raise job.error
                    execute("ROLLBACK TO job")
                execute("RELEASE job")
        if self._writes:
            self._keep_time()
            failpoint("commit.before")
        execute("COMMIT")
        if self._writes:
            self._time.commits += 1
            failpoint("commit.after")

    def _read_time(self) -> Instant:
        if not self._writes:
            return self._time.now()
        [[kept]] = self._tx.rows("read_time")
        self._time.learn(kept)
        return self._time.now()

    def _keep_time(self) -> None:
        mark = self._time.due()
        if mark is not None:
            self._tx.now = mark
            self._tx.rows("keep_time")

    def _abandon(self) -> None:
        if self._connection.in_transaction:
            self._connection.execute("ROLLBACK")
