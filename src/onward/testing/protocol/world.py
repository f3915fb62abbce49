"""What a scenario is given: a worker with the test program, and the server that it has joined."""

from __future__ import annotations

import asyncio
import os
import signal
from typing import TYPE_CHECKING, Any

from onward.codec import encode, fingerprint
from onward.core.instant import SECOND
from onward.testing.protocol.engine import PlayedRun, ScriptedEngine
from onward.testing.protocol.rules import RuleBroken
from onward.testing.protocol.server import ScriptedServer

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

JOIN_SECONDS = 180.0
"""How long a worker may take to start and to join."""

QUIET_SECONDS = 0.3
"""How long a scenario waits to see that something does not happen."""


class World:
    """A worker process, and the server that it talks to.

    Args:
        command: Starts the worker, which finds the server's address in `ONWARD_URL`.
        patience: How many seconds the worker may take for what it must do at once.
    """

    def __init__(self, command: Sequence[str], patience: float) -> None:
        self._command = command
        self._patience = patience
        self.engine = ScriptedEngine()
        self.server = ScriptedServer(self.engine)
        self.process: asyncio.subprocess.Process | None = None

    async def begin(self) -> None:
        """Start the server and the worker, and wait until the worker has joined."""
        await self.server.__aenter__()
        environment = os.environ | {"ONWARD_URL": f"onward://127.0.0.1:{self.server.port}"}
        self.process = await asyncio.create_subprocess_exec(
            *self._command, env=environment, stdin=asyncio.subprocess.DEVNULL
        )
        ended = asyncio.ensure_future(self.process.wait())
        ended.add_done_callback(lambda _: self.server.look_again())
        await self.server.until(lambda: self._has_joined or ended.done(), JOIN_SECONDS)
        if not self._has_joined:
            fact = f"the worker did not join within {JOIN_SECONDS:g} s"
            if ended.done():
                fact = f"the worker exited with status {ended.result()}"
            raise RuleBroken("hello-first", fact)

    @property
    def _has_joined(self) -> bool:
        return self.server.count("claim") > 0

    async def end(self) -> None:
        """Kill the worker, and stop the server."""
        if self.process is not None and self.process.returncode is None:
            self.process.kill()
            await self.process.wait()
        await self.server.__aexit__(None, None, None)

    def stop_worker(self) -> None:
        """Send SIGTERM to the worker."""
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)

    async def exited(self, seconds: float) -> bool:
        """Wait for the end of the worker's process; return whether it came."""
        assert self.process is not None
        try:
            await asyncio.wait_for(self.process.wait(), seconds)
        except TimeoutError:
            return False
        return True

    # --- runs ------------------------------------------------------------------------------------

    def start(self, name: str, arguments: dict[str, Any] | None = None, **rest: Any) -> PlayedRun:
        """Start a run of the test program."""
        return self.engine.start(name, arguments or {}, **rest)

    def knows(self, step: str, **arguments: Any) -> None:
        """Say with which arguments the test program calls a step from now on."""
        known = self.engine.known_args.setdefault(step, set())
        known.add(fingerprint(encode(arguments)))

    async def over(self, run: PlayedRun, rule: str = "ends") -> PlayedRun:
        """Wait until a run has ended."""
        await self.until(lambda: run.is_over, rule, f"{run.name} is {run.state}")
        return run

    async def parked(self, run: PlayedRun, rule: str = "park") -> PlayedRun:
        """Wait until a run waits or is paused."""
        await self.until(
            lambda: run.state in ("waiting", "paused"), rule, f"{run.name} is still running"
        )
        return run

    async def due(self, run: PlayedRun) -> None:
        """Wait until a parked run is due, and let it be claimed."""
        assert run.due is not None
        await asyncio.sleep(max(0, run.due - self.engine.tick()) / SECOND)
        self.engine.release(run)

    # --- what must come --------------------------------------------------------------------------

    async def until(
        self, is_true: Callable[[], bool], rule: str, seen: str, seconds: float | None = None
    ) -> None:
        """Wait until something is true, which the rule demands."""
        seconds = self._patience if seconds is None else seconds
        broken = self.server.broken
        await self.server.until(lambda: bool(broken) or is_true(), seconds)
        self.check()
        if not is_true():
            raise RuleBroken(rule, f"{seen} (waited {seconds:g} s)")

    async def quiet(self, seconds: float = QUIET_SECONDS) -> None:
        """Let the worker do what it must not do."""
        await asyncio.sleep(seconds)
        self.check()

    def check(self) -> None:
        """Raise the first rule that was broken."""
        if self.server.broken:
            raise self.server.broken[0]

    def only(self, rule: str, rows: Sequence[Any], what: str) -> Any:
        """Return the only one of these rows."""
        self.expect(rule, len(rows) == 1, f"there are {len(rows)} {what}")
        return rows[0]

    def expect(self, rule: str, is_true: object, seen: str) -> None:
        """Check what the rule demands."""
        self.check()
        if not is_true:
            raise RuleBroken(rule, seen)
