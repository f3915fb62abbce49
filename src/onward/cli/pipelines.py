"""`onward pipelines`: producers, consumers and the topics between them."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from onward.cli.command import DONE, command, for_each, group
from onward.cli.pipeline_report import (
    HANDLER_HEAD,
    HEAD,
    advice_of,
    graph_of,
    handler_row,
    mode_of,
    row_of,
    topic_json,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from onward.cli.command import CommandContext


@group
def pipelines() -> None:
    """List, show, run, pause and resume pipelines.

    Workers declare the pipelines of their code when they start.
    """


_some = click.argument("names", metavar="[NAME...]", nargs=-1)
_all = click.option(
    "--all", "everything", is_flag=True, help="All pipelines, including ones declared later."
)


@command(pipelines, "list", example="onward pipelines list")
async def list_pipelines(context: CommandContext) -> int:
    """List pipelines, and what blocks them."""
    found = await context.app.pipelines.list()
    context.out.things([asdict(info) for info in found], HEAD, [row_of(info) for info in found])
    if not found:
        context.out.say("There are no pipelines.")
    return DONE


@command(pipelines, "show", example="onward pipelines show mail-to-sheet")
@click.argument("name", metavar="NAME")
async def show_pipeline(context: CommandContext, *, name: str) -> int:
    """Show a pipeline: its graph with counts, and its handlers.

    For a parallel pipeline, the handlers are listed with their busiest keys.
    """
    info = await context.app.pipelines.get(name)
    topics = {each.name: each for each in await context.app.topics.list()}
    used = {topic for each in info.handlers for topic in (*each.subscribes, *each.publishes)}
    shown = [topics[topic] for topic in sorted({*info.topics, *used}) if topic in topics]
    details = asdict(info) | {"topic_counts": [topic_json(each) for each in shown]}
    facts: dict[str, Any] = {
        "pipeline": info.name,
        "state": info.state,
        "mode": mode_of(info),
        "queue": info.queue,
        "changed": info.updated_at,
        "blocked": "\n".join(advice_of(info)),
    }
    context.out.thing(details, facts)
    context.out.say("")
    for line in graph_of(info, topics):
        context.out.say(line)
    context.out.say("")
    context.out.more(HANDLER_HEAD, [handler_row(each) for each in info.handlers])
    return DONE


@command(pipelines, "trigger", example="onward pipelines trigger mail-to-sheet --producer poll")
@click.argument("name", metavar="NAME")
@click.option("--producer", metavar="NAME", help="One producer; by default, all producers.")
async def trigger(context: CommandContext, *, name: str, producer: str | None) -> int:
    """Run producers of a pipeline as soon as possible.

    Their schedules stay as they are. Consumers run on their own when there are events.
    """
    names = await context.app.pipelines.trigger(name, producer)
    context.out.done({"pipeline": name, "producers": names}, f"{', '.join(names)} will run soon")
    return DONE


@command(pipelines, "pause", example="onward pipelines pause mail-to-sheet")
@_some
@_all
async def pause(context: CommandContext, *, names: tuple[str, ...], everything: bool) -> int:
    """Pause pipelines, so that they start no more runs.

    Open runs continue. Events are still published, but wait until the pipeline is resumed.
    """

    async def one(name: str | None) -> str:
        await context.app.pipelines.pause(name)
        return "paused"

    return await _change_each(context, names, one, everything=everything)


@command(pipelines, "resume", example="onward pipelines resume mail-to-sheet")
@_some
@_all
async def resume(context: CommandContext, *, names: tuple[str, ...], everything: bool) -> int:
    """Resume pipelines, and retry the runs that block them."""

    async def one(name: str | None) -> str:
        runs = await context.app.pipelines.resume(name)
        return f"active; retried: {', '.join(runs)}" if runs else "active"

    return await _change_each(context, names, one, everything=everything)


async def _change_each(
    context: CommandContext,
    names: tuple[str, ...],
    change: Callable[[str | None], Awaitable[str]],
    *,
    everything: bool,
) -> int:
    if everything == bool(names):
        raise click.UsageError("Pass the names of pipelines, or --all.")
    if everything:
        standing = await change(None)
        context.out.done({"pipeline": None, "state": standing}, f"all pipelines: {standing}")
        return DONE

    async def one(name: str) -> bool:
        standing = await change(name)
        context.out.done({"pipeline": name, "state": standing}, f"{name} is {standing}")
        return True

    return await for_each(context, names, one)
