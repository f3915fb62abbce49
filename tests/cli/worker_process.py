"""`onward worker` in a process of its own, in a folder with a module of workflows."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from pathlib import Path
    from types import TracebackType

MODULE = """
import asyncio, os
from pathlib import Path
from onward import App, step, workflow

app = App(os.environ.get("ORDERS_STORE", "orders.db"))


@step
async def reserve(order: str) -> int:
    with Path("reserved").open("a") as file:
        file.write(order)
    return os.getpid()


@step
async def wait_for(file: str) -> str:
    Path(f"{file}.waiting").touch()
    while not Path(file).exists():
        await asyncio.sleep(0.01)
    return file


@workflow
async def order(file: str) -> int:
    worker = await reserve("x")
    await wait_for(file)
    return worker
"""


class WorkerProcess:
    """A worker whose log is read line by line; it never outlives its test."""

    def __init__(self, folder: Path, *words: str, command: str = "worker", **env: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-W", "error", "-m", "onward", command, *words],
            cwd=folder,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)} | env,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
            # A test run in the background ignores SIGINT, and its children inherit that.
            preexec_fn=partial(signal.signal, signal.SIGINT, signal.SIG_DFL),
        )
        self.pid = self._process.pid
        self.log: list[str] = []

    def until(self, part: str) -> str:
        """Read the log up to a line with this part, and return that line."""
        assert self._process.stderr is not None
        for line in self._process.stderr:
            self.log.append(line)
            if part in line:
                return line
        raise AssertionError(f"the worker ended without {part!r}: {self.log}")

    def said(self) -> str:
        """Return the next line of what it prints beside its log."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline().rstrip("\n")
        assert line, f"the process ended: {self._process.communicate()[1]}"
        return line

    def send(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def press_ctrl_c(self) -> None:
        """Send SIGINT to the process and its children, as a terminal does."""
        os.killpg(self.pid, signal.SIGINT)

    def status(self) -> int:
        """Wait for its end, and return the exit status."""
        assert self._process.stderr is not None
        self.log.extend(self._process.stderr)
        return self._process.wait(60)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self._process.communicate()
