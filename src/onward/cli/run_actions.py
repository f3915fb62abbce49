"""`onward runs cancel`, `pause`, `resume`, `retry` and `discard`: by ids, or by filters."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from onward.cli import bulk
from onward.cli.command import command, for_each
from onward.cli.runs import find, report_on, runs
from onward.cli.waiting import is_over
from onward.core.run import TERMINAL, RunState, in_words

if TYPE_CHECKING:
    from onward.cli.command import CommandContext
    from onward.engine.views import RunInfo

__all__ = ["discard_each", "runs"]  # the group with these commands in it

_OPEN = ["ready", "running", "waiting", "paused"]
_ENDED = ["failed", "timed_out", "cancelled", "paused"]


@command(runs, "cancel", example="onward runs cancel order-7 order-8 --wait --timeout 1m")
@bulk.ids
@bulk.in_bulk(failures=False)
@click.option("--state", type=click.Choice(_OPEN), help="Only runs in this state.")
@click.option("--force", is_flag=True, help="End the run at once, without cleanup.")
@click.option("--grace", metavar="TIME", help="How long cleanup may take; by default, a minute.")
@click.option("--wait", is_flag=True, help="Wait until the runs have ended; requires ids.")
async def cancel(
    context: CommandContext,
    *,
    ids: tuple[str, ...],
    force: bool,
    grace: str | None,
    wait: bool,
    **asked: Any,
) -> int:
    """Cancel runs, selected by id or by filters.

    Filters start a bulk action. Exits with 1 if a run had already ended or, with --wait, did not
    end as cancelled.
    """
    choice = bulk.BulkChoice(ids, asked, wait=wait)
    if choice.is_bulk:
        given = {"force": force, "grace": grace}
        return await bulk.act_in_bulk(context, choice, context.app.bulk.cancel, **given)

    async def act(given: str) -> bool:
        row = await find(context, given)
        run = await context.app.get(row.id)
        accepted = bool(await run.cancel(force=force, grace=grace))
        if accepted and wait:
            await is_over(context, run, choice.timeout)
        state = await run.state()
        done = accepted and (not wait or state == RunState.CANCELLED)
        is_open = accepted and state not in TERMINAL
        text = "is being cancelled" if is_open else in_words(state)
        before = "" if accepted else "has already ended: it "
        report_on(context, row.id, before + text, accepted=done, state=state)
        return done

    return await for_each(context, ids, act)


@command(runs, "pause", example="onward runs pause order-7")
@bulk.ids
@bulk.in_bulk(failures=False)
@click.option("--state", type=click.Choice(_OPEN), help="Only runs in this state.")
async def pause(context: CommandContext, *, ids: tuple[str, ...], **asked: Any) -> int:
    """Pause runs: running steps finish, and nothing new starts.

    Filters start a bulk action. Map chunks, routed steps and children that are cancelled with a run
    are paused with it. Exits with 1 if a run has ended or is being cancelled.
    """
    choice = bulk.BulkChoice(ids, asked)
    if choice.is_bulk:
        return await bulk.act_in_bulk(context, choice, context.app.bulk.pause)

    async def act(given: str) -> bool:
        row = await find(context, given)
        accepted = await context.app.pause(row.id)
        refused = "has ended or is being cancelled"
        report_on(context, row.id, "is being paused" if accepted else refused, accepted=accepted)
        return accepted

    return await for_each(context, ids, act)


@command(runs, "resume", example="onward runs resume order-7")
@bulk.ids
@bulk.in_bulk(failures=False)
async def resume(context: CommandContext, *, ids: tuple[str, ...], **asked: Any) -> int:
    """Resume paused runs and the runs they held.

    Filters start a bulk action. If a run is held by another paused run, resume the other run too.
    Exits with 1 if a run has already ended.
    """
    choice = bulk.BulkChoice(ids, asked)
    if choice.is_bulk:
        return await bulk.act_in_bulk(context, choice, context.app.bulk.resume)

    async def act(given: str) -> bool:
        row = await find(context, given)
        before = await context.engine.newest(row.id)
        is_held = before.state == RunState.PAUSED or bool(before.held_by)
        accepted = await context.app.resume(row.id)
        after = await context.engine.newest(row.id)
        done = _after_resume(after) if is_held else f"is not paused: it {in_words(before.state)}"
        report_on(
            context,
            row.id,
            done if accepted else "has already ended",
            accepted=accepted,
            held_by=after.held_by,
        )
        return accepted

    return await for_each(context, ids, act)


@command(runs, "retry", example="onward runs retry --name charge --error ValueError --dry-run")
@bulk.ids
@bulk.in_bulk(failures=True)
@click.option("--state", type=click.Choice(_ENDED), help="Only runs in this state.")
@click.option("--force", is_flag=True, help="Retry even if effects may have undone work.")
async def retry(context: CommandContext, *, ids: tuple[str, ...], force: bool, **asked: Any) -> int:
    """Retry failed runs, selected by id or by filters.

    A new run under the same id continues from the call that failed. Filters start a bulk action on
    dead letters. Exits with 1 if a run has not failed, or if it sent effects because of its error:
    these effects may have undone its earlier work.
    """
    choice = bulk.BulkChoice(ids, asked)
    if choice.is_bulk:
        return await bulk.act_in_bulk(context, choice, context.app.bulk.retry, force=force)

    async def act(given: str) -> bool:
        row = await find(context, given)
        new = await context.app.retry(row.id, force=force)
        report_on(context, new.id, "is being retried", accepted=True, uid=new.uid)
        return True

    return await for_each(context, ids, act)


@command(runs, "discard", example="onward runs discard --name charge --reason 'paid in cash'")
@bulk.ids
@bulk.in_bulk(failures=True)
@click.option("--reason", metavar="TEXT", default="", help="Reason; recorded with each run.")
@click.option("--by", metavar="NAME", help="Author of the decision; by default the current user.")
async def discard(
    context: CommandContext, *, ids: tuple[str, ...], reason: str, by: str | None, **asked: Any
) -> int:
    """Discard dead letters, selected by id or by filters.

    The runs stay failed, and `onward dead list` no longer lists them. Filters start a bulk action.
    Exits with 1 if a run is not a dead letter.
    """
    choice = bulk.BulkChoice(ids, asked)
    if choice.is_bulk:
        given = {"reason": reason, "by": by}
        return await bulk.act_in_bulk(context, choice, context.app.bulk.discard, **given)

    return await discard_each(context, ids, reason, by)


async def discard_each(
    context: CommandContext, ids: tuple[str, ...], reason: str, by: str | None
) -> int:
    """Discard dead letters by their ids, and return the exit status."""

    async def act(given: str) -> bool:
        row = await find(context, given)
        accepted = await context.app.dead.discard(row.id, reason=reason, by=by)
        text = "is discarded" if accepted else "is not a dead letter"
        report_on(context, row.id, text, accepted=accepted)
        return accepted

    return await for_each(context, ids, act)


def _after_resume(info: RunInfo) -> str:
    """Return whether a run that was resumed continues, or what it still waits for."""
    if info.held_by:
        holders = ", ".join(info.held_by)
        verb = f"onward runs resume {' '.join(info.held_by)}"
        noun = "run" if len(info.held_by) == 1 else "runs"
        return f"is still paused, because it is also held by {noun} {holders}. Run: {verb}"
    if info.state == RunState.PAUSED:
        return f"is still paused ({info.reason}). Run: onward runs show {info.id}"
    return "continues"
