"""`onward start`, `runs watch`, `stats` and `why`: runs by the names of their workflows."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from onward.cli import waiting
from tests.cli.worker_process import MODULE, WorkerProcess

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.cli.conftest import Ask

FILE = '{"file": "go"}'

TYPED = """
from datetime import date
from onward import App, workflow

app = App("onward.db")


@workflow(name="start.typed", queue="mail")
async def typed(day: date, count: int = 1) -> str:
    return f"{day} {count}"
"""


@pytest.fixture
def worker(tmp_path: Path) -> Iterator[WorkerProcess]:
    """A worker of onward.db, whose workflow `order` waits for a file and returns a number."""
    (tmp_path / "orders.py").write_text(MODULE)
    (tmp_path / "go").touch()
    with WorkerProcess(tmp_path, "orders", "--db", "onward.db") as worker:
        worker.until("worker.ready")
        yield worker


def test_a_run_is_started_by_name_and_waited_for(worker: WorkerProcess, ask: Ask) -> None:
    answer = ask("start", "order", FILE, "--id", "order-1", "--wait", "--timeout", "30s")
    assert (answer.status, answer.out) == (0, f"run order-1 has succeeded: {worker.pid}\n")
    assert (
        answer.err == "run order-1 was started\n"
    )  # at once: the id may be one that was generated
    again = ask("start", "order", FILE, "--id", "order-1", "--wait", "--json")
    assert again.status == 0
    assert again.thing["result"] == worker.pid


def test_a_run_with_wrong_arguments_is_to_be_cancelled(worker: WorkerProcess, ask: Ask) -> None:
    answer = ask("start", "order", '{"fiel": "go"}', "--id", "order-1", "--wait")
    assert answer.status == 1
    assert "the run's arguments do not match order(file: str)" in answer.out
    assert "\\n" not in answer.out
    why = ask("why", "order-1").out
    assert "there is no parameter 'fiel'" in why
    assert "with arguments that match: onward runs cancel order-1" in why
    assert "fork" not in why
    assert ask("runs", "cancel", "order-1", "--wait").status == 0


def test_a_watched_run_is_followed_to_its_end(worker: WorkerProcess, ask: Ask) -> None:
    ask("start", "order", FILE, "--id", "order-1")
    answer = ask("runs", "watch", "order-1")
    assert answer.status == 0
    lines = [line.partition("  ")[2] for line in answer.out.splitlines()]
    assert lines[-1] == "run order-1  succeeded"
    assert "step reserve  succeeded" in lines
    watched = ask("runs", "watch", "order-1", "--json").things
    assert [fact["name"] for fact in watched if fact["event"] == "call"] == ["reserve", "wait_for"]
    assert watched[-1]["state"] == "succeeded"


def test_a_start_is_repeated_by_its_id_or_refused(shop: str, ask: Ask) -> None:
    first = ask("start", "hold", "--id", "hold-9", "--json").thing
    assert first["created"]
    assert ask("start", "hold", "{}", "--id", "hold-9", "--json").thing == first | {
        "created": False
    }
    assert ask("start", "hold", "--id", "hold-9").out == "run hold-9 already exists: it is ready\n"
    other = ask("start", "hold", '{"more": 1}', "--id", "hold-9")
    assert (other.status, other.out) == (1, "")
    assert "hold-9" in other.err


def test_waiting_without_a_worker_says_so(
    shop: str, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waiting, "NO_WORKER_SECONDS", 0.0)
    answer = ask("start", "hold", "--id", "hold-9", "--wait", "--timeout", "500ms")
    assert (answer.status, answer.out) == (1, "run hold-9 is ready\n")
    assert "No worker serves queue 'default': run hold-9 will begin when one does." in answer.err


def test_options_of_a_start_are_stored(shop: str, ask: Ask) -> None:
    words = ("--queue", "mail", "--priority", "3", "--tag", "x", "--delay", "1h")
    uid = ask("start", "hold", *words, "--json").thing["uid"]
    shown = ask("runs", "show", uid, "--json").thing
    assert (shown["queue"], shown["priority"], shown["tags"]) == ("mail", 3, ["x"])
    assert shown["state"] == "waiting"


def test_a_module_checks_the_arguments(shop: str, ask: Ask, tmp_path: Path) -> None:
    (tmp_path / "start_typed.py").write_text(TYPED)
    words = ("start", "start.typed", "--module", "start_typed")
    uid = ask(*words, '["2026-11-16"]', "--json").thing["uid"]
    shown = ask("runs", "show", uid, "--json").thing
    assert (shown["arguments"], shown["queue"]) == ({"day": "2026-11-16"}, "mail")
    wrong = ask(*words, '{"day": "tomorrow"}')
    assert wrong.status == 2
    assert "JSON does not fit typed(day: date, count: int = ...): day is" in wrong.err
    misspelled = ask(*words, '{"dya": "2026-11-16"}')
    assert (misspelled.status, "there is no parameter 'dya'" in misspelled.err) == (2, True)
    assert "stored" not in wrong.err + misspelled.err
    unknown = ask("start", "no_such_workflow", "--module", "start_typed")
    assert unknown.status == 2
    assert "workflow 'no_such_workflow' is not defined by start_typed" in unknown.err


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ('["2026-11-16", 1, 2]', "the list has 3 items for 2 parameters"),
        ("[]", "typed() missing a required argument: 'day'"),
    ],
)
def test_a_list_of_arguments_that_does_not_fit_is_refused(
    shop: str, ask: Ask, tmp_path: Path, arguments: str, problem: str
) -> None:
    (tmp_path / "start_typed.py").write_text(TYPED)
    answer = ask("start", "start.typed", arguments, "--module", "start_typed")
    assert answer.status == 2
    assert f"JSON does not fit typed(day: date, count: int = ...): {problem}." in answer.err


@pytest.mark.parametrize("arguments", ["3", "not json", "[1]"])
def test_arguments_without_names_are_refused(shop: str, ask: Ask, arguments: str) -> None:
    answer = ask("start", "hold", arguments)
    assert (answer.status, answer.out) == (2, "")


def test_waiting_for_a_run_that_is_paused_is_no_success(shop: str, ask: Ask) -> None:
    answer = ask("start", "write", '{"to": "bob"}', "--id", "write-1", "--wait")
    assert answer.status == 1
    assert answer.out.startswith("run write-1 is paused")


def test_all_runs_are_watched_until_ctrl_c(shop: str, tmp_path: Path) -> None:
    watching = subprocess.Popen(
        [sys.executable, "-u", "-W", "error", "-m", "onward", "runs", "watch"],
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    with watching:
        assert watching.stdout is not None
        lines = [watching.stdout.readline() for _ in range(6)]
        watching.send_signal(signal.SIGINT)
        assert watching.wait() == 130
    assert any("run pay-1  paused (reconciliation)" in line for line in lines)


# --- stats and why --------------------------------------------------------------------------------


def test_stats_say_how_much_there_is_to_do(shop: str, ask: Ask) -> None:
    ask("start", "hold", "--queue", "mail")
    found = ask("stats", "--json").thing
    assert found["runs"] == {"ready": 1, "running": 0, "waiting": 3, "paused": 2}
    assert "mail" in [each["queue"] for each in found["queues"]]
    assert found["effects"]["planned"] == 1
    assert found["workers"] == 0
    text = ask("stats").out
    assert re.search(r"^runs +1 ready, 3 waiting, 2 paused$", text, re.MULTILINE)
    assert re.search(r"^mail +1 ", text, re.MULTILINE)
    assert found["dead"] == 1
    assert re.search(r"^dead letters +1$", text, re.MULTILINE)
    assert text.endswith("\nNext: onward dead groups\n")


def test_why_names_blockers_with_the_next_move(shop: str, ask: Ask) -> None:
    answer = ask("why", "hold-1")
    assert answer.status == 0
    assert "run hold-1: waiting" in answer.out
    assert "- signal: it is waiting for signal go" in answer.out
    assert "  Next: onward runs signal hold-1 go VALUE" in answer.out
    [blocker] = ask("why", "hold-1", "--json").things
    assert (blocker["kind"], blocker["next"]) == ("signal", "onward runs signal hold-1 go VALUE")
    assert ask("why", "fail-1").out.endswith("It has ended.\nNext: onward runs retry fail-1\n")
    assert ask("why", "nobody").status == 1
