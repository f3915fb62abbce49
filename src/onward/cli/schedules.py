"""`onward schedules`: rules that start runs, and the slots in which they did."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from onward.cli.command import DONE, command, for_each, group
from onward.cli.schedule_report import (
    HEAD,
    SLOT_HEAD,
    as_json,
    facts_of,
    iso,
    row_of,
    slot_json,
    slot_row,
    standing,
)
from onward.cli.user_code import import_module
from onward.cli.value import named
from onward.core.slot import CatchUp, Overlap
from onward.sdk.schedule import Schedule

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from onward.cli.command import CommandContext
    from onward.engine.schedules.views import ScheduleInfo

SHOWN_SLOTS = 10


@group
def schedules() -> None:
    """List, create, change and run schedules.

    Workers start the runs of schedules when they are due.
    """


_name = click.argument("name", metavar="NAME")
_names = click.argument("names", metavar="NAME...", nargs=-1, required=True)


def _settings(work: Any) -> Any:
    """Give a command the settings of a schedule as options."""
    for option in (
        click.option(
            "--max-catch-up",
            type=int,
            metavar="N",
            help="The maximum number of slots that get a run, with --catch-up all.",
        ),
        click.option("--jitter", metavar="TIME", help="The maximum delay of each run."),
        click.option(
            "--catch-up",
            type=click.Choice([word.value for word in CatchUp]),
            help="Which slots missed during an outage get a run.",
        ),
        click.option(
            "--overlap",
            type=click.Choice([word.value for word in Overlap]),
            help="What happens to a slot while a run is open.",
        ),
        click.option(
            "--zone", metavar="ZONE", help="Time zone, such as Europe/Berlin. Default: UTC."
        ),
        click.option("--every", metavar="TIME", help="The interval, such as 5m."),
        click.option(
            "--cron",
            metavar="CRON",
            help="A cron expression: five fields, or six with seconds first.",
        ),
        click.option("--module", metavar="NAME", help="Check the arguments against this code."),
        click.option(
            "--arg",
            "arguments",
            metavar="NAME=VALUE",
            multiple=True,
            callback=named,
            help="An argument for the runs, as JSON or text.",
        ),
    ):
        work = option(work)
    return work


# --- looking --------------------------------------------------------------------------------------


@command(schedules, "list", example="onward schedules list")
async def list_schedules(context: CommandContext) -> int:
    """List schedules, with their next slots.

    A note says if a schedule is broken, has a slot that is waiting for an open run, or is no longer
    declared by the code of any live worker.
    """
    found = await context.app.schedules.list()
    context.out.things([as_json(info) for info in found], HEAD, [row_of(info) for info in found])
    if not found:
        context.out.say("There are no schedules.")
    return DONE


@command(schedules, "show", example="onward schedules show nightly")
@_name
async def show_schedule(context: CommandContext, *, name: str) -> int:
    """Show a schedule, with its next and last slots."""
    schedules = context.app.schedules
    info = await schedules.get(name)
    coming = [] if info.state == "parked" else await schedules.preview(name, 3)
    last = await schedules.slots(name, SHOWN_SLOTS)
    details = as_json(info) | {"preview": coming, "slots": [slot_json(slot) for slot in last]}
    context.out.thing(details, facts_of(info, coming))
    if last:
        context.out.say("\nLast slots:")
        context.out.more(SLOT_HEAD, [slot_row(slot) for slot in last])
    return DONE


@command(schedules, "preview", example="onward schedules preview nightly --count 5")
@_name
@click.option("--count", type=click.IntRange(1, 10_000), default=20, show_default=True)
@click.option("--after", metavar="TIME", help="List slots after this time. Default: now.")
async def preview(context: CommandContext, *, name: str, count: int, after: str | None) -> int:
    """Print the next slots of a schedule."""
    since = None if after is None else _time("--after", after)
    found = await context.app.schedules.preview(name, count, since)
    context.out.things([{"at": iso(at)} for at in found], ("SLOT",), [(iso(at),) for at in found])
    return DONE


@command(schedules, "slots", example="onward schedules slots nightly --limit 50")
@_name
@click.option("--limit", type=click.IntRange(1, 10_000), default=100, show_default=True)
async def slots(context: CommandContext, *, name: str, limit: int) -> int:
    """List past slots with their dispositions.

    The newest slots come first, each with its run and its lateness.
    """
    found = await context.app.schedules.slots(name, limit)
    rows = [slot_row(slot) for slot in found]
    context.out.things([slot_json(slot) for slot in found], SLOT_HEAD, rows)
    if not found:
        context.out.say("No slot has passed yet.")
    return DONE


# --- changing -------------------------------------------------------------------------------------


@command(
    schedules,
    "create",
    example="onward schedules create nightly report --cron '0 2 * * *' --zone Europe/Berlin",
)
@_name
@click.argument("workflow", metavar="WORKFLOW")
@_settings
@click.option("--dry-run", is_flag=True, help="Create nothing; print the first slots.")
async def create(
    context: CommandContext,
    *,
    name: str,
    workflow: str,
    arguments: dict[str, tuple[Any, ...]],
    module: str | None,
    dry_run: bool,
    **settings: Any,
) -> int:
    """Create a schedule for a workflow.

    Pass --cron or --every. Pass arguments for the runs by name: --arg region=EU.
    """
    if module is not None:
        import_module(module)
    given = _given(settings)
    kwargs = {key: values[-1] for key, values in arguments.items()}
    if dry_run:
        made = Schedule(name, workflow, (), kwargs, **given)
        coming = await context.engine.schedules.first_slots(made.spec, 5)
        rows = [(iso(at),) for at in coming]
        context.out.things([{"at": iso(at)} for at in coming], ("SLOT",), rows)
        context.out.note("Nothing was created.")
        return DONE
    info = await context.app.schedules.create(name, workflow, (), kwargs, **given)
    context.out.done(as_json(info), f"{name} is {standing(info)}")
    return DONE


@command(schedules, "update", example="onward schedules update nightly --cron '30 2 * * *'")
@_name
@click.option("--workflow", metavar="WORKFLOW", help="Run this workflow, with the arguments given.")
@_settings
async def update(
    context: CommandContext,
    *,
    name: str,
    workflow: str | None,
    arguments: dict[str, tuple[Any, ...]],
    module: str | None,
    **settings: Any,
) -> int:
    """Change settings of a schedule.

    A deploy does not undo the change. A parked schedule becomes active again.
    """
    if module is not None:
        import_module(module)
    changes = _given(settings)
    if workflow is not None or arguments:
        changes["workflow"] = workflow or (await context.app.schedules.get(name)).workflow
        changes["kwargs"] = {key: values[-1] for key, values in arguments.items()}
    if not changes:
        raise click.UsageError("Nothing to change. Pass an option, such as --cron.")
    info = await context.app.schedules.update(name, **changes)
    context.out.done(as_json(info), f"{name} is {standing(info)}")
    return DONE


@command(schedules, "pause", example="onward schedules pause nightly")
@_names
async def pause(context: CommandContext, *, names: tuple[str, ...]) -> int:
    """Pause schedules, so that they start no more runs.

    Open runs continue. Slots that pass in the meantime are recorded as paused.
    """
    return await _change_each(context, names, context.app.schedules.pause)


@command(schedules, "resume", example="onward schedules resume nightly")
@_names
async def resume(context: CommandContext, *, names: tuple[str, ...]) -> int:
    """Resume paused or parked schedules, starting from now."""
    return await _change_each(context, names, context.app.schedules.resume)


@command(schedules, "trigger", example="onward schedules trigger nightly")
@_name
async def trigger(context: CommandContext, *, name: str) -> int:
    """Start a run of a schedule now.

    The run uses no slot, and starts even if the schedule is paused or has an open run.
    """
    run = await context.app.schedules.trigger(name)
    said = f"{name} started run {run.id}"
    context.out.done({"schedule": name, "run": run.id, "uid": run.uid}, said)
    return DONE


@command(
    schedules,
    "backfill",
    example="onward schedules backfill nightly 2026-11-01T00:00Z 2026-11-08T00:00Z --dry-run",
)
@_name
@click.argument("start", metavar="START")
@click.argument("end", metavar="END")
@click.option("--dry-run", is_flag=True, help="Start nothing; list what would start.")
async def backfill(
    context: CommandContext, *, name: str, start: str, end: str, dry_run: bool
) -> int:
    """Start runs for past slots that have none.

    Covers slots from START up to, but not including, END. Both need a time zone, as in
    2026-11-01T00:00Z. All runs start at once, regardless of the overlap rule. Slots that have a run
    are left out, so you can repeat the command.
    """
    begin, before = _time("START", start), _time("END", end)
    found = await context.app.schedules.backfill(name, begin, before, dry_run)
    rows = [(iso(slot.at), slot.run) for slot in found]
    context.out.things([slot_json(slot) for slot in found], ("SLOT", "RUN"), rows)
    does = "would start" if dry_run else "started"
    context.out.note(f"{len(found)} {'run' if len(found) == 1 else 'runs'} {does}.")
    return DONE


@command(schedules, "delete", example="onward schedules delete nightly")
@_names
@click.option("--dry-run", is_flag=True, help="Delete nothing; check that the schedules exist.")
async def delete(context: CommandContext, *, names: tuple[str, ...], dry_run: bool) -> int:
    """Delete schedules and the history of their slots.

    Their runs are kept. A worker whose code declares a deleted schedule creates it again when the
    worker starts.
    """

    async def one(name: str) -> bool:
        info = await context.app.schedules.get(name)
        if not dry_run:
            await context.app.schedules.delete(name)
        does = "would be deleted" if dry_run else "was deleted"
        context.out.done(as_json(info) | {"deleted": not dry_run}, f"{name} {does}")
        return True

    return await for_each(context, names, one)


async def _change_each(
    context: CommandContext,
    names: tuple[str, ...],
    change: Callable[[str], Awaitable[ScheduleInfo]],
) -> int:
    async def one(name: str) -> bool:
        info = await change(name)
        context.out.done(as_json(info), f"{name} is {standing(info)}")
        return True

    return await for_each(context, names, one)


# --- how they are given ---------------------------------------------------------------------------


def _given(settings: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in settings.items() if value is not None}


def _time(what: str, text: str) -> datetime:
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        advice = "Write it like 2026-11-01T00:00Z."
        raise click.BadParameter(f"{text!r} is not a time. {advice}", param_hint=what) from None
    if at.tzinfo is None:
        advice = f"Write it like {text}Z."
        raise click.BadParameter(f"{text!r} has no time zone. {advice}", param_hint=what)
    return at
