"""`onward dead`: failed and timed-out runs that await a decision."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from onward.cli.command import DONE, command, for_each, group
from onward.cli.filters import choosing
from onward.cli.run_actions import discard_each
from onward.cli.run_report import first_line
from onward.cli.runs import print_run
from onward.core.instant import duration
from onward.engine.client_engine import FailurePeriod
from onward.engine.search import RunPage
from onward.model.run_filter import RunQuery
from onward.sdk import given

if TYPE_CHECKING:
    from collections.abc import Sequence

    from onward.cli.command import CommandContext
    from onward.engine.views import FailureGroup, RunInfo

HEAD = ("ID", "NAME", "TRY", "STATE", "FAILED IN", "ERROR", "ENDED")
GROUPS_HEAD = ("COUNT", "NAME", "ERROR", "FAILED IN", "FIRST", "LAST", "LAST RUN", "TIMELINE")
_BARS = " ▁▂▃▄▅▆▇█"

_ids = click.argument("ids", metavar="ID...", nargs=-1, required=True)


@group
def dead() -> None:
    """List, replay and discard failed runs.

    A dead letter is a run that failed or timed out and has not been discarded, unless a newer run
    with the same id exists. To act on many runs at once, use `onward runs retry` and
    `onward runs discard` with filters.
    """


@command(dead, "list", example="onward dead list --error ValueError --since 1h")
@choosing(failures=True)
@click.option(
    "--state", type=click.Choice(["failed", "timed_out"]), help="Only runs in this state."
)
@click.option("--limit", type=click.IntRange(1, 10_000), default=100, show_default=True)
@click.option(
    "--before", metavar="ID", help="Continue after this id, the last one on the previous page."
)
async def list_dead(  # noqa: PLR0913 - each is an option of the command
    context: CommandContext,
    *,
    name: str | None,
    error: str | None,
    failed_step: str | None,
    since: str | None,
    queue: str | None,
    tag: str | None,
    attributes: dict[str, tuple[Any, ...]],
    state: str | None,
    limit: int,
    before: str | None,
) -> int:
    """List failed runs that await a decision.

    The newest runs come first. --error takes the type of the error, with or without its module.
    """
    after = None if since is None else await context.engine.now() - duration(since)
    query = RunQuery(
        name, state, queue, None, tag, dead=True, error=error, failed_step=failed_step, since=after
    )
    cursor = None if before is None else (await context.engine.find(before, changes=False)).uid
    found = await given.list_runs(context.engine, query, RunPage(limit, cursor), attributes)
    context.out.things([asdict(info) for info in found], HEAD, [_row(info) for info in found])
    if not found:
        context.out.say("No dead letters match.")
    elif len(found) == limit:
        context.out.note(f"There may be more: --before {found[-1].uid}")
    return DONE


@command(dead, "groups", example="onward dead groups --since 7d")
@click.option("--name", "--workflow", "name", metavar="NAME", help="Only runs of this workflow.")
@click.option(
    "--since", metavar="TIME", help="Only runs that ended at most this long ago, such as 1h."
)
@click.option("--parts", type=click.IntRange(1, 1000), default=24, show_default=True)
async def groups(
    context: CommandContext, *, name: str | None, since: str | None, parts: int
) -> int:
    """Group failed runs by error type and failed call.

    The largest group comes first. TIMELINE shows when the runs failed: it divides the time from the
    first failure, or from --since, until now into --parts intervals. At most 1,000 runs are counted
    per group.
    """
    length = None if since is None else duration(since)
    found = await context.engine.failure_groups(FailurePeriod(name, length, parts))
    context.out.things(
        [asdict(each) for each in found], GROUPS_HEAD, [_group_row(each) for each in found]
    )
    if not found:
        context.out.say("No dead letters.")
    return DONE


@command(dead, "show", example="onward dead show order-7")
@click.argument("run_id", metavar="ID")
async def show(context: CommandContext, *, run_id: str) -> int:
    """Show a dead letter: its error and its history.

    Exits with 1 if the run has not failed, or was retried or discarded.
    """
    key = await context.engine.find(run_id, changes=False)
    await context.app.dead.get(key.id)
    await print_run(context, key.uid)
    return DONE


@command(dead, "replay", example="onward dead replay order-7 order-8")
@_ids
@click.option("--force", is_flag=True, help="Retry even if effects may have undone work.")
async def replay(context: CommandContext, *, ids: tuple[str, ...], force: bool) -> int:
    """Retry dead letters from the call that failed.

    This is the same as `onward runs retry`. Exits with 1 if a run cannot be retried.
    """

    async def act(given: str) -> bool:
        row = await context.engine.find(given, changes=True)
        new = await context.app.dead.replay(row.id, force=force)
        known = {"id": new.id, "accepted": True, "uid": new.uid}
        context.out.done(known, f"run {new.id} is being retried")
        return True

    return await for_each(context, ids, act)


@command(dead, "discard", example="onward dead discard order-7 --reason 'paid in cash'")
@_ids
@click.option("--reason", metavar="TEXT", default="", help="Reason; recorded with the run.")
@click.option("--by", metavar="NAME", help="Author of the decision; by default the current user.")
async def discard(
    context: CommandContext, *, ids: tuple[str, ...], reason: str, by: str | None
) -> int:
    """Discard dead letters, which stay failed.

    A discarded run is kept with its history, but is no longer listed here. Exits with 1 if a run is
    not a dead letter.
    """
    return await discard_each(context, ids, reason, by)


def _row(info: RunInfo) -> tuple[Any, ...]:
    error = first_line(info.error)
    step = info.failed_step
    return (info.id, info.name, info.attempt, info.state, step, error, info.finished_at)


def _group_row(one: FailureGroup) -> tuple[Any, ...]:
    count = f"{one.count}+" if one.is_capped else one.count
    return (
        *(count, one.name, one.error_type, one.failed_step, one.first_at, one.last_at),
        *(one.last_run, bars(one.timeline)),
    )


def bars(counts: Sequence[int]) -> str:
    """Return numbers as a line of bars; what is not zero is never empty."""
    most = max(counts, default=0)
    top = len(_BARS) - 1
    return "".join(_BARS[0 if not n else max(1, n * top // most)] for n in counts).rstrip() or "-"
