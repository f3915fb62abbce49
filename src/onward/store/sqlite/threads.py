"""Threads that run store functions on a SQLite connection.

A job is a coroutine function of a transaction. The writer takes all jobs that have gathered and
runs them in one transaction, each behind a savepoint, so one that fails harms no other; then it
commits once and answers them all. Nothing is answered before the commit is on disk.
"""

from __future__ import annotations

import queue
from concurrent.futures import Future
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Protocol

from onward.store.sqlite.library import translate_error
from onward.system.coroutines import drive

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from onward.core.ports import Spawn
    from onward.store.sqlite.transaction import Session, SqliteTx
    from onward.store.sqlite.watch import FileWatch

    Work = Callable[[SqliteTx], Coroutine[Any, Any, Any]]

MAX_JOBS = 256


class SqliteJob:
    """Work to be done in a transaction, and the future of its result."""

    __slots__ = ("answer", "error", "namespace", "result", "work")

    def __init__(self, work: Work, namespace: str) -> None:
        self.work = work
        self.namespace = namespace
        self.answer: Future[Any] = Future()
        self.answer.set_running_or_notify_cancel()  # a cancelled caller does not cancel the job
        self.result: Any = None
        self.error: Exception | None = None

    def run(self, tx: SqliteTx) -> None:
        """Do the work, and keep its result until the commit."""
        self.result = self.error = None
        tx.namespace = self.namespace
        try:
            self.result = drive(self.work(tx))
        except Exception as error:  # noqa: BLE001 - the caller gets it
            self.error = translate_error(error, tx.where) or error
            if self.error is not error:
                self.error.__cause__ = error

    def reply(self) -> None:
        if self.error is not None:
            self.answer.set_exception(self.error)
        else:
            self.answer.set_result(self.result)


class JobRunner(Protocol):
    """Runs jobs on a connection."""

    def submit(self, work: Work, namespace: str) -> Future[Any]:
        """Queue a job and return the future of its answer."""
        ...

    def close(self) -> None:
        """Do what is queued, then close the connection."""
        ...


class Threaded:
    """Runs jobs in a thread, as many in one transaction as have gathered.

    Args:
        session: Connects.
        spawn: How the thread is started.
        name: The thread's.
        watch: Says how often the session is to look for others' commits while there is no job.
    """

    def __init__(
        self,
        session: Callable[[], Session],
        spawn: Spawn,
        name: str,
        watch: FileWatch | None = None,
    ) -> None:
        self._jobs: queue.SimpleQueue[SqliteJob | None] = queue.SimpleQueue()
        self._make_session = session
        self._watch = watch
        self._thread = spawn(self._work, name=name)

    def submit(self, work: Work, namespace: str) -> Future[Any]:
        """Queue a job and return the future of its answer."""
        job = SqliteJob(work, namespace)
        self._jobs.put(job)
        return job.answer

    def start_watching(self) -> None:
        """End the wait for a job, to apply a new polling interval."""
        self._jobs.put(SqliteJob(_do_nothing, ""))

    def close(self) -> None:
        """Do what is queued, then close the connection."""
        self._jobs.put(None)
        self._thread.join()

    def _next(self, session: Session | None) -> SqliteJob | None:
        """Wait for a job, and poll for commits of other connections meanwhile."""
        while True:
            interval = None if self._watch is None or session is None else self._watch.interval
            with suppress(queue.Empty):
                return self._jobs.get(timeout=interval)
            if session is not None:
                session.look()

    def _work(self) -> None:
        session: Session | None = None
        while (job := self._next(session)) is not None:
            jobs = [job]
            last = False
            while len(jobs) < MAX_JOBS and not self._jobs.empty():
                more = self._jobs.get()
                if more is None:
                    last = True
                    break
                jobs.append(more)
            session = self._serve(session, jobs)
            if last:
                break
        if session is not None:
            session.close()

    def _serve(self, session: Session | None, jobs: list[SqliteJob]) -> Session | None:
        try:
            session = session or self._make_session()
            session.run(jobs)
        except Exception as error:  # noqa: BLE001 - the caller gets it
            for job in jobs:
                job.error = error
        for job in jobs:
            job.reply()
        return session


async def _do_nothing(_: SqliteTx) -> None:
    """Write nothing."""


class Inline:
    """Runs each job at once, in the caller's thread: for simulations."""

    def __init__(self, session: Callable[[], Session]) -> None:
        self._session = session()

    def submit(self, work: Work, namespace: str) -> Future[Any]:
        """Do a job and return the future of its result, which is done."""
        job = SqliteJob(work, namespace)
        try:
            self._session.run([job])
        except Exception as error:  # noqa: BLE001 - the caller gets it
            job.error = error
        job.reply()
        return job.answer

    def close(self) -> None:
        """Close the connection."""
        self._session.close()
