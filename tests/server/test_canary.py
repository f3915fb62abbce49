"""Secrets that pass through a server: none is in a log, an error, a repr, or a row of its own."""

from __future__ import annotations

import gc
import json
import os
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

import pytest

import onward
from onward import App, step, workflow
from onward.core.access import parse_key
from onward.errors import RunFailed, Unauthenticated
from onward.store.statements import tables
from onward.wire.messages import messages
from tests.kit.leaks import shown
from tests.server.raw import RawClient, call
from tests.server.test_keys import a_key

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

CANARY = "canary-4f1d9b"
"""A value of a user: an argument, a result, a signal, an attribute, or part of an error."""

PAYLOADS = {
    "attempts", "args", "attributes", "error", "input", "payload", "progress", "result", "state",
    "value",
}  # fmt: skip
"""The columns that hold values of users."""

word = onward.Signal("word", str)


@step(retry=onward.Retry(attempts=1))
async def sing(song: str) -> str:
    raise LookupError(f"no bird knows {song}")


@step(cache="1h")
async def copied(song: str) -> str:
    return song


@workflow
async def child_bird(song: str) -> str:
    onward.current().attributes["song"] = song
    return await copied(song)


@workflow
async def bird(song: str) -> str:
    onward.current().progress(song)
    await child_bird(song)
    heard = await word.wait()
    return await sing(heard)


@contextmanager
def a_server(folder: Path, url: str) -> Iterator[tuple[str, list[str]]]:
    """Enter with the address of a server process that logs at DEBUG, and its lines afterwards."""
    lines: list[str] = []
    command = [sys.executable, "-m", "onward", "server", "--json", "--log-level", "debug"]
    with (
        (folder / "log").open("w") as log,
        subprocess.Popen(
            [*command, "--db", url, "--grpc", "127.0.0.1:0"],
            cwd=folder,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        ) as process,
    ):
        try:
            assert process.stdout is not None
            yield json.loads(process.stdout.readline())["address"], lines
            process.send_signal(signal.SIGTERM)
            assert process.wait(10) == 0
            lines += [*(folder / "log").read_text().splitlines(), *process.stdout]
        finally:
            process.kill()


async def test_a_canary_is_in_no_log_error_or_repr_and_in_payload_columns_alone(
    tmp_path: Path,
) -> None:
    url = str(tmp_path / "onward.db")
    key = await a_key(url, *onward_admin())
    secret = parse_key(key).secret
    with a_server(tmp_path, url) as (address, lines):
        async with App(f"onward://{address}", key=key) as app:
            async with app.worker(workflows=[bird, child_bird]):
                run = await app.start(bird, CANARY)
                await run.signal(word, CANARY)
                with pytest.raises(RunFailed) as failed:
                    await run.result(timeout="30s")
            reprs = [repr(app), repr(run), *reprs_of_ours()]
            errors = await errors_of_bad_calls(address, key)
    log = "\n".join(lines)
    assert "worker.connected" in log  # it is the log of this server
    assert secret not in log
    assert CANARY not in log
    assert CANARY in str(failed.value)  # its author put it there, and its caller may see it
    assert [text for text in reprs if secret in text] == []
    assert CANARY not in repr(app) + repr(run)
    assert [text for text in errors if secret in text or CANARY in text] == []
    assert secret.encode() not in (tmp_path / "onward.db").read_bytes()
    found = columns_with(url, CANARY)
    assert found
    assert {column for _, column in found} <= PAYLOADS, found
    assert columns_with(url, secret) == set()


def onward_admin() -> list[str]:
    from onward.core.access import ROLES

    return sorted(ROLES["admin"])


def reprs_of_ours() -> list[str]:
    """Return the reprs of all objects of Onward that are alive, such as connections."""
    ours = [each for each in gc.get_objects() if str(type(each).__module__).startswith("onward.")]
    return [repr(each) for each in ours if not isinstance(each, tuple)]


async def errors_of_bad_calls(address: str, key: str) -> list[str]:
    """Return all that the errors of calls show that carry a secret in the wrong place."""
    import grpc

    texts: list[str] = []
    wrong = key[:-1] + ("a" if key[-1] != "a" else "b")
    for given in (wrong, f"{key}x", key.replace("_", "-")):
        try:
            async with App(f"onward://{address}", key=given) as app:
                await app.workers.list()
        except Unauthenticated as error:
            texts.append(shown(error))
    assert len(texts) == 3
    async with grpc.aio.insecure_channel(address) as channel:
        client = RawClient(channel)
        client.metadata = (("authorization", f"Bearer {key}"),)
        for arguments in ({"run": {"input": CANARY}}, {"run_id": CANARY, "value": CANARY}):
            reply = await client.reply("start", arguments)
            assert reply.problem.code
            texts.append(str(reply))
        request = messages.NoteBlockedRequest(worker="w", run="r", error=CANARY.encode())
        texts.append(str(await call(channel, "Workers/NoteBlocked", request, client.metadata)))
    return texts


def columns_with(url: str, text: str) -> set[tuple[str, str]]:
    """Return the columns of a database in which a text is."""
    found = set()
    with closing(sqlite3.connect(url)) as file:
        file.row_factory = sqlite3.Row
        for table in tables():
            for row in file.execute(f"SELECT * FROM {table}"):
                for column, value in dict(row).items():
                    data = value if isinstance(value, bytes) else str(value).encode()
                    if text.encode() in data:
                        found.add((table, column))
    return found
