"""Starts, kills and stops worker processes, and outlives none of them."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Self

from tests.e2e.engine.outside import VARIABLE

if TYPE_CHECKING:
    import signal
    from types import TracebackType

ROOT = Path(__file__).parents[3]

PATIENCE_SECONDS = 80.0

SHORT_LEASE = ("--lease", "1")
"""Options for a worker that is missed soon after it vanished, also on Postgres."""


class Process:
    """A process that tells of itself line by line; the first line begins with `ready`."""

    def __init__(
        self, module: str, *words: str, log: Path, failpoints: str = "", ready: str = "ready"
    ) -> None:
        self._popen = subprocess.Popen(
            [sys.executable, "-m", module, *words],
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            env={
                **os.environ,
                "PYTHONPATH": os.pathsep.join(["src", "."]),
                "ONWARD_FAILPOINTS": failpoints,
                VARIABLE: str(log),
            },
        )
        self.pid = self._popen.pid
        self._ready = ready
        self._is_up = False

    @property
    def is_over(self) -> bool:
        return self._popen.poll() is not None

    async def line(self) -> str:
        """Return the next line that it tells; nothing if it is over."""
        assert self._popen.stdout is not None
        return (await asyncio.to_thread(self._popen.stdout.readline)).strip()

    async def up(self) -> None:
        """Wait until it is ready."""
        if not self._is_up:
            assert (await self.line()).startswith(self._ready), "it did not come up"
            self._is_up = True

    async def replaced(self) -> None:
        """Wait until it has lost its lease, and another worker in it has taken the place."""
        await self.up()
        assert await self.line() == "replaced"

    async def lines(self) -> list[str]:
        """Return all that it tells until it is over."""
        told = []
        while line := await self.line():
            told.append(line)
        await self.status()
        return told

    async def status(self) -> int:
        """Return its exit status once it is over; below zero is the signal that killed it."""
        return await asyncio.to_thread(self._popen.wait, PATIENCE_SECONDS)

    def send(self, number: signal.Signals) -> None:
        self._popen.send_signal(number)

    async def kill(self) -> None:
        """Kill it with SIGKILL; it has no say in it."""
        self._popen.kill()
        await self.status()

    def end(self) -> None:
        """Leave nothing of it behind."""
        self._popen.kill()
        self._popen.wait()
        assert self._popen.stdout is not None
        self._popen.stdout.close()


class Crew:
    """The processes of one test."""

    def __init__(self, url: str, log: Path) -> None:
        self.url = url
        self.log = log
        self._processes: list[Process] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for process in self._processes:
            process.end()

    def launch(self, *options: str, failpoints: str = "", url: str | None = None) -> Process:
        """Start a worker, and do not wait for it; with `url`, one that reaches servers there."""
        return self._start("worker_main", *options, failpoints=failpoints, url=url)

    def server(self, port: int) -> Process:
        """Start a server on a loopback port, and do not wait for it."""
        words = ("--db", self.url, "--grpc", f"127.0.0.1:{port}", "--log-level", "error")
        process = Process("onward", "server", *words, log=self.log, ready="Listening on")
        self._processes.append(process)
        return process

    async def worker(self, *options: str, failpoints: str = "") -> Process:
        """Start a worker and return it when it is ready."""
        process = self.launch(*options, failpoints=failpoints)
        await process.up()
        return process

    def client(self, count: int, *, failpoints: str = "") -> Process:
        """Start a client that starts and signals so many runs."""
        return self._start("client_main", str(count), failpoints=failpoints)

    def publisher(self, count: int, seed: int) -> Process:
        """Start a client that publishes so many events."""
        return self._start("publisher_main", str(count), str(seed), failpoints="")

    def _start(self, module: str, *words: str, failpoints: str, url: str | None = None) -> Process:
        name = f"tests.e2e.engine.{module}"
        process = Process(name, url or self.url, *words, log=self.log, failpoints=failpoints)
        self._processes.append(process)
        return process
