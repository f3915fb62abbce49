"""`onward dev`: a worker that is restarted when the code changes, and a server beside it."""

from __future__ import annotations

import os
import signal
import sys
import threading
from pathlib import Path
from typing import Any

import click

from onward.cli.command import Given, bare_command
from onward.cli.command_settings import DevCommand
from onward.cli.dev_server import DevServer
from onward.cli.logs import TextFormatter, configure_logs
from onward.cli.reloader import LOOK_SECONDS, Reloader
from onward.cli.user_code import load_app
from onward.cli.worker import override_store, serve, worker_options
from onward.engine.address import resolved
from onward.system.clock import spawn_thread

DRAIN = "2s"
"""How long steps may go on when the code has changed, before they are abandoned and run again."""


def add_dev(root: click.Group) -> None:
    """Add the command, which is in no group."""

    @bare_command(root, "dev", example="onward dev shop.tasks", cls=DevCommand)
    @worker_options
    @click.option(
        "--grpc",
        "address",
        metavar="HOST:PORT",
        help="The address to listen on. Default: 127.0.0.1:7170, or a free port.",
    )
    @click.option("--no-reload", is_flag=True, help="Ignore changes, for example while debugging.")
    @click.option("--parent", type=int, nargs=2, hidden=True)
    def dev(
        given: Given,
        target: str,
        address: str | None,
        log_level: str | None,
        parent: tuple[int, int] | None,
        *,
        no_reload: bool,
        **options: Any,
    ) -> int:
        """Execute the runs of your App while you edit its code.

        This is `onward worker` for development. When a Python file below the current folder or in
        the module's package changes, a new worker with the changed code replaces the old one. Runs
        in progress continue on the new worker, from their last completed step. A running step has
        2 s to finish (--drain); otherwise, it runs again. If the module cannot be imported, the
        worker starts after the next change. In a terminal, logs are in color (unless NO_COLOR=1).

        A server for the App's database runs beside the worker, and is not restarted with it. Other
        programs on this machine can connect to the address that the server prints. The server
        needs the grpcio package; without it, only the worker runs.
        """
        is_coloured = sys.stderr.isatty() and not os.environ.get("NO_COLOR")
        lines = TextFormatter(dates=False, colour=is_coloured)
        if parent is None and not no_reload:
            server = DevServer(given.out, address)
            configure_logs(log_level, as_json=given.out.as_json, formatter=lines)
            return Reloader(given.out, target.partition(":")[0], server).run()
        beside = DevServer(given.out, address) if parent is None else None
        if parent is not None:
            spawn_thread(lambda: _end_with(parent[0]), name="onward-parent")
        app = load_app(target)
        configure_logs(log_level, as_json=given.out.as_json, formatter=lines)
        override_store(app, given)
        app.debug = True
        url = resolved(app._url, Path.cwd())
        if parent is not None:
            with open(parent[1], "w", encoding="utf-8") as pipe:
                pipe.write(f"{url}\n")
        chosen = {name: value for name, value in options.items() if value not in (None, ())}
        return serve(
            app,
            given,
            {"drain": DRAIN} | chosen,
            beside=None if beside is None else beside.serving(url),
        )


def _end_with(parent: int) -> None:
    """Stop this process when its parent has died, or two workers would follow the next `dev`."""
    while os.getppid() == parent:
        threading.Event().wait(LOOK_SECONDS)
    os.kill(os.getpid(), signal.SIGTERM)
