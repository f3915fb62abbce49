"""`onward runs`: list, show and control runs."""

from __future__ import annotations

from dataclasses import asdict
from textwrap import indent
from typing import TYPE_CHECKING, Any

import click

from onward.cli import bulk
from onward.cli.command import DONE, command, group
from onward.cli.output import shown
from onward.cli.run_report import (
    HISTORY_HEAD,
    as_facts,
    as_json,
    first_line,
    history_rows,
    next_move,
    state_text,
)
from onward.cli.value import from_json, kind_of, named, read_value
from onward.core.run import RunState
from onward.engine.search import RunPage
from onward.model.run_filter import RunQuery
from onward.sdk import given
from onward.sdk.run import UNCHANGED

if TYPE_CHECKING:
    from onward.cli.command import CommandContext
    from onward.engine.client_engine import RunKey
    from onward.engine.views import RunInfo

MAX_LEFT_OUT = 1000
HEAD = ("ID", "NAME", "TRY", "STATE", "ERROR", "QUEUE", "CREATED", "DUE")


@group
def runs() -> None:
    """List, show and control runs.

    You can abbreviate generated ids. To change a run, pass your own ids in full, so that `cancel
    order-1` never affects order-10.
    """


_id = click.argument("run_id", metavar="ID")


# --- looking --------------------------------------------------------------------------------------


@command(runs, "list", example="onward runs list --state paused --attribute customer=42")
@click.option("--all", "every", is_flag=True, help="Include runs that other runs started.")
@click.option("--name", metavar="NAME", help="Only runs of this workflow.")
@click.option(
    "--state",
    type=click.Choice([state.value for state in RunState]),
    help="Only runs in this state.",
)
@click.option("--queue", metavar="NAME", help="Only runs of this queue.")
@click.option("--tag", metavar="TAG", help="Only runs with this tag.")
@click.option(
    "--attribute",
    "attributes",
    metavar="NAME=VALUE",
    multiple=True,
    callback=named,
    help="Filter by attribute (scans; slow on large stores).",
)
@click.option("--root", metavar="ID", help="Only this run and its descendants.")
@click.option("--parent", metavar="ID", help="Only runs that this run started directly.")
@click.option("--limit", type=click.IntRange(1, 10_000), default=100, show_default=True)
@click.option(
    "--before", metavar="ID", help="Continue after this id, the last one on the previous page."
)
async def list_runs(  # noqa: PLR0913 - each is an option of the command
    context: CommandContext,
    *,
    every: bool,
    name: str | None,
    state: str | None,
    queue: str | None,
    tag: str | None,
    attributes: dict[str, tuple[Any, ...]],
    root: str | None,
    parent: str | None,
    limit: int,
    before: str | None,
) -> int:
    """List runs that were started by clients.

    The newest runs come first. --all, --root and --parent also list children, routed steps and map
    chunks. If no live worker can take a run, the reason is shown next to its state. A run that was
    retried, forked or continued under the same id shows the uid of the new run; with --state, it is
    left out.
    """
    query = RunQuery(name, state, queue, tag=tag, children=every)
    found = await given.list_runs(
        context.engine,
        query,
        RunPage(limit, await _uid(context, before)),
        attributes,
        parent=await _uid(context, parent),
        root=await _uid(context, root),
    )
    blocked = {each.run.uid: each.why for each in await context.engine.unserved()}
    context.out.things(
        [asdict(info) | {"blocked": blocked.get(info.uid)} for info in found],
        HEAD,
        [_row(info, blocked.get(info.uid)) for info in found],
    )
    if not found:
        context.out.say("No runs match.")
    elif len(found) == limit:
        context.out.note(f"There may be more: --before {found[-1].uid}")
    if not (every or parent or root or before):
        await _note_left_out(context, query)
    return DONE


async def _uid(context: CommandContext, given: str | None) -> str | None:
    """Return the uid of a run, if one is given."""
    return None if given is None else (await context.engine.find(given, changes=False)).uid


async def _note_left_out(context: CommandContext, query: RunQuery) -> None:
    """Print how many runs were left out: a run may wait for one of those."""
    count = await context.engine.count_children(query, MAX_LEFT_OUT)
    if count:
        many = f"{count} or more" if count == MAX_LEFT_OUT else str(count)
        were = "run that another run" if count == 1 else "runs that other runs"
        context.out.note(f"Not shown: {many} {were} started (use --all, or --root ID).")


@command(runs, "show", example="onward runs show order-7")
@_id
async def show(context: CommandContext, *, run_id: str) -> int:
    """Show a run: its state, its history, and what it waits for.

    The output includes the traceback of its error, and the signals that it has received but not
    read.
    """
    await print_run(context, (await context.engine.find(run_id, changes=False)).uid)
    return DONE


async def print_run(context: CommandContext, uid: str) -> None:
    """Print everything that is known of a run."""
    report = await context.engine.report(uid)
    context.out.thing(as_json(report), as_facts(report))
    calls = history_rows(report.history)
    if calls:
        context.out.say("")
        context.out.things([], HISTORY_HEAD, calls)
    if report.traceback:
        # Indented, so that a line of a message cannot pass for one of this report.
        context.out.say("\n" + indent(shown(report.traceback, lines=True), "    "))
    for effect in report.open_effects:
        command = context.out.suggested(f"onward effects show {effect.id}")
        context.out.say(f"\nSee {shown(effect.name)}: {command}")
    move = next_move(report.info) or next((each.next for each in report.held_back), None)
    if move is not None:
        context.out.say(f"\nNext: {shown(context.out.suggested(move))}")


# --- controlling ----------------------------------------------------------------------------------


@command(runs, "fork", example="onward runs fork order-7 --step charge --result '\"ch_7\"'")
@bulk.ids
@bulk.in_bulk(failures=True)
@click.option(
    "--step", metavar="NAME", help="Fork from this step; by default the whole history is kept."
)
@click.option("--result", metavar="JSON", help="Result to record for the step, as JSON.")
@click.option("--new-id", metavar="ID", help="Id of the new run; the old run is kept.")
@click.option("--resend", is_flag=True, help="Send effects again even if they may have happened.")
async def fork(
    context: CommandContext,
    *,
    ids: tuple[str, ...],
    step: str | None,
    result: str | None,
    new_id: str | None,
    resend: bool,
    **asked: Any,
) -> int:
    """Fork runs from a given step.

    A new run begins with the history before that step. The old run must have ended or be paused,
    unless you pass --new-id. Effects after that step are sent again, under new keys: --resend is
    required if one of them may have happened. Filters start a bulk action on dead letters. Exits
    with 1 if a fork is refused.
    """
    choice = bulk.BulkChoice(ids, asked)
    if len(ids) > 1 or (choice.is_bulk and (result is not None or new_id is not None)):
        raise click.UsageError("Pass one ID, or filters without --result and --new-id.")
    if choice.is_bulk:
        given = {"step": step, "resend": resend}
        return await bulk.act_in_bulk(context, choice, context.app.bulk.fork, **given)
    if result is not None and step is None:
        raise click.UsageError("--result requires --step.")
    value = UNCHANGED if result is None else from_json("--result", result)
    row = await find(context, ids[0])
    new = await context.app.fork(row.id, step, result=value, new_id=new_id, resend=resend)
    report_on(context, new.id, f"was forked from {row.uid}", accepted=True, uid=new.uid)
    return DONE


@command(runs, "signal", example="onward runs signal order-7 approval true")
@_id
@click.argument("name")
@click.argument("value", required=False)
@click.option("--text", metavar="TEXT", help="Send this text, even if it looks like JSON.")
@click.option("--json-value", metavar="JSON", help="Send this JSON; fail if it is not valid.")
@click.option(
    "--message-id", metavar="ID", help="Signals with the same id are delivered only once."
)
async def signal(  # noqa: PLR0913 - each is an option of the command
    context: CommandContext,
    *,
    run_id: str,
    name: str,
    value: str | None,
    text: str | None,
    json_value: str | None,
    message_id: str | None,
) -> int:
    """Send a signal with a value to a run.

    VALUE is JSON (true, 42, '{"a": 1}') or, if it is not valid JSON, text: yes is text, 42 is a
    number, and --text 42 is text. The value must have the type that the workflow expects. Exits
    with 1 if the run has ended.
    """
    if sum(given is not None for given in (value, text, json_value)) > 1:
        raise click.UsageError("Pass only one of VALUE, --text and --json-value.")
    sent: Any = text
    if value is not None:
        sent = read_value(value)
    elif json_value is not None:
        sent = from_json("--json-value", json_value)
    row = await find(context, run_id)
    await context.app.signal(row.id, name, sent, message_id=message_id)
    about = f"was sent signal {name}"
    if sent is not None:
        about += f" with {kind_of(sent)}"
    report_on(context, row.id, about, accepted=True)
    return DONE


# --- how they are found and shown -----------------------------------------------------------------


async def find(context: CommandContext, given: str) -> RunKey:
    """Return the run that is to be changed."""
    return await context.engine.find(given, changes=True)


def report_on(context: CommandContext, run_id: str, text: str, **known: Any) -> None:
    context.out.done({"id": run_id} | known, f"run {run_id} {text}")


def _row(info: RunInfo, blocked: str | None) -> tuple[Any, ...]:
    state = state_text(info, blocked)
    name = info.name if info.kind == "workflow" else f"{info.name} ({info.kind})"
    error = None if info.followed_by else first_line(info.error)
    return (info.id, name, info.attempt, state, error, info.queue, info.created_at, info.due)
