"""What every command has: settings, an open database, `--json`, an example, an exit status.

The exit status is the answer: 0 done or found; 1 not (its state does not allow it, not found, too
late); 2 the command could not run (wrong usage, settings or key, no database); 130 Ctrl-C was
pressed.
"""

from __future__ import annotations

import asyncio
import os
import sys
import traceback
from functools import wraps
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from onward.cli.output import Output
from onward.cli.settings import DEFAULTS, is_debugging, load
from onward.engine.abbreviation import Unclear
from onward.engine.address import check_exists, masked
from onward.engine.migration import migrate
from onward.engine.server_address import is_server
from onward.errors import (
    Conflict,
    InvariantBroken,
    NotFound,
    OnwardError,
    PipelineBlocked,
    RunOver,
    Undone,
    UserError,
    VerdictRefused,
    WouldResend,
)
from onward.sdk.app import App

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Sequence

    from onward.engine.client_engine import ClientEngine

    Work = Callable[..., Coroutine[Any, Any, int]]
    BareWork = Callable[..., int]

DONE, NO, NOT_ASKED = 0, 1, 2
INTERRUPTED = 130

_ANSWERS = (
    *(Conflict, NotFound, PipelineBlocked, RunOver, Undone),
    *(VerdictRefused, WouldResend, Unclear),
)
NO_DATABASE = (
    "Set the database with --db, ONWARD_DB or onward.toml; opening an App creates its database"
)


class CommandContext(NamedTuple):
    """What a command works with: an app that is open, its engine, and where to print."""

    app: App
    engine: ClientEngine
    out: Output


class Given(NamedTuple):
    """The flags that all commands have, and where to print."""

    flags: dict[str, str | None]
    out: Output


def root() -> click.Group:
    """Return the command `onward`, without any groups yet."""

    @click.version_option(package_name="onward")
    def onward() -> None:
        """Inspect and control durable runs and their effects.

        The database is the first of these that is set: --db, ONWARD_DB, `db` in onward.toml or in
        [tool.onward] of pyproject.toml; otherwise, it is onward.db. The namespace is found in the
        same way. You can put --db, --namespace and --json before or after the command.
        """

    return group(onward)


def group(about: Callable[[], None]) -> click.Group:
    """Make a group of commands, named and explained like a function. It takes their flags too."""

    @click.group(context_settings={"help_option_names": ["-h", "--help"]})
    @_flags
    @wraps(about)
    def made(**_: Any) -> None:
        """Do nothing: a command reads these flags from the contexts above its own."""

    return made


def _flags(work: Any) -> Any:
    """Give a command or a group the flags that all have."""
    for flag in (
        click.option("--json", "as_json", is_flag=True, help="Print JSON, one object per line."),
        click.option("--namespace", metavar="NAME", help="The namespace (tenant)."),
        click.option(
            "--db", metavar="URL", help="The store: a file, postgresql://... or onward://..."
        ),
    ):
        work = flag(work)
    return work


def _nearest(name: str) -> Any:
    """Return a flag of the command, or of the nearest group before it that was given one."""
    context = click.get_current_context(silent=True)
    while context is not None:
        if context.params.get(name):
            return context.params[name]
        context = context.parent
    return None


def command(
    of: click.Group, name: str, *, example: str, migrates: bool = False
) -> Callable[[Work], click.Command]:
    """Make an async function a command: it is given a context and returns the exit status.

    A command that `migrates` creates the schema of a new database; others refuse to.
    """

    def made(work: Work) -> click.Command:
        @bare_command(of, name, example=example)
        @wraps(work)
        def run(given: Given, **asked: Any) -> int:
            opened = _opened(given, lambda context: work(context, **asked), migrates=migrates)
            return asyncio.run(opened)

        return run

    return made


def bare_command(
    of: click.Group, name: str, *, example: str, cls: type[click.Command] = click.Command
) -> Callable[[BareWork], click.Command]:
    """Make a function a command that has no database open, and returns the exit status."""

    def made(work: BareWork) -> click.Command:
        @of.command(name, cls=cls, epilog=f"\b\nExample:\n  {example}")
        @_flags
        @wraps(work)
        def run(**asked: Any) -> None:
            flags = {flag: _nearest(flag) for flag in DEFAULTS}
            given = Given(flags, Output(as_json=bool(_nearest("as_json")), flags=_again(flags)))
            for flag in (*DEFAULTS, "as_json"):
                del asked[flag]
            sys.exit(_answered(given.out, lambda: work(given, **asked)))

        return run

    return made


async def for_each(
    context: CommandContext, ids: Sequence[str], act: Callable[[str], Awaitable[bool]]
) -> int:
    """Do something to each of several, even if it fails for others; return the exit status."""
    status = DONE
    for each in ids:
        try:
            status = max(status, DONE if await act(each) else NO)
        except UserError as error:
            context.out.complain(error)
            status = max(status, status_of(error))
    return status


def status_of(error: OnwardError) -> int:
    """Return the exit status that an error means."""
    return NO if isinstance(error, _ANSWERS) else NOT_ASKED


def _answered(out: Output, ask: Callable[[], int]) -> int:
    """Return the exit status of a command, and print what went wrong."""
    try:
        return ask()
    except KeyboardInterrupt:
        return INTERRUPTED  # 1 would be an answer
    except (click.ClickException, BrokenPipeError):
        raise  # click prints the usage, or ends quietly when the reader of a pipe is gone
    except Exception as error:  # noqa: BLE001 - this is the outermost handler
        return status_of(explain(out, error))


def explain(out: Output, error: Exception) -> OnwardError:
    """Print an error, and return it: one that Onward does not raise deliberately is a bug."""
    failure = error
    if not isinstance(failure, OnwardError):
        failure = InvariantBroken(f"{type(error).__name__}: {error}")
        failure.__cause__ = error
    if is_debugging(os.environ):
        traceback.print_exception(failure)
    out.complain(failure)
    return failure


async def _opened(
    given: Given, work: Callable[[CommandContext], Awaitable[int]], *, migrates: bool
) -> int:
    settings = load(given.flags, os.environ, Path.cwd())
    app = App(settings.db, namespace=settings.namespace)
    if migrates and not is_server(settings.db):
        await migrate(settings.db)
    await check_exists(settings.db, NO_DATABASE)
    async with app:
        return await work(CommandContext(app, app._engine, given.out))


def _again(flags: dict[str, str | None]) -> str:
    """Return flags as they were given, without passwords, as this is printed."""
    safe = {
        name: masked(value) if name == "db" else value for name, value in flags.items() if value
    }
    return "".join(f" --{name} {quote(value)}" for name, value in safe.items())
