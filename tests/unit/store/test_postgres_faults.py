"""What an error of Postgres means: whether to try again, and what to tell whoever must act."""

from __future__ import annotations

import socket

import asyncpg
import pytest

from onward.errors import OnwardError, Rejected, StoreUnusable, Unavailable
from onward.store.address import PostgresAddress, parse
from onward.store.postgres.faults import translate_error
from onward.store.writing.lane import Contended


def address(url: str) -> PostgresAddress:
    parsed = parse(url)
    assert isinstance(parsed, PostgresAddress)
    return parsed


DIRECT = address("postgresql://ada@localhost/onward")
POOLED = address("postgresql://ada@localhost/onward?pgbouncer=true")

SERVER = {
    "a password that is refused": asyncpg.InvalidPasswordError,
    "a user that may not log in": asyncpg.InvalidAuthorizationSpecificationError,
    "a database that is not there": asyncpg.InvalidCatalogNameError,
    "a schema that is not there": asyncpg.InvalidSchemaNameError,
    "a table that is not there": asyncpg.UndefinedTableError,
    "a right that is missing": asyncpg.InsufficientPrivilegeError,
    "a prepared statement that is not there": asyncpg.InvalidSQLStatementNameError,
    "a prepared statement that is there twice": asyncpg.DuplicatePreparedStatementError,
    "a pooler that lets nobody in": asyncpg.ProtocolViolationError,
}
PASSES = {
    "too many connections": asyncpg.TooManyConnectionsError("sorry, too many clients already"),
    "a server that starts": asyncpg.CannotConnectNowError("the database system is starting up"),
    "a server that stops": asyncpg.AdminShutdownError("terminating connection"),
    "a server that crashed": asyncpg.CrashShutdownError("terminating connection"),
    "a disk that is full": asyncpg.DiskFullError("no space left"),
    "a standby": asyncpg.ReadOnlySQLTransactionError("cannot execute INSERT"),
    "a deadlock": asyncpg.DeadlockDetectedError("deadlock detected"),
    "a connection that is gone": asyncpg.ConnectionDoesNotExistError("gone"),
    "a connection that is reset": ConnectionResetError(),
    "a name that nobody knows": socket.gaierror(-2, "Name or service not known"),
    "a server that says nothing": TimeoutError(),
    "a server that hangs up": EOFError(),
    "a driver that lost its way": asyncpg.InternalClientError("got a message of another kind"),
    "an I/O error of the server": asyncpg.PostgresIOError("could not read block"),
}


@pytest.mark.parametrize("case", SERVER)
def test_what_refuses_us_is_a_mistake_at_first_and_passes_once_it_worked(case: str) -> None:
    error = SERVER[case](case)

    first = translate_error(error, DIRECT)
    later = translate_error(error, DIRECT, is_proven=True)

    assert isinstance(first, StoreUnusable)
    assert isinstance(later, Unavailable)


@pytest.mark.parametrize("case", PASSES)
def test_what_passes_by_itself_is_tried_again_from_the_first(case: str) -> None:
    for is_proven in (False, True):
        assert isinstance(translate_error(PASSES[case], DIRECT, is_proven=is_proven), Unavailable)


@pytest.mark.parametrize("case", [*SERVER, *PASSES])
def test_nobody_who_says_that_there_is_a_pooler_is_told_to_say_so(case: str) -> None:
    error = SERVER[case](case) if case in SERVER else PASSES[case]
    for is_proven in (False, True):
        assert "Add ?pgbouncer=true" not in str(translate_error(error, POOLED, is_proven=is_proven))


def test_a_lock_is_waited_for_apart() -> None:
    assert isinstance(
        translate_error(asyncpg.LockNotAvailableError("lock timeout"), DIRECT), Contended
    )


@pytest.mark.parametrize("error", [asyncpg.DataError("too long"), OverflowError()])
def test_a_value_that_cannot_be_stored_is_refused_for_good(error: Exception) -> None:
    assert isinstance(translate_error(error, DIRECT, is_proven=True), Rejected)


def test_an_error_of_ours_stays_what_it_is() -> None:
    assert translate_error(KeyError("ours"), DIRECT) is None
    away = Unavailable("the database", "is busy")
    assert translate_error(away, DIRECT) is away


def test_the_message_of_a_server_is_not_repeated() -> None:
    secret: OnwardError | None = translate_error(
        asyncpg.UniqueViolationError("key (card)=(4242)"), DIRECT
    )

    assert "4242" not in str(secret)


def test_an_unknown_host_is_named_with_what_to_check() -> None:
    error = socket.gaierror(-2, "Name or service not known")
    address = parse("postgresql://u:secret@db.invalid/shop")
    assert isinstance(address, PostgresAddress)
    first = str(translate_error(error, address))
    assert "host 'db.invalid' cannot be resolved. Check the host in the address" in first
    assert "secret" not in first


def test_a_server_that_is_not_started_is_told_so_at_first() -> None:
    first = str(translate_error(ConnectionRefusedError(), DIRECT))
    later = str(translate_error(ConnectionRefusedError(), DIRECT, is_proven=True))
    assert "no server accepts connections there" in first
    assert "Start the server, or check the host and the port" in first
    assert later.endswith("Try again; nothing was lost.")
