"""Which connections of callers are known, and which of their drivers will not do."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from types import SimpleNamespace

import aiosqlite
import psycopg
import pytest

from onward.errors import StoreUnusable
from onward.store.callers.admission import packages_of
from onward.store.postgres import psycopg_caller as psycopg_callers
from onward.store.sqlite import callers as sqlite_callers


def test_a_connection_is_known_by_the_packages_of_its_bases_too() -> None:
    class Traced(sqlite3.Connection):
        """What a user made of it."""

    with closing(sqlite3.connect(":memory:", factory=Traced)) as connection:
        assert "sqlite3" in packages_of(connection)
        assert sqlite_callers.caller(connection, packages_of(connection), waits=False) is not None


def test_a_connection_of_another_sqlite_library_is_not_taken(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ours = SimpleNamespace(Connection=type("Connection", (), {}), Error=type("Error", (), {}))
    monkeypatch.setattr(sqlite_callers, "sqlite3", ours)

    with closing(sqlite3.connect(":memory:")) as connection:
        assert sqlite_callers.caller(connection, packages_of(connection), waits=True) is None
    waiting = aiosqlite.connect(":memory:")
    assert sqlite_callers.caller(waiting, packages_of(waiting), waits=True) is None


def test_a_psycopg_without_raw_cursors_is_refused_with_advice(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delattr(psycopg, "RawCursor")
    connection = psycopg.Connection.__new__(psycopg.Connection)

    with pytest.raises(StoreUnusable, match=r"is older than 3\.2\. Install a newer version"):
        psycopg_callers.caller(connection, waits=False)
