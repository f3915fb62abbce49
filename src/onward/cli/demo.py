"""`onward demo`: a one-minute tour, on a temporary file."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
import tempfile
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from onward.cli.command import DONE, Given, bare_command
from onward.cli.output import table
from onward.cli.run_report import HISTORY_HEAD, history_rows
from onward.cli.start import start_by_name
from onward.sdk.app import App

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from onward.cli.output import Output

LOOK_SECONDS = 0.05
PATIENCE_SECONDS = 60.0
SAMPLE = "demo_shop"
RUN = "order-7"


def add_demo(root: click.Group) -> None:
    """Add the command, which is in no group."""

    @bare_command(root, "demo", example="onward demo")
    @click.option(
        "--keep", is_flag=True, help="Keep the code and the database, and print where they are."
    )
    def demo(given: Given, *, keep: bool) -> int:
        """Take a one-minute tour with a temporary database.

        Runs a small shop in a temporary folder. A worker is killed with SIGKILL in the middle of an
        order, and another continues it. Then a payment provider hangs up, and you see how an
        operator settles the payment. The sample code is printed.
        """
        folder = Path(tempfile.mkdtemp(prefix="onward-demo-"))
        try:
            asyncio.run(_Tour(given.out, folder).run())
        finally:
            if keep:
                given.out.note(f"Kept: {folder}")
            else:
                shutil.rmtree(folder, ignore_errors=True)
        if given.out.as_json:
            given.out.done({"run": RUN, "folder": str(folder) if keep else None}, "")
        return DONE


class _Tour:
    """The tour, in a folder of its own."""

    def __init__(self, out: Output, folder: Path) -> None:
        self._out = out
        self._folder = folder
        self._app = App(str(folder / "shop.db"))

    async def run(self) -> None:
        """Show everything."""
        code = (files("onward.cli") / f"{SAMPLE}.py").read_text("utf-8")
        (self._folder / f"{SAMPLE}.py").write_text(code)
        self._title("The code")
        self._out.say(code)
        async with self._app:
            await self._crash()
            await self._settle()
        self._title("Next steps")
        self._out.say(
            "Write your own workflow: docs/guides/quick-start.md. Inspect a store: onward runs "
            "list, onward runs show ID, onward doctor."
        )

    async def _crash(self) -> None:
        self._title("1. A worker is killed, and another takes over")
        worker = self._worker()
        try:
            await start_by_name(self._app, "order", {"cents": 500}, {"id": RUN})
            self._say(f"run {RUN} has started, and worker {worker.pid} is executing it")
            await self._until(self._is_packing, worker)
            self._say("the result of step reserve is recorded; step pack is running")
            worker.kill()  # SIGKILL: it cannot clean up
            worker.wait()
            self._say(f"kill -9 {worker.pid}")
        finally:
            _end(worker)
        (self._folder / "hands_free").touch()
        worker = self._worker()
        try:
            self._say(f"worker {worker.pid} starts and continues the run")
            await self._until(self._is_paused, worker)
        finally:
            _end(worker)
        reserved = (self._folder / "reserved").read_text().count("\n")
        times = "once" if reserved == 1 else f"{reserved} times"
        self._say(f"reserve was executed {times}, pack was executed again, and charge was sent")
        await self._history()

    async def _settle(self) -> None:
        self._title("2. An effect whose outcome is unknown")
        [effect] = await self._app.effects.of(RUN)
        self._say(f"effect {effect.name} is {effect.state}: {effect.why}")
        self._say("Onward does not send it again: the card could be charged twice")
        self._say("you find the payment on the bank's statement, and record your verdict:")
        self._out.say(
            f"    onward effects resolve {effect.id[:6]} applied --result '\"ch_7\"' "
            "--reason 'on the statement'"
        )
        await self._app.effects.resolve(
            effect.id, "applied", result="ch_7", reason="on the statement", by="you"
        )
        worker = self._worker()
        try:
            run: Any = await self._app.get(RUN)
            result = await run.result(timeout=PATIENCE_SECONDS)
        finally:
            _end(worker)
        self._say(f"run {RUN} has succeeded: {result!r}")
        await self._history()

    def _worker(self) -> subprocess.Popen[bytes]:
        log = (self._folder / "worker.log").open("ab")
        with log:
            return subprocess.Popen(  # noqa: S603 - our own program
                [sys.executable, "-m", "onward", "worker", SAMPLE],
                cwd=self._folder,
                env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
                stdout=log,
                stderr=log,
            )

    async def _until(
        self, is_so: Callable[[], Awaitable[bool]], worker: subprocess.Popen[bytes]
    ) -> None:
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not await is_so():
                if worker.poll() is not None:
                    log = (self._folder / "worker.log").read_text(errors="replace")
                    raise RuntimeError(f"the demo worker exited: {log[-2000:]}")
                await asyncio.sleep(LOOK_SECONDS)

    async def _is_packing(self) -> bool:
        return self._look("packing")

    def _look(self, name: str) -> bool:
        return (self._folder / name).exists()

    async def _is_paused(self) -> bool:
        return (await self._app._engine.newest(RUN)).state == "paused"

    async def _history(self) -> None:
        if not self._out.as_json:
            self._out.say("")
            run: Any = await self._app.get(RUN)
            table(HISTORY_HEAD, history_rows(await run.history()))

    def _title(self, text: str) -> None:
        self._out.say(f"\n{text}\n{'-' * len(text)}\n")

    def _say(self, text: str) -> None:
        self._out.say(f"* {text}")


def _end(worker: subprocess.Popen[bytes]) -> None:
    """Stop a worker, if it runs."""
    if worker.poll() is None:
        worker.terminate()
        worker.wait()
