"""`onward server`: a process through which other processes and machines reach a database."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from onward.cli.command import Given, bare_command
from onward.cli.command_settings import ServerCommand
from onward.cli.event_loops import run_supervised, uvloop_factory
from onward.cli.keys import PEPPER, show_key
from onward.cli.logs import LEVELS, configure_logs
from onward.cli.settings import load, load_retention
from onward.engine.server_address import is_server
from onward.errors import BadInput
from onward.runtime.worker.process import tune_collector

if TYPE_CHECKING:
    from onward.server.process import OnwardServer

DEFAULT_ADDRESS = "127.0.0.1:7170"


def add_server(root: click.Group) -> None:
    """Add the command, which is in no group."""

    @bare_command(
        root,
        "server",
        example="onward server --db postgresql://localhost/onward --grpc 127.0.0.1:7170",
        cls=ServerCommand,
    )
    @click.option(
        "--grpc",
        "address",
        metavar="HOST:PORT",
        help=f"The address to listen on; port 0 selects a free port. Default: {DEFAULT_ADDRESS}.",
    )
    @click.option(
        "--tls-cert", metavar="FILE", help="The server's certificate, followed by intermediates."
    )
    @click.option("--tls-key", metavar="FILE", help="The private key of the certificate.")
    @click.option(
        "--client-ca",
        metavar="FILE",
        help="The CA that issues client certificates; clients must then present one.",
    )
    @click.option(
        "--behind-proxy",
        is_flag=True,
        help="Listen without TLS, because a proxy in front of the server terminates it.",
    )
    @click.option(
        "--log-level", type=click.Choice(LEVELS), help="The lowest level to log. Default: info."
    )
    def server(given: Given, log_level: str | None, **options: Any) -> int:
        """Serve remote apps and workers until SIGTERM or Ctrl-C.

        Apps and workers connect with App("onward://HOST:PORT"). The server also does the database
        maintenance: deadlines, schedules and retention. Any number of servers can share a Postgres
        database; workers reconnect to any of them, and keep their runs when one is stopped.

        Without API keys, the server listens only on the loopback interface, and every process on
        the machine has full access. Once there is a key (onward keys create), every call needs one.
        To listen on other interfaces, pass --tls-cert and --tls-key. If there is no key yet, a
        server that is started in a terminal creates one with the role admin and prints it, once;
        elsewhere it refuses to start. On SIGHUP, the server reloads its certificate.

        When the server is ready, it prints its address (with --json, as an object). It logs to
        stderr (with --json, one object per line). After a signal, it stops within 10 s.

        Exit status: 0 after a signal; 1 if the database is unavailable at startup; 2 if an
        option is wrong.
        """
        configure_logs(log_level, as_json=given.out.as_json)
        made = _made(given, options)
        tune_collector()
        return run_supervised(_serve(made, given), server_runner(), given.out)


def server_runner() -> asyncio.Runner:
    """Return a runner on uvloop, if that is installed: a server runs no code of users."""
    return asyncio.Runner(loop_factory=uvloop_factory())


def server_class() -> type[OnwardServer]:
    """Return the class of servers, whose module needs gRPC.

    Raises:
        BadInput: it is not installed.
    """
    try:
        from onward.server.process import OnwardServer
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] not in ("grpc", "google"):
            raise
        raise BadInput(
            "a server", "needs the grpcio package", "Install it: pip install 'onward[server]'"
        ) from None
    return OnwardServer


def _made(given: Given, options: dict[str, Any]) -> OnwardServer:
    made = server_class()
    from onward.server.tls import certificate_files

    folder = Path.cwd()
    settings = load(given.flags, os.environ, folder)
    if is_server(settings.db):
        raise BadInput(
            "the database setting",
            "is the address of a server, not of a database",
            "Pass a file or postgresql://... as --db",
        )
    return made(
        settings.db,
        grpc=options["address"] or DEFAULT_ADDRESS,
        tls=certificate_files(options["tls_cert"], options["tls_key"], options["client_ca"]),
        is_behind_proxy=options["behind_proxy"],
        pepper=os.environ.get(PEPPER) or None,
        # What is printed elsewhere ends in a log, where a key must not be.
        on_first_key=partial(show_key, given.out) if sys.stdout.isatty() else None,
        keep=load_retention(os.environ, folder),
    )


async def _serve(server: OnwardServer, given: Given) -> None:
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopped.set)
    async with server:
        given.out.done(
            {"address": server.address, "database": server.where, "server": server.name},
            f"Listening on {server.address}",
        )
        await stopped.wait()
