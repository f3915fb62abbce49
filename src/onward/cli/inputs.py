"""`onward inputs`: external things that entered pipelines, and what happened because of them."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from onward.cli.command import DONE, command, for_each, group
from onward.errors.root import count_text
from onward.sdk.pipelines.inputs import STATES

if TYPE_CHECKING:
    from onward.cli.command import CommandContext
    from onward.engine.pipelines.views import EventInfo, InputInfo

HEAD = ("ID", "PIPELINE", "SOURCE", "TYPE", "EXTERNAL ID", "TITLE", "STATE", "CREATED")
COUNTS_HEAD = ("PIPELINE", "SOURCE", "TYPE", "PENDING", "STALE", "DONE", "SKIPPED")
EVENT_HEAD = ("TOPIC", "EVENT", "CONSUMER", "STATE", "RUN")
EFFECT_HEAD = ("EFFECT", "STATE", "TITLE", "ARGUMENTS", "RUN")


@group
def inputs() -> None:
    """List, show and skip inputs of pipelines."""


@command(inputs, "list", example="onward inputs list --state stale")
@click.option("--pipeline", metavar="NAME", help="Only inputs of this pipeline.")
@click.option("--state", type=click.Choice(STATES), help="Only inputs in this state.")
@click.option("--source", metavar="NAME", help="Only inputs from this source, such as gmail.")
@click.option(
    "--text", metavar="TEXT", help="Only inputs whose title or external id contains this."
)
@click.option("--limit", type=click.IntRange(1, 1000), default=50, show_default=True)
async def list_inputs(context: CommandContext, **wanted: Any) -> int:
    """List inputs, newest first.

    An input is pending until all consumers have handled every event that it caused, and stale if
    it has been pending for more than seven days.
    """
    found = await context.app.inputs.list(**wanted)
    context.out.things([asdict(info) for info in found], HEAD, [_row(info) for info in found])
    if not found:
        context.out.say("No inputs match.")
    return DONE


def _row(info: InputInfo) -> tuple[Any, ...]:
    state = f"{info.state}, stale" if info.is_stale else info.state
    own = (info.pipeline, info.source, info.type, info.external_id, info.title)
    return info.id, *own, state, info.created_at


@command(inputs, "counts", example="onward inputs counts --pipeline mail-to-sheet")
@click.option("--pipeline", metavar="NAME", help="Only inputs of this pipeline.")
async def counts(context: CommandContext, *, pipeline: str | None) -> int:
    """Count inputs by pipeline, source, type and state."""
    found = await context.app.inputs.counts(pipeline)
    rows = [
        (each.pipeline, each.source, each.type, each.pending, each.stale, each.done, each.skipped)
        for each in found
    ]
    context.out.things([asdict(each) for each in found], COUNTS_HEAD, rows)
    if not found:
        context.out.say("There are no inputs.")
    return DONE


@command(inputs, "show", example="onward inputs show 5f0c2a")
@click.argument("id", metavar="ID")
async def show_input(context: CommandContext, *, id: str) -> int:  # noqa: A002 - an argument
    """Show everything that an input has caused.

    Prints its events, and the effects of the runs that handled them.
    """
    report = await context.app.inputs.get(id)
    info = report.input
    facts = {
        "input": info.title,
        "id": info.id,
        "state": f"{info.state}, stale" if info.is_stale else info.state,
        "pipeline": info.pipeline,
        "source": f"{info.source} {info.type} {info.external_id}",
        "created": info.created_at,
        "notes": "\n".join(report.notes),
    }
    context.out.thing(asdict(report), facts)
    if report.events:
        context.out.say("\nEvents:")
        context.out.more(EVENT_HEAD, [row for event in report.events for row in _rows(event)])
    if report.effects:
        context.out.say("\nEffects:")
        rows = [
            (each.name, each.state, getattr(each, "title", None), each.arguments, each.run)
            for each in report.effects
        ]
        context.out.more(EFFECT_HEAD, rows)
    else:
        context.out.say("\nNo effects.")
    return DONE


def _rows(event: EventInfo) -> list[tuple[Any, ...]]:
    own = (event.topic, event.id)
    rows = [
        (
            *own,
            each.consumer,
            f"{each.state} ({each.reason})" if each.reason else each.state,
            each.run,
        )
        for each in event.deliveries
    ]
    return rows or [(*own, None, None, None)]


@command(inputs, "skip", example="onward inputs skip 5f0c2a --reason 'sent twice'")
@click.argument("ids", metavar="ID...", nargs=-1, required=True)
@click.option("--reason", required=True, metavar="TEXT", help="Reason; recorded with the skip.")
async def skip(context: CommandContext, *, ids: tuple[str, ...], reason: str) -> int:
    """Skip inputs, so that nothing new starts because of them.

    Pending events are skipped, and runs that have not sent their effect are cancelled. Runs that
    have sent their effect complete, and consumed events stay consumed. Exits with 1 if nothing was
    left to skip.
    """

    async def one(input_id: str) -> bool:
        done = await context.app.inputs.skip(input_id, reason=reason)
        parts = [
            f"{count_text(done.skipped, 'event')} skipped",
            f"runs cancelled: {', '.join(done.cancelled)}" if done.cancelled else "",
            f"runs that will complete: {', '.join(done.completing)}" if done.completing else "",
            f"{count_text(done.done, 'event')} had already been consumed" if done.done else "",
        ]
        said = "; ".join(part for part in parts if part)
        context.out.done({"input": input_id, **asdict(done)}, f"{input_id}: {said}")
        return bool(done.skipped or done.cancelled)

    return await for_each(context, ids, one)
