"""`onward keys` and `onward namespaces`: made, listed, revoked, rotated, and never shown twice."""

from __future__ import annotations

import re
import sqlite3
from typing import TYPE_CHECKING

import pytest

from onward import App
from onward.core.access import ROLES, hash_secret, parse_key

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cli.conftest import Ask

KEY = re.compile(r"onw_[a-z2-7]{12}_[0-9A-Za-z]{43}_[0-9A-Za-z]{6}")


@pytest.fixture
def db(tmp_path: Path) -> str:
    """A database without keys."""
    url = str(tmp_path / "onward.db")
    with App(url).sync():
        return url


def created(ask: Ask, *words: str) -> str:
    """Return the text of a new key."""
    answer = ask("keys", "create", "--name", "laptop", *words)
    assert answer.status == 0
    return answer.out.strip()


def test_a_key_is_printed_alone_and_once(db: str, ask: Ask) -> None:
    answer = ask("keys", "create", "--name", "laptop", "--role", "app")
    assert KEY.fullmatch(answer.out.strip())
    key = parse_key(answer.out.strip())
    assert f"key {key.id} (laptop) for namespace default: app." in answer.err
    assert "the only time it is shown" in answer.err
    assert key.secret not in answer.err
    for again in (ask("keys", "list"), ask("keys", "list", "--json")):
        assert key.id in again.out
        assert key.secret not in again.out + again.err


@pytest.mark.parametrize(
    "words", [("keys", "create", "--name", "a", "--role", "app"), ("namespaces", "create", "shop")]
)
def test_the_first_command_creates_the_tables_of_a_new_database(
    url: str, ask: Ask, words: tuple[str, ...]
) -> None:
    answer = ask(*words, "--db", url)
    assert answer.status == 0, answer.err
    assert ask(words[0], "list", "--db", url, "--json").thing


def test_no_key_is_created_in_memory(ask: Ask) -> None:
    answer = ask("keys", "create", "--name", "a", "--role", "app", "--db", ":memory:")
    assert (answer.status, "exists only in the process that opened it" in answer.err) == (2, True)


def test_a_key_as_json_has_its_text_and_its_scopes(db: str, ask: Ask) -> None:
    words = ("--name", "gpu", "--scope", "worker:poll:gpu", "--scope", "run:read", "--json")
    thing = ask("keys", "create", *words, "--expires", "90d").thing
    assert KEY.fullmatch(thing["key"])
    assert thing["scopes"] == ["run:read", "worker:poll:gpu"]
    assert thing["state"] == "active"
    assert thing["expires_at"] > thing["created_at"]
    listed = ask("keys", "list", "--json").thing
    assert "key" not in listed
    assert listed["id"] == thing["id"]


def test_roles_and_scopes_are_put_together(db: str, ask: Ask) -> None:
    words = ("--name", "both", "--role", "worker", "--role", "viewer", "--scope", "run:start")
    thing = ask("keys", "create", *words, "--json").thing
    assert set(thing["scopes"]) == {*ROLES["worker"], *ROLES["viewer"], "run:start"}


def test_a_key_needs_a_scope_that_exists(db: str, ask: Ask) -> None:
    none = ask("keys", "create", "--name", "laptop")
    assert (none.status, "Pass --role or --scope" in none.err) == (2, True)
    wrong = ask("keys", "create", "--name", "laptop", "--scope", "run:fly")
    assert (wrong.status, "'run:fly' is not a scope" in wrong.err) == (2, True)
    assert "There are no keys" in ask("keys", "list").out


def test_a_key_belongs_to_a_namespace_that_exists(db: str, ask: Ask) -> None:
    refused = ask("keys", "create", "--name", "a", "--role", "app", "--namespace", "shop")
    assert refused.status == 1
    assert "Create it: onward namespaces create shop" in refused.err
    assert ask("namespaces", "create", "shop", "--title", "The shop").status == 0
    created(ask, "--role", "app", "--namespace", "shop")
    created(ask, "--role", "app")
    assert len(ask("keys", "list", "--namespace", "shop", "--json").things) == 1
    everywhere = ask("keys", "list", "--all", "--json").things
    assert {one["namespace"] for one in everywhere} == {"shop", "default"}
    more = ask("keys", "list", "--all", "--limit", "1")
    assert "There may be more: --after" in more.err


def test_keys_are_revoked(db: str, ask: Ask) -> None:
    one, two = (parse_key(created(ask, "--role", "app")).id for _ in range(2))
    answer = ask("keys", "revoke", one, two)
    assert answer.out == f"key {one} (laptop): revoked.\nkey {two} (laptop): revoked.\n"
    assert {row["state"] for row in ask("keys", "list", "--json").things} == {"revoked"}
    assert ask("keys", "revoke", one, "--json").thing["state"] == "revoked"
    missing = ask("keys", "revoke", "aaaaaaaaaaaa")
    assert (missing.status, "onward keys list" in missing.err) == (1, True)


def test_a_key_that_is_revoked_by_its_text_is_not_repeated(db: str, ask: Ask) -> None:
    text = created(ask, "--role", "app")
    answer = ask("keys", "revoke", text)
    assert "revoked" in answer.out
    wrong = ask("keys", "revoke", text[:-1])
    assert wrong.status == 2
    assert parse_key(text).secret not in answer.out + answer.err + wrong.out + wrong.err


def test_a_key_is_rotated(db: str, ask: Ask) -> None:
    old = parse_key(created(ask, "--role", "app", "--expires", "30d"))
    answer = ask("keys", "rotate", old.id, "--grace", "1h", "--json")
    new = answer.thing
    assert parse_key(new["key"]).id != old.id
    states = {row["id"]: row for row in ask("keys", "list", "--json").things}
    assert states[old.id]["expires_at"] < new["expires_at"]
    assert KEY.fullmatch(ask("keys", "rotate", new["id"]).out.strip())
    ask("keys", "revoke", old.id)
    refused = ask("keys", "rotate", old.id)
    assert (refused.status, "is revoked" in refused.err) == (2, True)


def test_only_a_hash_is_in_the_database(db: str, ask: Ask) -> None:
    text = created(ask, "--role", "app")
    with sqlite3.connect(db) as connection:
        [(stored,)] = connection.execute("SELECT secret_hash FROM onward_api_key").fetchall()
        assert parse_key(text).secret not in "\n".join(connection.iterdump())
    connection.close()
    assert stored == hash_secret(parse_key(text))


def test_a_pepper_is_read_from_the_environment(db: str, ask: Ask) -> None:
    answer = ask("keys", "create", "--name", "a", "--role", "app", ONWARD_PEPPER="pepper")
    with sqlite3.connect(db) as connection:
        [(stored,)] = connection.execute("SELECT secret_hash FROM onward_api_key").fetchall()
    connection.close()
    assert stored == hash_secret(parse_key(answer.out.strip()), "pepper")


def test_namespaces_are_listed(db: str, ask: Ask) -> None:
    assert "There are no namespaces" in ask("namespaces", "list").out
    assert ask("namespaces", "create", "shop", "--title", "The shop", "--json").thing["enabled"]
    ask("namespaces", "create", "bank")
    head, *rows = ask("namespaces", "list").out.splitlines()
    assert head.split() == ["NAMESPACE", "TITLE", "STATE", "CREATED"]
    assert [row.split()[0] for row in rows] == ["bank", "shop"]
    assert [one["name"] for one in ask("namespaces", "list", "--json").things] == ["bank", "shop"]
    assert "--after bank" in ask("namespaces", "list", "--limit", "1").err
    assert ask("namespaces", "create", "shop").status == 2


def test_a_namespace_is_disabled_and_enabled(db: str, ask: Ask) -> None:
    ask("namespaces", "create", "shop")
    assert "disabled" in ask("namespaces", "disable", "shop").out
    assert ask("namespaces", "disable", "shop", "--json").thing["enabled"] is False
    assert ask("namespaces", "enable", "shop").out == "namespace shop: enabled.\n"
    assert ask("namespaces", "enable", "shop", "--json").thing["enabled"] is True
    assert ask("namespaces", "enable", "bank").status == 1
