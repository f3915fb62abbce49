"""Addresses of stores: what a user may write, and what it means."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onward.errors import BadStoreUrl
from onward.store.address import PostgresAddress, SqliteAddress, masked, parse
from tests.kit.leaks import shown


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
        ("a\0b", "contains a NUL character"),
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
    ("url", "advice"),
    [
        ("host=127.0.0.1 user=u password=secret dbname=d", "postgresql://user@host:5432/database"),
        ("password = secret", "postgresql://user@host:5432/database"),
        ("postgresql://u:sec/secret@h/db", "%2F"),
        ("postgresql://u:sec#secret@h/db", "%23"),
        ("postgresql://u:sec?secret@h/db", "%3F"),
        ("postgresql://u:[secret@h/db", "%5B"),
        ("postgresql://u:secret/db", "a port that is not a number"),
        ("postgresql:/u:secret@h/db", "without '://'"),
        ("postgresql:u:secret@h/db", "without '://'"),
        ("postgres//u:secret@h/db", "without '://'"),
        ("mysql:/u:secret@h/db", "without '://'"),
        ("u:secret@h:5432/db", "without its scheme"),
        ("sqlite:///u:secret@h/db", "without its scheme"),
        ("sqlite://u:secret@h/db", "third slash"),
        ("file:x?key=secret", "SQLite URI"),
        ("u:secret@h://db", "does not begin with a scheme"),
        (b"postgresql://u:secret@h/db", "is of type bytes, not str"),
    ],
)
def test_an_address_in_another_form_is_refused_with_advice(url: Any, advice: str) -> None:
    with pytest.raises(BadStoreUrl) as refused:
        parse(url)

    assert advice in str(refused.value)
    assert "secret" not in shown(refused.value)


@pytest.mark.parametrize("name", ["postgres/x.db", "postgres.db", "./user=x.db", "a@b.db", "a:b"])
def test_a_file_name_that_resembles_an_address_is_a_file_name(name: str) -> None:
    assert parse(name) == SqliteAddress(Path(name))


def test_an_address_is_shown_without_its_password() -> None:
    assert masked("postgresql://ada:se:cr@et@host:1/db?x=1") == "postgresql://ada:***@host:1/db"
    assert masked("postgresql://:secret@host/db") == "postgresql://:***@host/db"
    assert masked("postgresql://ada@host/db") == "postgresql://ada@host/db"
    assert masked("postgresql://h/d?password=secret&pgbouncer=true&onward_schema=jobs") == (
        "postgresql://h/d?pgbouncer=true&onward_schema=jobs"
    )
    assert masked("mysql://ada:secret@host") == "mysql://…"
    assert masked("~/x.db") == "~/x.db"
    assert str(parse("postgresql://ada:secret@host/db")) == "postgresql://ada:***@host/db"
    assert "secret" not in repr(parse("postgresql://ada:secret@host/db?sslpassword=secret"))
    assert str(parse(":memory:")) == ":memory:"
    assert str(parse("x.db")) == "x.db"


def test_an_at_sign_in_a_password_goes_to_the_driver_encoded() -> None:
    assert parse("postgresql://ada:p@ss@host/db") == PostgresAddress(
        "postgresql://ada:p%40ss@host/db"
    )


MARKER = "correct-horse"
SHAPES = (
    "postgresql://u:{}@127.0.0.1:1/db",
    "postgres://u:{}@127.0.0.1:1,127.0.0.1:2/db",
    "postgresql://:{}@[::1]:1/db?sslmode=prefer",
    "postgresql://127.0.0.1:1/db?user=u&password={}",
    "postgresql://u:x@127.0.0.1:1/db?sslpassword={}&passfile=/nowhere",
    "postgresql://127.0.0.1:1/db?sslmode=disable&passfile={}",
    "postgresql://u:{}@127.0.0.1:1/db?pgbouncer=perhaps",
    "postgresql://u:{}@127.0.0.1:port/db",
    "postgresql+asyncpg://u:{}@127.0.0.1:1/db",
    "POSTGRESQL://u:{}@127.0.0.1:1/db",
    " postgresql://u:{}@127.0.0.1:1/db",
    "postgresql:/u:{}@127.0.0.1:1/db",
    "postgresql:u:{}@127.0.0.1:1/db",
    "postgres//u:{}@127.0.0.1:1/db",
    "//u:{}@127.0.0.1:1/db",
    "u:{}@127.0.0.1:1/db",
    "host=127.0.0.1 port=1 user=u password={} dbname=d",
    "password='{}' host=127.0.0.1",
    "mysql://u:{}@127.0.0.1:1/db",
    "sqlite://u:{}@127.0.0.1:1/db",
    "sqlite:///u:{}@127.0.0.1:1/db",
    "onward://u:{}@127.0.0.1:1",
)
ODD = st.text(st.sampled_from("/#?@:[]%&=+ ;,'\"\\\n\tß"), max_size=6)


@settings(max_examples=300, deadline=None)
@given(shape=st.sampled_from(SHAPES), before=ODD, after=ODD)
def test_no_password_is_in_an_error_wherever_it_stands_in_an_address(
    shape: str, before: str, after: str
) -> None:
    assert MARKER not in _given_away(shape.format(before + MARKER + after))


def _given_away(url: str) -> str:
    """Return all that is shown of an address: in its refusal, or of what it is taken for."""
    try:
        address = parse(url)
    except BadStoreUrl as refusal:
        return shown(refusal)
    return f"{address} {address!r} {masked(url)}"
