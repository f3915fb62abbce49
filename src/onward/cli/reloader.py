"""Replaces the worker of `onward dev` when the code changes."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from onward.cli.command import DONE
from onward.cli.source_watch import SourceWatch, folders_of
from onward.errors.root import count_text

if TYPE_CHECKING:
    from onward.cli.dev_server import DevServer
    from onward.cli.output import Output

LOOK_SECONDS = 0.3
DRAIN_SECONDS, LEAVE_SECONDS = 4.0, 5.0
"""How long a worker may take to end, and then to end without its steps."""


class _Child(NamedTuple):
    """A worker process, and the task that serves the database which it names."""

    process: asyncio.subprocess.Process
    serving: asyncio.Task[None]


class Reloader:
    """Runs this command as a child process that does not watch, a new one after each change.

    Args:
        out: Where to print.
        module: The module of the user.
        server: Runs in this process, so it outlives the workers.
    """

    def __init__(self, out: Output, module: str, server: DevServer) -> None:
        self._out = out
        self._server = server
        self._stop = asyncio.Event()
        self._has_terminal_signal = False
        sys.path.insert(0, str(Path.cwd()))
        self._watch = SourceWatch(folders_of(module))

    def run(self) -> int:
        """Run and replace the child until a signal; return the exit status."""
        asyncio.run(self._run())
        return DONE

    async def _run(self) -> None:
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, self._on_signal, number)
        async with self._server:
            while not self._stop.is_set():
                child = await self._start()
                changed = await self._until_change(child)
                await self._end(child)
                if changed:
                    self._out.note(f"{_listed(changed)} changed: restarting the worker.")

    async def _start(self) -> _Child:
        store, told = os.pipe()
        given = ("--parent", str(os.getpid()), str(told))
        command = (sys.executable, "-m", "onward", *sys.argv[1:], *given)
        try:
            process = await asyncio.create_subprocess_exec(*command, pass_fds=(told,))
        finally:
            os.close(told)
        return _Child(process, asyncio.create_task(self._serve(store)))

    async def _serve(self, store: int) -> None:
        """Serve the database of the worker, once it has imported the module and knows it."""
        reader = asyncio.StreamReader()
        transport, _ = await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(store, "rb")
        )
        try:
            url = (await reader.readline()).decode().rstrip("\n")
        finally:
            transport.close()
        if url:
            await self._server.serve(url)

    def _on_signal(self, number: int) -> None:
        # Ctrl-C in a terminal reaches the child as well, and a second signal abandons its steps.
        self._has_terminal_signal = number == signal.SIGINT
        self._stop.set()

    async def _until_change(self, child: _Child) -> list[Path]:
        """Wait for a change or a signal; an empty list means a signal."""
        is_told = False
        while not await self._stopped_within(LOOK_SECONDS):
            changed = await asyncio.to_thread(self._watch.changed)
            if changed:
                return changed
            status = child.process.returncode
            if status is not None and not is_told:
                self._out.note(
                    f"The worker exited with status {status}. It restarts when a file "
                    f"changes; press Ctrl-C to stop."
                )
                is_told = True
        return []

    async def _stopped_within(self, seconds: float) -> bool:
        try:
            async with asyncio.timeout(seconds):
                return await self._stop.wait()
        except TimeoutError:
            return False

    async def _end(self, child: _Child) -> None:
        process = child.process
        steps = [(DRAIN_SECONDS, process.terminate), (LEAVE_SECONDS, process.kill)]
        if not self._has_terminal_signal:
            steps.insert(0, (0.0, process.terminate))
        for seconds, end in steps:
            try:
                async with asyncio.timeout(seconds):
                    await process.wait()
            except TimeoutError:
                end()
        await process.wait()
        await child.serving  # its pipe is closed by now


def _listed(paths: list[Path]) -> str:
    first, *others = (os.path.relpath(path) for path in paths)
    return f"{first} and {count_text(len(others), 'more file')}" if others else first
