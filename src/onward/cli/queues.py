"""`onward queues`: what limits queues, workflows and keys, and pauses."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from onward.cli.command import DONE, command, group
from onward.errors import Forbidden

if TYPE_CHECKING:
    from onward.cli.command import CommandContext
    from onward.engine.flows import FlowInfo

HEAD = ("KIND", "NAME", "LIMIT", "RATE", "IN USE", "READY", "WEIGHT", "STATE")


@group
def queues() -> None:
    """List, limit and pause queues, workflows and keys."""


_queue = click.argument("queue", required=False)
_workflow = click.option("--workflow", metavar="NAME", help="A workflow, instead of a queue.")
_key = click.option("--key", metavar="KEY", help="A key of the queue; '*' for every key.")


@command(queues, "list", example="onward queues list")
async def list_queues(context: CommandContext) -> int:
    """List queues, and limited or paused workflows and keys.

    Where an operator's limit or rate is in force, the declared one follows in brackets.
    """
    found = await context.app.queues.list()
    context.out.things([asdict(info) for info in found], HEAD, [_row(info) for info in found])
    if not found:
        context.out.say("There are no queues.")
    return DONE


@command(queues, "limit", example="onward queues limit default 20 --rate 100/m")
@_queue
@click.argument("max", required=False, type=click.IntRange(0))
@_workflow
@_key
@click.option(
    "--rate", metavar="RATE", help='The rate at which runs may start: "10/m", "1/5s", "100/h".'
)
@click.option(
    "--hold",
    type=click.Choice(["running", "open"]),
    help="Which runs MAX counts: running ones, or all from their first claim to their end.",
)
@click.option(
    "--weight", type=click.IntRange(1, 1000), help="The share of the queue that a key gets."
)
async def limit(  # noqa: PLR0913 - each is an option of the command
    context: CommandContext,
    *,
    queue: str | None,
    max: int | None,  # noqa: A002 - it is the name of the argument
    workflow: str | None,
    key: str | None,
    rate: str | None,
    hold: Any,
    weight: int | None,
) -> int:
    """Limit how many runs of QUEUE may run at a time.

    MAX is how many runs may run at a time, and --rate is the rate at which runs may start. Both
    take precedence over the limits in the code until you run `onward queues clear`. Runs that are
    already running continue. With --workflow, leave out QUEUE.
    """
    if workflow is not None and queue is not None and max is None and queue.isdecimal():
        queue, max = None, int(str(queue))  # noqa: A001 - it is the name of the argument
    app = context.app.queues
    if weight is not None:
        if queue is None or key is None:
            raise click.UsageError("--weight requires QUEUE and --key.")
        await app.weight(queue, key, weight)
    if weight is None or max is not None or rate is not None or hold is not None:
        await app.limit(queue, max, workflow=workflow, key=key, rate=rate, hold=hold)
    return await _show(context, queue, workflow, key, "limited")


@command(queues, "clear", example="onward queues clear default")
@_queue
@_workflow
@_key
@click.option("--declared", is_flag=True, help="Also remove limits that code has declared.")
async def clear(
    context: CommandContext,
    *,
    queue: str | None,
    workflow: str | None,
    key: str | None,
    declared: bool,
) -> int:
    """Remove limits, rates and weights set by operators."""
    await context.app.queues.clear(queue, workflow=workflow, key=key, declared=declared)
    return await _show(context, queue, workflow, key, "cleared")


@command(queues, "pause", example="onward queues pause default")
@_queue
@_workflow
async def pause(context: CommandContext, *, queue: str | None, workflow: str | None) -> int:
    """Stop claiming runs of QUEUE or of a workflow.

    Runs that are already running continue.
    """
    await context.app.queues.pause(queue, workflow=workflow)
    return await _show(context, queue, workflow, None, "paused")


@command(queues, "resume", example="onward queues resume --workflow send_letter")
@_queue
@_workflow
async def resume(context: CommandContext, *, queue: str | None, workflow: str | None) -> int:
    """Claim runs of QUEUE or of a workflow again."""
    await context.app.queues.resume(queue, workflow=workflow)
    return await _show(context, queue, workflow, None, "resumed")


async def _show(
    context: CommandContext, queue: str | None, workflow: str | None, key: str | None, done: str
) -> int:
    """Print what was changed: as it is now, if the key may read that."""
    kind = "workflow" if workflow else "key" if key else "queue"
    name, of = workflow or key or queue, queue if key else None
    text = f"{kind} {name} of queue {of}: {done}" if of else f"{kind} {name}: {done}"
    with suppress(Forbidden):
        for info in await context.app.queues.list():
            if (info.kind, info.name, info.queue) == (kind, name, of):
                context.out.done(asdict(info), f"{text}{_limits(info)}.")
                return DONE
    context.out.done({"kind": kind, "name": name, "queue": of}, f"{text}.")
    return DONE


def _limits(info: FlowInfo) -> str:
    """Return what is in force, for a sentence."""
    parts = []
    if info.limit is not None:
        parts.append(f"at most {info.limit} {info.hold}")
    if info.rate is not None:
        parts.append(f"rate {info.rate}")
    if info.weight != 1:
        parts.append(f"weight {info.weight}")
    return f" ({', '.join(parts)})" if parts else ""


def _row(info: FlowInfo) -> tuple[Any, ...]:
    name = info.name if info.queue is None else f"{info.name} (queue {info.queue})"
    limit = _both(info.limit, info.operator_limit, info.declared_limit)
    if info.limit is not None and info.hold == "open":
        limit += " open"
    return (
        info.kind,
        name,
        limit,
        _both(info.rate, info.operator_rate, info.declared_rate),
        info.running,
        "" if info.ready is None else info.ready,
        info.weight if info.kind == "key" else "",
        "paused" if info.paused else "active",
    )


def _both(value: object, operator: object, declared: object) -> str:
    """Return what is in force, and what the code declares if an operator said otherwise."""
    if value is None:
        return ""
    return f"{value} (code: {declared})" if None not in (operator, declared) else str(value)
