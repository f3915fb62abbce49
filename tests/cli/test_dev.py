"""`onward dev`: a change of the code replaces the worker, and runs in progress continue."""

from __future__ import annotations

import logging
import signal
from typing import TYPE_CHECKING

import pytest

from onward import App, workflow
from onward.cli.logs import TextFormatter
from onward.cli.source_watch import SourceWatch, folders_of
from tests.cli.worker_process import MODULE, WorkerProcess
from tests.kit.watching import until

if TYPE_CHECKING:
    from pathlib import Path


@workflow
async def order(file: str) -> int:
    raise NotImplementedError("the worker's module has the body")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "orders.py").write_text(MODULE)
    return tmp_path


async def test_a_run_continues_with_the_changed_code(folder: Path) -> None:
    with WorkerProcess(folder, "orders", command="dev") as dev:
        dev.until("worker.ready")
        async with App("orders.db") as app:
            run = await app.start(order, "go")
            await until((folder / "go.waiting").exists, 60)
            (folder / "orders.py").write_text(MODULE.replace("return worker", "return -worker"))
            dev.until("orders.py changed: restarting the worker.")
            (folder / "go").touch()
            assert await run.result(timeout="60s") < 0
        assert (folder / "reserved").read_text() == "x"


def test_a_module_that_cannot_be_imported_is_tried_again_after_a_change(folder: Path) -> None:
    (folder / "orders.py").write_text(f"{MODULE}\n1 / 0")
    with WorkerProcess(folder, "orders", command="dev") as dev:
        dev.until("orders.py")
        dev.until("raised ZeroDivisionError when it was imported")
        dev.until("The worker exited with status 2. It restarts when a file changes")
        (folder / "orders.py").write_text(MODULE)
        dev.until("worker.ready")


def test_ctrl_c_ends_the_command_and_its_worker(folder: Path) -> None:
    with WorkerProcess(folder, "orders", command="dev") as dev:
        dev.until("worker.ready")
        dev.press_ctrl_c()
        assert dev.status() == 0
        assert "worker.left" in dev.log[-1]


def test_sigterm_ends_the_command_and_its_worker(folder: Path) -> None:
    with WorkerProcess(folder, "orders", command="dev") as dev:
        dev.until("worker.ready")
        dev.send(signal.SIGTERM)
        assert dev.status() == 0
        assert "worker.left" in dev.log[-1]


def test_the_worker_ends_when_the_command_is_killed(folder: Path) -> None:
    with WorkerProcess(folder, "orders", command="dev") as dev:
        dev.until("worker.ready")
        dev.send(signal.SIGKILL)
        dev.until("worker.left")


def test_without_reload_the_worker_is_the_process_itself(folder: Path) -> None:
    with WorkerProcess(folder, "orders", "--no-reload", command="dev") as dev:
        assert f"-{dev.pid}-" in dev.until("worker.ready")


# --- which files ----------------------------------------------------------------------------------


def test_changed_added_and_removed_files_are_found_once(tmp_path: Path) -> None:
    old, gone, new = (tmp_path / name for name in ("old.py", "gone.py", "new.py"))
    for path in (old, gone):
        path.write_text("1")
    watch = SourceWatch([tmp_path])
    assert watch.changed() == []
    old.write_text("22")
    gone.unlink()
    new.write_text("1")
    assert watch.changed() == [gone, new, old]
    assert watch.changed() == []


@pytest.mark.parametrize("name", ["venv/m.py", ".tox/m.py", "node_modules/m.py", "notes.txt"])
def test_files_that_are_not_the_users_code_are_ignored(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    if path.parent.name == "venv":
        (path.parent / "pyvenv.cfg").touch()
    watch = SourceWatch([tmp_path])
    path.write_text("1")
    assert watch.changed() == []


def test_a_package_elsewhere_is_watched_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = tmp_path / "elsewhere" / "shop_elsewhere"
    here = tmp_path / "here"
    for folder in (elsewhere, here):
        folder.mkdir(parents=True)
    (elsewhere / "__init__.py").touch()
    monkeypatch.syspath_prepend(elsewhere.parent)
    monkeypatch.chdir(here)
    assert folders_of("shop_elsewhere.tasks") == [here, elsewhere]
    assert folders_of("no_such_module") == [here]


def test_a_line_for_people_has_time_level_message_run_and_step() -> None:
    record = logging.makeLogRecord(
        {"name": "shop", "levelname": "INFO", "levelno": 20, "msg": "paid", "run": "order-7"}
    )
    record.created = 0.0
    line = TextFormatter(dates=False).format(record)
    assert line.partition(" ")[2] == "INFO    shop: paid [order-7]"
    assert "\x1b[32mINFO" in TextFormatter(colour=True).format(record)
