"""The threads of a SQLite store: many jobs, one transaction, and one that fails harms no other."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any

import pytest

from onward.errors import InvariantBroken, Rejected, Unavailable
from onward.store.sqlite.clock import FileClock
from onward.store.sqlite.connection import DIALECT, connect, migrate
from onward.store.sqlite.threads import Inline, SqliteJob, Threaded
from onward.store.sqlite.transaction import Session
from onward.system.clock import spawn_thread
from onward.system.coroutines import drive
from onward.telemetry.failpoints import InjectedFault
from onward.testing.clock import VirtualClock
from onward.testing.faults import armed, raising

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from concurrent.futures import Future

    from onward.store.sqlite.transaction import SqliteTx

    Work = Callable[[SqliteTx], Coroutine[Any, Any, Any]]


def a_session() -> Session:
    connection = connect(None)
    migrate(connection, ":memory:")
    return Session(connection, DIALECT.statements(), ":memory:", FileClock(VirtualClock()))


def note(worker: str, then: Exception | None = None) -> Work:
    """Return work that writes a lease, and may fail after that."""

    async def work(tx: SqliteTx) -> str:
        await tx.fetch("take_lease", worker=worker, length=1)
        if then is not None:
            raise then
        return worker

    return work


async def noted(tx: SqliteTx) -> list[str]:
    return [row[0] for row in await tx.fetch("leases")]


def ran(session: Session, *works: Work) -> list[SqliteJob]:
    jobs = [SqliteJob(work, "default") for work in works]
    session.run(jobs)
    return jobs


def test_jobs_that_gathered_are_one_transaction() -> None:
    session = a_session()
    commits: list[int] = []

    with armed("commit.after", lambda: commits.append(1)):
        [one, other] = ran(session, note("a"), note("b"))

    assert (one.result, other.result) == ("a", "b")
    assert commits == [1]


def test_a_transaction_that_changed_nothing_writes_nothing() -> None:
    session = a_session()

    with armed("commit.before", raising(InjectedFault()), must_fire=False) as fault:
        [job] = ran(session, noted)

    assert (job.result, fault.fired) == ([], 0)


def test_a_job_that_fails_leaves_no_trace_and_harms_no_other() -> None:
    session = a_session()

    jobs = ran(session, note("a"), note("b", ZeroDivisionError()), note("c"), noted)

    assert [type(job.error) for job in jobs[:3]] == [type(None), ZeroDivisionError, type(None)]
    assert jobs[3].result == ["a", "c"]


def test_a_lone_job_that_fails_leaves_no_trace() -> None:
    session = a_session()

    [job] = ran(session, note("a", ZeroDivisionError()))

    assert isinstance(job.error, ZeroDivisionError)
    assert ran(session, noted)[0].result == []


def test_what_the_database_refuses_is_told_to_its_job_alone() -> None:
    session = a_session()

    async def bad(tx: SqliteTx) -> None:
        await tx.fetch("take_lease", worker=None, length=1)

    [good, refused] = ran(session, note("a"), bad)

    assert (good.error, good.result) == (None, "a")
    assert isinstance(refused.error, Rejected)
    assert refused.error.__cause__ is not None


def test_each_job_is_in_its_own_namespace() -> None:
    session = a_session()
    jobs = [
        SqliteJob(note("a"), "one"),
        SqliteJob(note("a"), "two"),
        SqliteJob(noted, "one"),
        SqliteJob(noted, "none"),
    ]

    session.run(jobs)

    assert [job.result for job in jobs] == ["a", "a", ["a"], []]


def test_a_transaction_that_broke_off_leaves_the_connection_usable() -> None:
    session = a_session()
    with armed("commit.before", raising(InjectedFault())), pytest.raises(InjectedFault):
        ran(session, note("a"))

    assert ran(session, noted)[0].result == []


def test_when_sqlite_gives_the_whole_transaction_up_every_job_is_told() -> None:
    session = a_session()

    async def lose_everything(tx: SqliteTx) -> None:
        tx._connection.execute("ROLLBACK")  # as SQLite may do by itself when the disk is full
        raise Unavailable(":memory:", "has no room left on its disk")

    with pytest.raises(Unavailable):
        ran(session, note("a"), lose_everything, note("b"))
    assert ran(session, noted)[0].result == []


def test_a_store_function_must_wait_for_nothing_but_its_transaction() -> None:
    async def waits() -> None:
        await asyncio.sleep(0)

    with pytest.raises(InvariantBroken, match="waited for something other"):
        drive(waits())


def test_a_store_function_returns_its_value() -> None:
    async def value() -> int:
        return 7

    assert drive(value()) == 7


# --- threads --------------------------------------------------------------------------------------


def test_a_job_is_done_although_nobody_waits_for_it_any_more() -> None:
    worker = Threaded(a_session, spawn_thread, "under test")

    given_up: Future[Any] = worker.submit(note("a"), "default")
    assert not given_up.cancel()

    assert worker.submit(noted, "default").result(20) == ["a"]
    worker.close()


def test_closing_does_what_is_queued_first() -> None:
    gate = threading.Event()

    async def hold(_: SqliteTx) -> None:
        gate.wait(20)

    worker = Threaded(a_session, spawn_thread, "under test")
    worker.submit(hold, "default")
    queued = [worker.submit(note(str(number)), "default") for number in range(300)]
    gate.set()

    worker.close()

    assert [answer.result(0) for answer in queued] == list(map(str, range(300)))


def test_a_thread_that_cannot_connect_says_so_and_tries_again() -> None:
    tries: list[int] = []

    def session() -> Session:
        tries.append(1)
        if len(tries) == 1:
            raise Unavailable("x.db", "cannot be opened")
        return a_session()

    worker = Threaded(session, spawn_thread, "under test")

    with pytest.raises(Unavailable):
        worker.submit(noted, "default").result(20)
    assert worker.submit(noted, "default").result(20) == []
    worker.close()


def test_without_threads_a_job_is_done_at_once() -> None:
    worker = Inline(a_session)

    answer = worker.submit(note("a"), "default")

    assert answer.done()
    assert answer.result() == "a"
    failed = worker.submit(note("b", ZeroDivisionError()), "default")
    assert isinstance(failed.exception(), ZeroDivisionError)
    with armed("commit.before", raising(InjectedFault())):
        assert isinstance(worker.submit(note("c"), "default").exception(), InjectedFault)
    worker.close()
