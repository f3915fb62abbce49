"""`onward worker`: a process that is a worker of the user's App, for production."""

from __future__ import annotations

import asyncio
import signal
import sys
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext, suppress
from typing import TYPE_CHECKING, Any, NoReturn

import click

from onward.cli.command import DONE, Given, bare_command
from onward.cli.command_settings import WorkerCommand
from onward.cli.event_loops import run_supervised, uvloop_factory
from onward.cli.logs import LEVELS, configure_logs
from onward.cli.metrics import metrics_endpoint
from onward.cli.user_code import load_app
from onward.errors import BadInput

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence

    from onward.cli.event_loops import LoopFactory
    from onward.sdk.app import App


def worker_options(work: Any) -> Any:
    """Give a command the options of a worker, which `app.worker` takes by the same names."""
    for option in reversed(_OPTIONS):
        work = option(work)
    return work


_OPTIONS: Sequence[Callable[[Any], Any]] = (
    click.argument("target", metavar="MODULE[:APP]"),
    click.option(
        "--queue",
        "queues",
        multiple=True,
        metavar="NAME",
        help="Queue to take runs from; may be repeated. Default: 'default'.",
    ),
    click.option(
        "--slots",
        type=click.IntRange(1),
        metavar="N",
        help="How many runs may execute at a time. Default: 100.",
    ),
    click.option(
        "--threads",
        type=click.IntRange(1),
        metavar="N",
        help="How many sync steps may run at a time. Default: 32.",
    ),
    click.option(
        "--tag",
        "tags",
        multiple=True,
        metavar="NAME",
        help="Also take runs and steps that have this tag; may be repeated.",
    ),
    click.option(
        "--lease",
        metavar="DURATION",
        help="How long the lease lasts without renewal before other workers take over. "
        "Default: 15s.",
    ),
    click.option(
        "--drain",
        metavar="DURATION",
        help="How long to wait for running steps on shutdown. Default: 10s; 2s for `dev`.",
    ),
    click.option(
        "--stall",
        metavar="DURATION",
        help="How long code may block a worker before the worker releases its other runs. "
        "Default: 10s.",
    ),
    click.option(
        "--stall-limit",
        metavar="DURATION",
        help="How long code may block a worker before the worker exits. Default: 5m.",
    ),
    click.option(
        "--log-level", type=click.Choice(LEVELS), help="The lowest level to log. Default: info."
    ),
)


def add_worker(root: click.Group) -> None:
    """Add the command, which is in no group."""

    @bare_command(
        root,
        "worker",
        example="onward worker shop.tasks --queue default --queue mail",
        cls=WorkerCommand,
    )
    @worker_options
    @click.option("--uvloop", is_flag=True, help="Use uvloop (pip install 'onward[fast]').")
    @click.option(
        "--metrics",
        metavar="[HOST]:PORT",
        help="Serve Prometheus metrics (pip install 'onward[metrics]').",
    )
    def worker(
        given: Given,
        target: str,
        log_level: str | None,
        *,
        uvloop: bool,
        metrics: str | None,
        **options: Any,
    ) -> int:
        """Execute the runs of your App until SIGTERM or Ctrl-C.

        MODULE is imported from the current folder. APP is the name of an App in the module; by
        default, `app` or the only App. The worker executes all workflows that the module defines or
        imports, and creates the schedules at the module's top level. The worker uses the App's
        store. Only --db and --namespace override it; the environment and the settings file do not.

        After the first SIGTERM or Ctrl-C, the worker takes no more runs and waits up to --drain for
        running steps. After the second, it abandons these steps. In both cases, another worker
        continues its runs.
        The worker logs to stderr (with --json, one object per line).

        Exit status: 0 after a signal or `onward workers drain`; 1 if the store is unavailable at
        startup, or the worker failed; 2 if the module, an option or the store is wrong; 70 if a
        run's code has blocked the worker for --stall-limit; 143 or 130 after a second SIGTERM or
        Ctrl-C.
        """
        loop_factory = _uvloop() if uvloop else None
        app = load_app(target)
        configure_logs(log_level, as_json=given.out.as_json)
        override_store(app, given)
        chosen = {name: value for name, value in options.items() if value not in (None, ())}
        beside = None if metrics is None else _with_metrics(app, metrics)
        return serve(app, given, chosen, loop_factory, beside)


def override_store(app: App, given: Given) -> None:
    """Let an App use the store and the namespace that flags name.

    Raises:
        BadInput: the store is in memory.
    """
    if any(given.flags.values()):
        app._set_store(given.flags["db"], given.flags["namespace"])
    if app._opened.is_private:
        raise BadInput(
            "the store of this App",
            "is in memory, so no other process can start a run for this worker",
            "Specify a file or a Postgres database in the code, or with --db",
        )


def serve(
    app: App,
    given: Given,
    options: dict[str, Any],
    loop_factory: LoopFactory | None = None,
    beside: AbstractAsyncContextManager[None] | None = None,
) -> int:
    """Run a worker until a signal, and return the exit status.

    Args:
        app: The App of the worker.
        given: The flags of the command.
        options: The options of the worker.
        loop_factory: Creates its event loop.
        beside: Is entered before the worker begins.
    """
    # Before the worker is ready; and a container's first process has no default for a signal.
    signal.signal(signal.SIGTERM, _exit)
    with suppress(AttributeError):  # what a step prints is a log, also in a pipe
        sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]  # see above
    runner = asyncio.Runner(loop_factory=loop_factory)
    return run_supervised(_serve(app, options, beside or nullcontext()), runner, given.out)


def _exit(_number: int, _frame: object) -> NoReturn:
    raise SystemExit(DONE)


async def _serve(
    app: App, options: dict[str, Any], beside: AbstractAsyncContextManager[None]
) -> None:
    async with beside, app.worker(**options) as worker:
        await worker.serve(exit_when_stuck=True)


@asynccontextmanager
async def _with_metrics(app: App, address: str) -> AsyncIterator[None]:
    async with app, metrics_endpoint(app, address):
        yield


def _uvloop() -> LoopFactory:
    factory = uvloop_factory()
    if factory is None:
        raise BadInput(
            "--uvloop", "needs the uvloop package", "Install it: pip install 'onward[fast]'"
        )
    return factory
