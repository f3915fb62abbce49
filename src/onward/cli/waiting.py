"""Waiting for the end of a run, as commands do it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import click

from onward.core.instant import duration
from onward.errors import NoWorker
from onward.sdk.app import NO_WORKER_SECONDS

if TYPE_CHECKING:
    from onward.cli.command import CommandContext
    from onward.sdk.run import Run


def check_timeout(_: click.Context, __: click.Parameter, given: str | None) -> str | None:
    """Refuse a wrong `--timeout` before the command has done anything."""
    try:
        duration(given or 0)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None
    return given


async def is_over(
    context: CommandContext, run: Run[Any], timeout: str | None, *, or_paused: bool = False
) -> bool:
    """Wait until a run is over, however it ends; tell people if no worker serves its queue.

    Args:
        context: Where the run is, and where to print.
        run: The run.
        timeout: Wait no longer than this.
        or_paused: A run that is paused counts as over.

    Returns:
        Whether it ended within the timeout.
    """
    seconds = None if timeout is None else duration(timeout) / 1_000_000
    result = asyncio.ensure_future(run.result(raise_paused=or_paused))
    note = asyncio.ensure_future(_note_no_worker(context, run))
    try:
        done, _ = await asyncio.wait([result], timeout=seconds)
        return bool(done)
    finally:
        for task in (result, note):
            task.cancel()
        # How the run ended is read by the caller.
        await asyncio.gather(result, note, return_exceptions=True)


async def _note_no_worker(context: CommandContext, run: Run[Any]) -> None:
    await asyncio.sleep(NO_WORKER_SECONDS)
    try:
        await context.engine.check_served(run.uid)
    except NoWorker as error:
        context.out.note(
            f"No worker serves queue {error.queue!r}: run {run.id} will begin when one does. "
            f"Start a worker, or press Ctrl-C and let the run wait."
        )
