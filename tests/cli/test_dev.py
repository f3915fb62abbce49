"""`onward dev`: a change of the code replaces the worker, runs continue, and a server stays."""

from __future__ import annotations

import logging
import os
import signal
import socket
import sys
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

import pytest

from onward import App, workflow
from onward.cli.logs import TextFormatter
from onward.cli.source_watch import SourceWatch, folders_of
from tests.cli.worker_process import MODULE, WorkerProcess
from tests.kit.watching import until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.cli.conftest import Ask


@workflow
async def order(file: str) -> int:
    raise NotImplementedError("the worker's module has the body")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "orders.py").write_text(MODULE)
    return tmp_path


def test_a_module_that_cannot_be_imported_is_tried_again_after_a_change(folder: Path) -> None:
    (folder / "orders.py").write_text(f"{MODULE}\n1 / 0")
    with WorkerProcess(folder, "orders", command="dev") as dev:
        dev.until("orders.py")
        dev.until("raised ZeroDivisionError when it was imported")
        dev.until("The worker exited with status 2. It restarts when a file changes")
        (folder / "orders.py").write_text(MODULE)
        dev.until("worker.ready")


def ended_in_order(dev: WorkerProcess) -> None:
    ends = [line for line in dev.log if "worker.left" in line or "server.stopped" in line]
    assert ["worker.left" in line for line in ends] == [True, False]


def test_ctrl_c_ends_the_command_and_its_worker(folder: Path) -> None:
    with WorkerProcess(folder, "orders", command="dev") as dev:
        dev.until("worker.ready")
        dev.press_ctrl_c()
        assert dev.status() == 0
        ended_in_order(dev)


def test_sigterm_ends_the_command_and_its_worker(folder: Path) -> None:
    with WorkerProcess(folder, "orders", command="dev") as dev:
        dev.until("worker.ready")
        dev.send(signal.SIGTERM)
        assert dev.status() == 0
        ended_in_order(dev)


def test_the_worker_ends_when_the_command_is_killed(folder: Path) -> None:
    with WorkerProcess(folder, "orders", command="dev") as dev:
        dev.until("worker.ready")
        dev.send(signal.SIGKILL)
        dev.until("worker.left")


def test_without_reload_the_worker_is_the_process_itself(folder: Path) -> None:
    with WorkerProcess(folder, "orders", "--no-reload", command="dev") as dev:
        assert f"-{dev.pid}-" in dev.until("worker.ready")


# --- the server -----------------------------------------------------------------------------------


@contextmanager
def usual_port_taken() -> Iterator[None]:
    with suppress(OSError), socket.create_server(("127.0.0.1", 7170)):
        yield
        return
    yield  # another process has it


def address_of(dev: WorkerProcess) -> str:
    """Return the address that the command prints."""
    return dev.said().removeprefix("Listening on ")


async def test_a_run_continues_with_the_changed_code_and_the_server_stays(folder: Path) -> None:
    with WorkerProcess(folder, "orders", "--grpc", "127.0.0.1:0", command="dev") as dev:
        async with App(address_of(dev)) as app:
            run = await app.start(order, "go")
            await until((folder / "go.waiting").exists, 60)
            (folder / "orders.py").write_text(MODULE.replace("return worker", "return -worker"))
            dev.until("orders.py changed: restarting the worker.")
            (folder / "go").touch()
            assert await run.result(timeout="60s") < 0
        assert (folder / "reserved").read_text() == "x"
        dev.send(signal.SIGTERM)
        assert dev.status() == 0
    servers = [line for line in dev.log if "server.ready" in line]
    workers = [line for line in dev.log if "worker.ready" in line]
    assert (len(servers), len(workers)) == (1, 2)
    assert "127.0.0.1" in servers[0]


async def test_the_server_and_the_worker_are_one_process_without_reload(folder: Path) -> None:
    words = ("--no-reload", "--grpc", "127.0.0.1:0")
    with WorkerProcess(folder, "orders", *words, command="dev") as dev:
        (folder / "go").touch()
        async with App(address_of(dev)) as app:
            run = await app.start(order, "go")
            assert await run.result(timeout="60s") == dev.pid
        dev.send(signal.SIGTERM)
        assert dev.status() == 0


def test_the_usual_port_is_replaced_by_a_free_one_if_it_is_in_use(folder: Path) -> None:
    with usual_port_taken(), WorkerProcess(folder, "orders", command="dev") as dev:
        dev.until("127.0.0.1:7170 is in use; the server listens on a free port instead.")
        assert not address_of(dev).endswith(":7170")


def test_a_port_that_was_asked_for_and_is_in_use_is_an_error(folder: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        with WorkerProcess(folder, "orders", "--grpc", address, command="dev") as dev:
            assert dev.status() == 2
    assert dev.log == [
        f"onward: address {address} is in use. Choose another address with --grpc.\n"
    ]


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["--grpc", "0.0.0.0:0"], "can be reached from other machines"),
        (["--grpc", "7170"], "is not of the form HOST:PORT"),
    ],
)
def test_an_address_that_dev_does_not_listen_on_says_why(
    words: list[str], reason: str, ask: Ask
) -> None:
    answer = ask("dev", "orders", *words)
    assert answer.status == 2
    assert reason in answer.err


async def test_without_grpc_there_is_only_the_worker(folder: Path) -> None:
    hidden = folder / "hidden" / "grpc"
    hidden.mkdir(parents=True)
    (hidden / "__init__.py").write_text("raise ModuleNotFoundError('no grpc', name='grpc')")
    paths = os.pathsep.join([str(hidden.parent), *sys.path])
    with WorkerProcess(folder, "orders", command="dev", PYTHONPATH=paths) as dev:
        line = dev.until("Running only the worker")
        assert "pip install 'onward[server]'" in line
        dev.until("worker.ready")
        (folder / "go").touch()
        async with App("orders.db") as app:
            run = await app.start(order, "go")
            assert await run.result(timeout="60s") > 0


def test_an_app_that_names_a_server_gets_no_other_one(folder: Path) -> None:
    store = "onward://localhost:1"
    with WorkerProcess(folder, "orders", command="dev", ORDERS_STORE=store) as dev:
        dev.until("Running only the worker: the App connects to a server")


def test_no_port_is_chosen_where_no_server_runs(folder: Path) -> None:
    store = "onward://localhost:1"
    with (
        usual_port_taken(),
        WorkerProcess(folder, "orders", command="dev", ORDERS_STORE=store) as dev,
    ):
        dev.until("Running only the worker: the App connects to a server")
        assert not any("is in use" in line for line in dev.log)


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
