"""`onward prune`: deletes runs that ended long ago."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import click

from onward.cli.command import DONE, command
from onward.cli.progress import progress
from onward.cli.settings import load_retention
from onward.core.retention import ENDED, Retention, read_retention
from onward.errors import BadInput

if TYPE_CHECKING:
    from collections.abc import Sequence

    from onward.cli.command import CommandContext


def add_prune(root: click.Group) -> None:
    """Add the command, which is in no group."""

    @command(root, "prune", example="onward prune --older-than 30d --state succeeded --dry-run")
    @click.option(
        "--older-than",
        metavar="DURATION",
        help="Delete runs that ended longer ago than this, such as 30d. "
        "Default: the `retention` setting.",
    )
    @click.option(
        "--state",
        "states",
        type=click.Choice([state.value for state in ENDED]),
        multiple=True,
        help="Delete only runs that ended in this state. Can be repeated.",
    )
    @click.option("--dry-run", is_flag=True, help="Only count what would be deleted.")
    async def prune(
        context: CommandContext, *, older_than: str | None, states: Sequence[str], dry_run: bool
    ) -> int:
        """Delete runs that ended long ago.

        Workers do this themselves, as configured by App(retention=...). Use this command to delete
        more runs, or when no worker is running. You can also use it while workers are running.

        Without --older-than, the setting `retention` in ONWARD_RETENTION or onward.toml, such as
        "succeeded=7d failed=30d", says how long runs are kept. Without that setting, runs that
        succeeded or were cancelled are kept for 7 days, and others for 30 days.

        Runs with effects that are not settled are kept, and so are runs that other runs still need:
        those with open children, and those that an existing run retries or was forked from.

        Expired rows are also deleted: old slots of schedules, results in the cache,
        workers that left, ids of deleted runs, and queue keys that are stored only for their rate.
        """
        rows = await _pruned(context, _keep(older_than, states), dry_run=dry_run)
        verb = "would be deleted" if dry_run else "were deleted"
        context.out.done(
            {"dry_run": dry_run, "runs": rows["onward_run"], "rows": dict(rows)},
            _text(rows, verb),
        )
        return DONE


def _keep(older_than: str | None, states: Sequence[str]) -> Retention:
    if older_than is None:
        keep = load_retention(os.environ, Path.cwd())
        if keep is None:
            raise BadInput(
                "the setting `retention`",
                "is off, so runs are kept indefinitely",
                "To delete runs anyway, pass --older-than",
            )
    else:
        keep = read_retention(older_than) or Retention()
    if not states:
        return keep
    chosen = {state: keep.of(state) if state in states else None for state in ENDED}
    return Retention(**chosen, ids=keep.ids)


async def _pruned(context: CommandContext, keep: Retention, *, dry_run: bool) -> Counter[str]:
    """Delete, or count, part by part; return the rows by table."""
    total: Counter[str] = Counter()
    position = None
    with progress(context.out, "Counting" if dry_run else "Deleting", None) as advance:
        while True:
            rows, position = await context.engine.prune(keep, position, dry_run=dry_run)
            total.update(rows)
            advance()
            if position is None:
                return total


def _text(rows: Counter[str], verb: str) -> str:
    runs = rows["onward_run"]
    text = f"{runs:,} {'run' if runs == 1 else 'runs'} {verb}." if runs else f"No runs {verb}."
    if not rows.total():
        return text
    counts = ", ".join(f"{table} {count:,}" for table, count in sorted(rows.items()))
    return f"{text} Rows by table: {counts}."
