"""A module that `onward worker` cannot use is refused with what was found and what to do."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from onward import App
from onward.cli.user_code import load_app
from onward.errors import BadInput
from onward.sdk.schedule import declared_schedules

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.cli.conftest import Ask

WORKFLOW = """
from onward import App, workflow

@workflow
async def hello() -> None: ...
"""
SCHEDULES = """
from onward import App, Schedule, workflow
from onward.schedules import schedule

@schedule(every="1m")
@workflow
async def hello() -> None: ...

nightly = same = Schedule("nightly", hello, cron="0 2 * * *")
"""


@pytest.fixture(autouse=True)
def _imports_are_undone() -> Iterator[None]:
    before = set(sys.modules)
    yield
    for name in set(sys.modules) - before:
        del sys.modules[name]


def write(folder: Path, name: str, text: str) -> None:
    path = folder / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)


@pytest.mark.parametrize(
    ("target", "text", "expected"),
    [
        ("m", "app = App('a.db')\nother = App('b.db')", "a.db"),
        ("m", "app = object()\nclient = App('a.db')", "a.db"),
        ("m", "one = two = App('a.db')", "a.db"),
        ("m:other", "app = App('a.db')\nother = App('b.db')", "b.db"),
        ("m:Settings.app", "class Settings:\n    app = App('a.db')", "a.db"),
    ],
)
def test_the_app_is_the_named_the_usual_or_the_only_one(
    target: str, text: str, expected: str, tmp_path: Path
) -> None:
    write(tmp_path, "m.py", WORKFLOW + text)
    app = load_app(target)
    assert isinstance(app, App)
    assert app._url == expected


def test_a_package_is_imported_from_the_current_folder(tmp_path: Path) -> None:
    write(tmp_path, "shop/__init__.py", "")
    write(tmp_path, "shop/tasks.py", f"{WORKFLOW}\napp = App('a.db')")
    assert load_app("shop.tasks")._url == "a.db"


def test_the_schedules_at_the_top_level_of_a_module_are_declared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("onward.sdk.schedule.declared", [])
    write(tmp_path, "shop/__init__.py", "")
    write(tmp_path, "shop/jobs.py", SCHEDULES)
    write(tmp_path, "shop/tasks.py", f"{WORKFLOW}\nfrom shop.jobs import *\napp = App('a.db')")

    load_app("shop.tasks")
    load_app("shop.tasks")

    assert [each.name for each in declared_schedules(None, None)] == ["hello", "nightly"]


def test_two_schedules_of_a_module_with_one_name_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("onward.sdk.schedule.declared", [])
    write(
        tmp_path, "m.py", f"{SCHEDULES}\nother = Schedule('hello', hello, every='2m')\napp = App()"
    )

    load_app("m")

    with pytest.raises(BadInput, match="schedule 'hello' is declared twice"):
        declared_schedules(None, None)


@pytest.mark.parametrize(
    ("target", "text", "fact", "advice"),
    [
        ("nosuch", "", "there is no 'nosuch' in", "(which contains m)"),
        ("nosuch.tasks", "", "there is no 'nosuch' in", "run the command in the folder"),
        ("m.py", "", "'m.py' is not the name of a module.", "Use m"),
        ("shop/m.py", "", "'shop/m.py' is not the name", "Use shop.m"),
        ("./m", "", "'./m' is not the name of a module.", "such as shop.tasks"),
        ("m.app", "app = App('a.db')", "'m.app' is not a module.", "Use m:app"),
        ("m", "a = App('a.db')\nb = App('b.db')", "has several Apps: a, b.", "such as m:a"),
        ("m", "", "has no App at its top level", 'app = App("onward.db")'),
        ("m", "app = App('a.db').sync()", "has no App at its top level", "an App, not a SyncApp"),
        ("m:shop", "app = App('a.db')", "m:shop does not exist.", "Apps in this module: app"),
        ("m:hello", "app = App('a.db')", "m:hello is of type Workflow", "this module: app"),
        ("m", "import nosuch", "raised ModuleNotFoundError", "No module named 'nosuch'"),
        ("m", "def f():\n    1 / 0\nf()", "raised ZeroDivisionError", "line 7, in f"),
        ("m", "def f(:", "raised SyntaxError", "line 6"),
        ("m", "raise SystemExit(3)", "exits when it is imported (status 3)", "__main__"),
    ],
)  # fmt: skip
def test_a_module_that_cannot_be_used_is_explained(
    target: str, text: str, fact: str, advice: str, ask: Ask, tmp_path: Path
) -> None:
    write(tmp_path, "m.py", WORKFLOW + text)
    answer = ask("worker", target)
    assert (answer.status, answer.out) == (2, "")
    assert fact in answer.err
    assert advice in answer.err
    assert "importlib" not in answer.err
    assert "onward/cli" not in answer.err


def test_a_module_without_workflows_is_refused(process: Ask, tmp_path: Path) -> None:
    write(tmp_path, "m.py", "from onward import App\napp = App('a.db')")
    answer = process("worker", "m")
    assert answer.status == 2
    assert "defines no workflow or pipeline and imports none. In that module, import" in answer.err


@pytest.mark.parametrize(
    ("url", "status", "fact"),
    [
        (":memory:", 2, "is in memory, so no other process can start a run"),
        ("postgresql://shop@127.0.0.1:1/shop", 1, "cannot be reached"),
        ("mysql://host/db", 2, "which Onward does not know"),
        ("no/such/folder.db", 2, "is in a folder that does not exist"),
    ],
)
def test_a_store_that_cannot_be_opened_ends_the_worker(
    url: str, status: int, fact: str, process: Ask, tmp_path: Path
) -> None:
    write(tmp_path, "m.py", f"{WORKFLOW}\napp = App('a.db')")
    answer = process("worker", "m", "--db", url)
    assert answer.status == status
    assert fact in answer.err
    assert "Traceback" not in answer.err


def test_uvloop_that_is_not_installed_is_named(
    ask: Ask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "uvloop", None)
    write(tmp_path, "m.py", f"{WORKFLOW}\napp = App('a.db')")
    answer = ask("worker", "m", "--uvloop")
    assert answer.status == 2
    assert "--uvloop needs the uvloop package. Install it: pip install" in answer.err


@pytest.mark.parametrize(
    ("option", "fact"),
    [("--lease=soon", "'soon' is not a valid duration"), ("--stall=1ms", "is less than 1s")],
)
def test_a_duration_that_cannot_be_taken_is_named(
    option: str, fact: str, process: Ask, tmp_path: Path
) -> None:
    write(tmp_path, "m.py", f"{WORKFLOW}\napp = App('a.db')")
    answer = process("worker", "m", option)
    assert answer.status == 2
    assert fact in answer.err
