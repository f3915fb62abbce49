"""Addresses of stores: what a user may write, and what it means."""

from __future__ import annotations

from pathlib import Path

import pytest

from onward.errors import BadStoreUrl
from onward.store.address import PostgresAddress, SqliteAddress, masked, parse


@pytest.mark.parametrize(
    ("url", "path"),
    [
        ("onward.db", Path("onward.db")),
        ("a folder/x.db", Path("a folder/x.db")),
        ("sqlite:///relative.db", Path("relative.db")),
        ("sqlite:////var/lib/onward.db", Path("/var/lib/onward.db")),
        ("sqlite:///with%20space.db", Path("with space.db")),
        (":memory:", None),
        ("sqlite:///:memory:", None),
        ("sqlite:///", None),
    ],
)
def test_a_file_or_memory_is_understood(url: str, path: Path | None) -> None:
    assert parse(url) == SqliteAddress(path)


def test_a_tilde_is_the_users_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))

    assert parse("~/x.db") == SqliteAddress(tmp_path / "x.db")


@pytest.mark.parametrize("scheme", ["postgresql", "postgres"])
def test_a_postgres_address_goes_to_the_driver_as_it_is(scheme: str) -> None:
    url = f"{scheme}://ada@host:5433/db?sslmode=require"

    assert parse(url) == PostgresAddress(url)


def test_our_own_options_are_taken_out_of_a_postgres_address() -> None:
    url = "postgresql://host/db?sslmode=require&pgbouncer=TRUE&onward_schema=jobs"

    address = parse(url)

    assert address == PostgresAddress("postgresql://host/db?sslmode=require", True, "jobs")


@pytest.mark.parametrize(
    ("url", "fact"),
    [
        ("", "is empty"),
        ("  ", "is empty"),
        ("a\0b", "holds a NUL"),
        ("mysql://host/db", "has the scheme 'mysql'"),
        ("sqlite://x.db", "lacks the third slash"),
        ("file:x.db?mode=ro", "is a SQLite URI"),
        ("postgresql://host/db?pgbouncer=maybe", "neither true nor false"),
        ("postgresql://host/db?onward_schema=", "not a plain lower-case word"),
        ("postgresql://host/db?onward_schema=a;drop", "not a plain lower-case word"),
        ("postgresql://host/db?onward_schema=Jobs", "not a plain lower-case word"),
        ("postgresql://host/db?onward_schema=%C3%A9", "not a plain lower-case word"),
    ],
)
def test_an_address_that_cannot_be_understood_is_refused(url: str, fact: str) -> None:
    with pytest.raises(BadStoreUrl, match=fact):
        parse(url)


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://ada:secret@host/db?pgbouncer=perhaps",
        "postgresql://ada:secret@host/db?onward_schema=A",
        "mysql://ada:secret@host/db",
    ],
)
def test_no_refusal_shows_a_password(url: str) -> None:
    with pytest.raises(BadStoreUrl) as refused:
        parse(url)

    assert "secret" not in str(refused.value)


def test_an_address_is_shown_without_its_password() -> None:
    assert masked("postgresql://ada:se:cr@et@host:1/db?x=1") == "postgresql://ada:***@host:1/db?x=1"
    assert masked("postgresql://:secret@host/db") == "postgresql://:***@host/db"
    assert masked("postgresql://ada@host/db") == "postgresql://ada@host/db"
    assert str(parse("postgresql://ada:secret@host/db")) == "postgresql://ada:***@host/db"
    assert str(parse(":memory:")) == ":memory:"
    assert str(parse("x.db")) == "x.db"
