"""`onward workers`: list and drain workers."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from onward.cli.command import DONE, command, for_each, group
from onward.engine.abbreviation import only_one

if TYPE_CHECKING:
    from onward.cli.command import CommandContext
    from onward.engine.workers import WorkerInfo

HEAD = ("ID", "STATE", "RUNS", "QUEUES", "WORKFLOWS", "VERSION", "STARTED", "RENEWED")
MAX_NAMED = 5


@group
def workers() -> None:
    """List and drain workers.

    You can abbreviate an id to its beginning or its end.
    """


@command(workers, "list", example="onward workers list")
@click.option("--all", "gone", is_flag=True, help="Include workers that left within the last day.")
async def list_workers(context: CommandContext, *, gone: bool) -> int:
    """List workers, what they serve, and how many runs they have.

    The newest workers come first. A worker is dead if it has not renewed its lease in time; other
    workers continue its runs.
    """
    found = await context.engine.list_workers(gone=gone)
    context.out.things([asdict(worker) for worker in found], HEAD, [_row(each) for each in found])
    if not found:
        context.out.say("No workers. Start one: onward worker MODULE")
    return DONE


@command(workers, "drain", example="onward workers drain web-1-4711-3f2a9c")
@click.argument("ids", metavar="ID...", nargs=-1, required=True)
async def drain(context: CommandContext, *, ids: tuple[str, ...]) -> int:
    """Stop workers after their steps in progress have finished.

    A worker notices within about a second. It waits up to its --drain for steps in progress,
    releases its runs, and exits with 0. This command exits with 1 if a worker has already left.
    """
    known = [worker.id for worker in await context.engine.list_workers(gone=True)]

    async def act(given: str) -> bool:
        worker = _meant(context, given, known)
        accepted = await context.engine.drain_worker(worker)
        text = (
            f"worker {worker} is being drained" if accepted else f"worker {worker} has already left"
        )
        context.out.done({"id": worker, "accepted": accepted}, text)
        return accepted

    return await for_each(context, ids, act)


def _meant(context: CommandContext, given: str, known: list[str]) -> str:
    if given in known:
        return given
    like = {each: each for each in known if each.startswith(given) or each.endswith(given)}
    return only_one("worker", given, like, context.engine.namespace)


def _row(worker: WorkerInfo) -> tuple[object, ...]:
    names = worker.workflows[:MAX_NAMED]
    more = len(worker.workflows) - len(names)
    workflows = ", ".join(names) + (f" and {more} more" if more else "")
    return (
        worker.id,
        worker.state,
        f"{worker.running} of {worker.slots}",
        worker.queues,
        workflows,
        worker.version,
        worker.started_at,
        worker.renewed_at,
    )
