"""`onward cache`: results of steps that runs share."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from onward.cli.command import DONE, command, group

if TYPE_CHECKING:
    from onward.cli.command import CommandContext

HEAD = ("KEY", "STEP", "VERSION", "BYTES", "RUN", "CREATED", "EXPIRES")


@group
def cache() -> None:
    """List and purge cached results of steps."""


@command(cache, "list", example="onward cache list --step rate")
@click.option("--step", metavar="NAME", help="Only results of this step.")
@click.option("--version", metavar="TEXT", help="Only results of this version.")
@click.option("--limit", type=click.IntRange(1, 10_000), default=100, show_default=True)
@click.option(
    "--after",
    metavar="KEY",
    default="",
    help="Continue after this key, the last one on the previous page.",
)
async def list_cache(
    context: CommandContext, *, step: str | None, version: str | None, limit: int, after: str
) -> int:
    """List cached results, without their values."""
    found = await context.app.cache.list(step=step, version=version, limit=limit, after=after)
    rows = [
        (one.key, one.step, one.version, one.size, one.run, one.created_at, one.expires_at)
        for one in found
    ]
    context.out.things([asdict(one) for one in found], HEAD, rows)
    if not found:
        context.out.say("No cached results match.")
    elif len(found) == limit:
        context.out.note(f"There may be more: --after {found[-1].key}")
    return DONE


@command(cache, "purge", example="onward cache purge --step rate")
@click.option("--key", metavar="KEY", help="Only the result with this key.")
@click.option("--step", metavar="NAME", help="Only results of this step.")
@click.option("--version", metavar="TEXT", help="Only results of this version.")
@click.option("--all", "every", is_flag=True, help="Delete all cached results.")
async def purge(
    context: CommandContext,
    *,
    key: str | None,
    step: str | None,
    version: str | None,
    every: bool,
) -> int:
    """Delete cached results.

    The next call executes the step again. Runs that have already read a result keep it.
    """
    if not (every or key or step or version):
        raise click.UsageError("Pass --key, --step, --version or --all.")
    count = await context.app.cache.purge(key=key, step=step, version=version, all=every)
    results = "result" if count == 1 else "results"
    context.out.done({"purged": count}, f"{count} cached {results} purged")
    return DONE
