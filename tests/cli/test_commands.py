"""What every command has: help with an example, errors without tracebacks, a form for all."""

from __future__ import annotations

import os
import pty
import shlex
import subprocess
import sys
import tomllib
from datetime import UTC, datetime
from importlib.metadata import EntryPoint
from typing import TYPE_CHECKING

import click
import pytest

from onward.cli.main import commands, main
from onward.cli.output import from_text, line_of, shown, table
from onward.engine.abbreviation import Unclear, only_one
from onward.errors import NotFound
from tests.house.source import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.cli.conftest import Ask


def every(group: click.Group, *path: str) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    for name, command in group.commands.items():
        if isinstance(command, click.Group):
            yield from every(command, *path, name)
        else:
            yield (*path, name), command


COMMANDS = dict(every(commands()))
EACH = pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
CREATING = {
    *(("dev",), ("migrate",), ("server",), ("worker",)),
    *(("keys", "create"), ("namespaces", "create")),
}
OF_CODE = {("check",), ("demo",)}
SEEKING = [path for path in COMMANDS if path not in CREATING | OF_CODE]


def example(path: tuple[str, ...]) -> list[str]:
    """Return the example that a command's help ends with."""
    text = COMMANDS[path].epilog or ""
    return shlex.split(text.splitlines()[-1])


def test_these_are_the_commands() -> None:
    assert {" ".join(path) for path in COMMANDS} == {
        "check", "clock", "demo", "dev", "doctor", "migrate", "prune", "server",
        "start", "stats", "why", "worker",
        "cache list", "cache purge",
        "dead list", "dead groups", "dead show", "dead replay", "dead discard",
        "effects list", "effects show", "effects resolve", "effects approve", "effects reject",
        "keys create", "keys list", "keys revoke", "keys rotate",
        "namespaces create", "namespaces list", "namespaces enable", "namespaces disable",
        "inputs list", "inputs counts", "inputs show", "inputs skip",
        "pipelines list", "pipelines show", "pipelines trigger", "pipelines pause",
        "pipelines resume",
        "queues list", "queues limit", "queues clear", "queues pause", "queues resume",
        "runs list", "runs show", "runs cancel", "runs pause", "runs resume", "runs retry",
        "runs discard", "runs fork", "runs signal", "runs watch",
        "schedules list", "schedules show", "schedules create", "schedules update",
        "schedules pause", "schedules resume", "schedules trigger", "schedules backfill",
        "schedules preview", "schedules slots", "schedules delete",
        "topics list", "topics peek", "topics replay", "topics skip",
        "workers list", "workers drain",
    }  # fmt: skip


@EACH
def test_a_command_has_help_with_an_example(path: tuple[str, ...], ask: Ask) -> None:
    answer = ask(*path, "--help")
    assert answer.status == 0
    assert f"Example:\n    onward {' '.join(path)}" in answer.out
    assert "--json" in answer.out


@EACH
def test_an_example_is_understood(path: tuple[str, ...]) -> None:
    program, *words = example(path)
    assert (program, *words[: len(path)]) == ("onward", *path)
    COMMANDS[path].make_context("onward", words[len(path) :]).close()


@EACH
def test_a_summary_fits_the_list_of_commands(path: tuple[str, ...]) -> None:
    assert not COMMANDS[path].get_short_help_str(60).endswith("...")


@pytest.mark.parametrize("path", SEEKING, ids=" ".join)
def test_looking_for_a_database_makes_none(path: tuple[str, ...], ask: Ask, tmp_path: Path) -> None:
    answer = ask(*example(path)[1:], "--db", "missing.db")
    assert (answer.status, answer.out) == (2, "")
    assert "missing.db does not exist, or is not an Onward database" in answer.err
    assert "Set the database with --db" in answer.err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("url", "fact"),
    [
        (":memory:", "exists only in the process that opened it"),
        ("no/such/folder.db", "is in a folder that does not exist"),
        ("mysql://host/db", "which Onward does not know"),
    ],
)
def test_a_database_that_cannot_be_used_is_named(url: str, fact: str, ask: Ask) -> None:
    answer = ask("runs", "list", "--db", url)
    assert answer.status == 2
    assert fact in answer.err


def test_a_file_of_something_else_is_left_as_it_is(ask: Ask, tmp_path: Path) -> None:
    (tmp_path / "empty.db").touch()
    assert ask("runs", "list", "--db", "empty.db").status == 2
    assert (tmp_path / "empty.db").stat().st_size == 0
    (tmp_path / "notes.txt").write_text("no database at all, but a text that is long enough")
    answer = ask("runs", "list", "--db", "notes.txt")
    assert answer.status == 2
    assert "is not a SQLite database" in answer.err
    assert {path.name for path in tmp_path.iterdir()} == {"empty.db", "notes.txt"}


@pytest.fixture(scope="session")
def postgres_template() -> None:
    """A Postgres of something else has no tables of Onward."""


def test_a_postgres_of_something_else_is_left_as_it_is(postgres_url: str, ask: Ask) -> None:
    for _ in range(2):  # the first one did not make it
        answer = ask("runs", "list", "--db", postgres_url)
        assert answer.status == 2
        assert "is not an Onward database" in answer.err


@pytest.mark.parametrize(
    "words",
    [
        ("--db", "onward.db", "--json", "runs", "list"),
        ("runs", "--db", "onward.db", "--json", "list"),
        ("--json", "runs", "--db", "onward.db", "list"),
        ("--db", "missing.db", "runs", "list", "--db", "onward.db", "--json"),
    ],
)
def test_flags_stand_before_or_after_the_command(
    words: tuple[str, ...], shop: str, ask: Ask
) -> None:
    assert len(ask(*words, ONWARD_DB="nowhere.db").things) == 6


def test_a_namespace_before_the_command_counts(shop: str, ask: Ask) -> None:
    assert ask("--namespace", "other", "runs", "list", "--json").things == []


def test_a_command_that_is_suggested_has_the_flags_from_before_the_command(
    shop: str, ask: Ask
) -> None:
    assert " --db onward.db" in ask("--db", "onward.db", "runs", "show", "pay-1").out


def test_an_error_has_a_code_for_programs(ask: Ask) -> None:
    answer = ask("runs", "list", "--db", "missing.db", "--json")
    assert answer.err.startswith('{"error": "store_unusable", "message": ')


def test_a_traceback_is_printed_when_asked_for(process: Ask) -> None:
    quiet = process("runs", "list")
    loud = process("runs", "list", ONWARD_DEBUG="1")
    assert quiet.status == loud.status == 2
    assert "Traceback" not in quiet.err
    assert "Traceback" in loud.err
    assert loud.err.endswith(quiet.err)


def test_without_click_it_says_how_to_install_it() -> None:
    code = (
        "import sys; sys.modules['click'] = None\n"
        "from onward.cli.main import main; main(['runs', 'list'])"
    )
    answer = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False
    )
    assert answer.returncode == 2
    assert "pip install 'onward[cli]'" in answer.stderr
    assert "Traceback" not in answer.stderr


def test_what_a_stream_cannot_take_is_spelled_out(shop: str, process: Ask) -> None:
    answer = process("runs", "signal", "hold-1", "\N{CHECK MARK}", PYTHONIOENCODING="latin-1")
    assert (answer.status, answer.out) == (0, "run hold-1 was sent signal \\u2713\n")


def test_the_console_script_is_this_command_line() -> None:
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
    assert EntryPoint("onward", scripts["onward"], "console_scripts").load() is main


# --- forms ----------------------------------------------------------------------------------------


def on_a_terminal(words: list[str], environment: dict[str, str]) -> str:
    """Return what a command prints on a terminal."""
    ours, theirs = pty.openpty()
    try:
        with subprocess.Popen(
            [sys.executable, "-m", "onward", *words],
            stdout=theirs,
            env=os.environ | {"TERM": "xterm-256color", "COLUMNS": "120"} | environment,
        ) as process:
            assert process.wait(60) == 0
        return os.read(ours, 100_000).decode()
    finally:
        os.close(ours)
        os.close(theirs)


@pytest.fixture
def _no_wish(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)


@pytest.mark.usefixtures("_no_wish")
def test_a_terminal_gets_colour(shop: str) -> None:
    assert "\x1b[31mfailed" in on_a_terminal(["runs", "list"], {})


@pytest.mark.usefixtures("_no_wish")
def test_no_colour_where_nobody_wants_it(shop: str) -> None:
    out = on_a_terminal(["runs", "list"], {"NO_COLOR": "1"})
    assert "failed" in out
    assert "\x1b[3" not in out


def test_a_narrow_terminal_loses_nothing(shop: str) -> None:
    out = on_a_terminal(["runs", "list"], {"COLUMNS": "20", "NO_COLOR": "1"})
    assert "paused (reconciliation)" in out
    assert out.count("\n") == 7


def test_a_column_with_nothing_in_it_is_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    table(["A", "B", "C"], [["1", None, "x"], ["10", None, None]])
    assert capsys.readouterr().out == "A   C\n1   x\n10  -\n"


def test_a_pipe_gets_plain_text(shop: str, process: Ask) -> None:
    assert "\x1b" not in process("runs", "list").out


def test_without_rich_a_terminal_gets_plain_text(shop: str) -> None:
    code = (
        "import sys; sys.modules['rich.console'] = None\n"
        "sys.stdout.isatty = lambda: True\n"
        "from onward.cli.main import main; main(['runs', 'list'])"
    )
    answer = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False
    )
    assert answer.returncode == 0
    assert "fail-1" in answer.stdout


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "-"),
        ("", "-"),
        (0, "0"),
        (True, "true"),
        ({"a": "é"}, '{"a": "é"}'),
        (("a", "b"), "a, b"),
        ("two\nlines", r"two\nlines"),
        ("\x07bell", r"\x07bell"),
        (datetime(2026, 1, 2, 3, 4, 5, 6, UTC), "2026-01-02 03:04:05Z"),
    ],
)
def test_a_value_is_shown_to_people(value: object, text: str) -> None:
    assert shown(value) == text


def test_a_time_from_which_something_counts_is_never_early() -> None:
    assert from_text(datetime(2026, 1, 2, 3, 4, 5, 6, UTC)) == "2026-01-02 03:04:06Z"
    assert from_text(datetime(2026, 1, 2, 3, 4, 5, 0, UTC)) == "2026-01-02 03:04:05Z"


def test_a_time_is_exact_for_programs() -> None:
    at = datetime(2026, 1, 2, 3, 4, 5, 6, UTC)
    assert line_of({"at": at}) == '{"at": "2026-01-02T03:04:05.000006+00:00"}'


# --- abbreviations --------------------------------------------------------------------------------


def test_the_only_one_is_meant() -> None:
    assert only_one("run", "a", {"abc": 1}, "default") == 1


def test_a_whole_id_is_meant_though_others_begin_with_it() -> None:
    assert only_one("run", "a", {"abc": 1, "a": 2}, "default") == 2


def test_none_and_several_are_told_apart() -> None:
    with pytest.raises(NotFound):
        only_one("run", "a", {}, "default")
    with pytest.raises(Unclear, match=r"it matches a1, a2, a3 and others\. Pass more of the id"):
        only_one("run", "a", {"a1": 1, "a2": 2, "a3": 3, "a4": 4}, "default")
