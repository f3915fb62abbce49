"""Commands that reach their runs through a server."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from onward import App, workflow
from tests.kit.servers import server_thread

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.cli.conftest import Ask


@workflow
async def greet(name: str) -> str:
    return f"Hello, {name}!"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[str]:
    """The address of a server with one run."""
    with server_thread() as servers, servers.serve(str(tmp_path / "served.db")) as url:
        asyncio.run(_start(url))
        yield url


async def _start(url: str) -> None:
    async with App(url) as app:
        await app.start(greet.options(id="r1"), "Ada")


def test_commands_look_at_runs_and_change_them_through_a_server(server: str, ask: Ask) -> None:
    [run] = ask("runs", "list", "--json", "--db", server).things
    assert (run["id"], run["state"]) == ("r1", "ready")
    assert "greet" in ask("runs", "show", "r1", "--db", server).out
    assert ask("runs", "pause", "r1", "--db", server).status == 0
    assert ask("runs", "cancel", "r1", ONWARD_DB=server).status == 0
    [run] = ask("runs", "list", "--json", "--db", server).things
    assert run["state"] == "cancelled"
    assert ask("stats", "--db", server).status == 0


def test_the_doctor_examines_a_store_through_a_server(server: str, ask: Ask) -> None:
    assert "unserved: 1 run" in ask("doctor", "--db", server).out


def test_a_server_migrates_its_own_database(server: str, ask: Ask) -> None:
    answer = ask("migrate", "--db", server)
    assert answer.status == 2
    assert "is a server, which migrates its own database" in answer.err


def test_a_check_asks_for_the_database_of_a_server(server: str, ask: Ask, tmp_path: Path) -> None:
    code = f"from onward import App\nfrom {__name__} import greet\napp = App({server!r})\n"
    (tmp_path / "remote_shop.py").write_text(code)
    answer = ask("check", "remote_shop")
    assert (answer.status, answer.out) == (2, "")
    assert "onward check needs the database" in answer.err
    assert "--db postgresql://" in answer.err


def test_a_server_that_is_not_there_is_reported(ask: Ask) -> None:
    answer = ask("runs", "list", "--db", "onward://localhost:1")
    assert answer.status == 2
    assert "onward://localhost:1 cannot be reached" in answer.err


def test_a_key_in_an_address_is_refused_and_not_shown(ask: Ask) -> None:
    answer = ask("runs", "list", "--db", "onward://onw_secret@localhost")
    assert answer.status == 2
    assert "ONWARD_KEY" in answer.err
    assert "onw_secret" not in answer.err + answer.out
