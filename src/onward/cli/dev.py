"""`onward dev`: a worker that is restarted when the code changes, with logs for people."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from onward.cli.command import DONE, Given, bare_command
from onward.cli.logs import TextFormatter, configure_logs
from onward.cli.source_watch import SourceWatch, folders_of
from onward.cli.user_code import load_app
from onward.cli.worker import override_store, serve, worker_options
from onward.cli.worker_settings import WorkerCommand
from onward.system.clock import spawn_thread

if TYPE_CHECKING:
    from onward.cli.output import Output

LOOK_SECONDS = 0.3
DRAIN = "2s"
"""How long steps may go on when the code has changed, before they are abandoned and run again."""
DRAIN_SECONDS, LEAVE_SECONDS = 4.0, 5.0
"""How long a worker may take to end, and then to end without its steps."""


def add_dev(root: click.Group) -> None:
    """Add the command, which is in no group."""

    @bare_command(root, "dev", example="onward dev shop.tasks", cls=WorkerCommand)
    @worker_options
    @click.option("--no-reload", is_flag=True, help="Ignore changes, for example in a debugger.")
    @click.option("--parent", type=int, hidden=True)
    def dev(
        given: Given,
        target: str,
        log_level: str | None,
        parent: int | None,
        *,
        no_reload: bool,
        **options: Any,
    ) -> int:
        """Execute the runs of your App while you edit its code.

        This is `onward worker` for development. When a Python file below the current folder or in
        the module's package changes, a new worker with the changed code replaces the old one. Runs
        in progress continue there, after their completed steps. Steps have 2 s to finish (--drain);
        otherwise they run again. If the module cannot be imported, the worker starts after the next
        change. Logs are in colour on a terminal, unless NO_COLOR is set.
        """
        if parent is not None:
            spawn_thread(lambda: _end_with(parent), name="onward-parent")
        elif not no_reload:
            return Reloader(given.out, target.partition(":")[0]).run()
        app = load_app(target)
        is_coloured = sys.stderr.isatty() and not os.environ.get("NO_COLOR")
        lines = TextFormatter(dates=False, colour=is_coloured)
        configure_logs(log_level, as_json=given.out.as_json, formatter=lines)
        override_store(app, given)
        app.debug = True
        chosen = {name: value for name, value in options.items() if value not in (None, ())}
        return serve(app, given, {"drain": DRAIN} | chosen)


class Reloader:
    """Runs this command as a child process that does not watch, a new one after each change."""

    def __init__(self, out: Output, module: str) -> None:
        self._out = out
        self._stop = threading.Event()
        self._has_terminal_signal = False
        sys.path.insert(0, str(Path.cwd()))
        self._watch = SourceWatch(folders_of(module))

    def run(self) -> int:
        """Run and replace the child until a signal; return the exit status."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._on_signal)
        while not self._stop.is_set():
            child = self._start()
            changed = self._until_change(child)
            self._end(child)
            if changed:
                self._out.note(f"{_listed(changed)} changed: restarting the worker.")
        return DONE

    def _start(self) -> subprocess.Popen[bytes]:
        parent = str(os.getpid())
        command = [sys.executable, "-m", "onward", *sys.argv[1:], "--parent", parent]
        return subprocess.Popen(command)  # noqa: S603 - ourselves

    def _on_signal(self, number: int, _frame: object) -> None:
        # Ctrl-C in a terminal reaches the child as well, and a second signal abandons its steps.
        self._has_terminal_signal = number == signal.SIGINT
        self._stop.set()

    def _until_change(self, child: subprocess.Popen[bytes]) -> list[Path]:
        """Wait for a change or a signal; an empty list means a signal."""
        is_told = False
        while not self._stop.wait(LOOK_SECONDS):
            changed = self._watch.changed()
            if changed:
                return changed
            if child.poll() is not None and not is_told:
                self._out.note(
                    f"The worker exited with status {child.returncode}. It restarts when a file "
                    f"changes; press Ctrl-C to stop."
                )
                is_told = True
        return []

    def _end(self, child: subprocess.Popen[bytes]) -> None:
        if not self._has_terminal_signal:
            child.terminate()
        for seconds, end in ((DRAIN_SECONDS, child.terminate), (LEAVE_SECONDS, child.kill)):
            try:
                child.wait(seconds)
            except subprocess.TimeoutExpired:
                end()
        child.wait()


def _end_with(parent: int) -> None:
    """Stop this process when its parent has died, or two workers would follow the next `dev`."""
    while os.getppid() == parent:
        threading.Event().wait(LOOK_SECONDS)
    os.kill(os.getpid(), signal.SIGTERM)


def _listed(paths: list[Path]) -> str:
    first, *others = (os.path.relpath(path) for path in paths)
    return f"{first} and {len(others)} more files" if others else first
