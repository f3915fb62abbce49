"""A signal that arrives in user code stops the process; it does not count as a crash of the run."""

from __future__ import annotations

import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from onward import App

if TYPE_CHECKING:
    from pathlib import Path

PROGRAM = """
import asyncio, signal, sys, time
from onward import App, step, workflow

def block() -> None:
    print("blocked", flush=True)
    time.sleep(60)

@step
async def blocks() -> None:
    block()

@workflow
async def stops(place: str) -> None:
    await blocks() if place == "step" else block()

def leave(number: int, frame: object) -> None:
    sys.exit(5)

async def main(url: str, place: str) -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, leave)
    async with App(url) as app, app.worker():
        await (await app.start(stops.options(id="s"), place)).result()

asyncio.run(main(*sys.argv[1:]))
"""


@pytest.mark.parametrize("place", ["body", "step"])
@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, -2), (signal.SIGTERM, 5)])
def test_a_signal_in_user_code_stops_the_worker_and_is_no_crash(
    tmp_path: Path, place: str, number: signal.Signals, status: int
) -> None:
    url = str(tmp_path / "app.db")
    command = [sys.executable, "-c", PROGRAM, url, place]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "blocked\n"
        process.send_signal(number)
        try:
            process.communicate(timeout=60)
        finally:
            process.kill()

    assert process.returncode == status
    with App(url).sync() as app:
        row = app.get("s").info()
        assert (row.state, row.crashes) == ("ready", 0)
