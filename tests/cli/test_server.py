"""`onward server`: where it listens, what it refuses, and how it stops."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from typing import TYPE_CHECKING

import grpc
import pytest

from onward import App
from onward.cli.server import server_runner

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cli.conftest import Ask


GREETINGS = """
from onward import workflow

@workflow
async def wave() -> None: ...
"""


def a_server(folder: Path, *words: str, **environment: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-W", "error", "-m", "onward", "server", "--json", *words],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)} | environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


async def test_a_server_prints_its_address_serves_and_stops_after_a_signal(tmp_path: Path) -> None:
    (tmp_path / "onward.toml").write_text('[server]\ngrpc = "127.0.0.1:1"\n')
    with a_server(tmp_path, ONWARD_SERVER_GRPC="127.0.0.1:0") as process:
        try:
            assert process.stdout is not None
            assert process.stderr is not None
            address = json.loads(process.stdout.readline())["address"]
            async with App(f"onward://{address}") as app:
                assert await app.workers.list() == []
            process.send_signal(signal.SIGTERM)
            assert process.wait(10) == 0
            events = [json.loads(line)["event"] for line in process.stderr]
        finally:
            process.kill()
    assert events == ["server.ready", "server.stopping", "server.stopped"]


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["--grpc", "7170"], "is not of the form HOST:PORT"),
        (["--grpc", "0.0.0.0:0"], "the database has no API keys"),
        (["--tls-cert", "missing.pem"], "--tls-key"),
        (["--db", "onward://localhost"], "is the address of a server"),
    ],
)
def test_a_server_with_a_wrong_option_says_what_to_do(
    words: list[str], reason: str, ask: Ask
) -> None:
    answer = ask("server", *words)
    assert answer.status == 2
    assert reason in answer.err


def test_an_address_in_use_is_reported_in_json_and_nothing_else_is(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        with a_server(tmp_path, "--grpc", address) as process:
            _, errors = process.communicate(timeout=30)
    [line] = errors.splitlines()  # gRPC would add lines of its own
    assert "it is already in use" in json.loads(line)["message"]


def test_a_server_runs_on_uvloop(tmp_path: Path) -> None:
    with server_runner() as runner:
        assert type(runner.get_loop()).__module__ == "uvloop"
    with a_server(tmp_path, "--grpc", "127.0.0.1:0", PYTHONPROFILEIMPORTTIME="1") as process:
        assert process.stdout is not None
        assert process.stdout.readline()
        process.send_signal(signal.SIGTERM)
        _, imported = process.communicate(timeout=10)
    assert " uvloop\n" in imported


def test_a_server_runs_on_asyncio_where_uvloop_is_not_installed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "uvloop", None)
    with server_runner() as runner:
        assert type(runner.get_loop()).__module__.startswith("asyncio.")


def test_a_server_without_grpc_says_what_to_install(
    ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert grpc is not None
    for module in [name for name in sys.modules if name.startswith("onward.server")]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, "grpc", None)
    answer = ask("server", "--grpc", "127.0.0.1:0")
    assert answer.status == 2
    assert "pip install 'onward[server]'" in answer.err


def test_a_key_that_may_only_start_runs_starts_one(ask: Ask, tmp_path: Path) -> None:
    words = ("--name", "starter", "--scope", "run:start", "--json")
    key = ask("keys", "create", *words).thing["key"]
    with a_server(tmp_path, "--grpc", "127.0.0.1:0") as process:
        assert process.stdout is not None
        address = json.loads(process.stdout.readline())["address"]
        started = ("start", "wave", "{}", "--id", "r1", "--db", f"onward://{address}")
        answer = ask(*started, ONWARD_KEY=key)
        (tmp_path / "greetings.py").write_text(GREETINGS)
        again = ask(*started, "--module", "greetings", ONWARD_KEY=key)
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=10)
    assert (answer.status, answer.out) == (0, "run r1 was started\n")
    assert (again.status, again.out) == (0, "run r1 already exists: it is ready\n")


def test_a_key_that_may_only_change_queues_pauses_one(ask: Ask, tmp_path: Path) -> None:
    words = ("--name", "brake", "--scope", "queue:write", "--json")
    key = ask("keys", "create", *words).thing["key"]
    with a_server(tmp_path, "--grpc", "127.0.0.1:0") as process:
        assert process.stdout is not None
        address = json.loads(process.stdout.readline())["address"]
        words = ("queues", "pause", "mail", "--db", f"onward://{address}")
        answer = ask(*words, ONWARD_KEY=key)
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=10)
    assert (answer.status, answer.out) == (0, "queue mail: paused.\n")
