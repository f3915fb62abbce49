"""Commands on all runs that match a filter: the options, the preview, and the progress."""

from __future__ import annotations

import asyncio
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, TypeVar

import click

from onward.cli.command import DONE, NO
from onward.cli.filters import choosing
from onward.cli.run_report import first_line

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from onward.cli.command import CommandContext
    from onward.sdk.bulk import BulkAnswer
    from onward.sdk.bulk_workflow import BulkReport
    from onward.sdk.run import Run

    Start = Callable[..., Coroutine[Any, Any, BulkAnswer[Run[BulkReport]]]]

Command = TypeVar("Command", bound="Callable[..., Any]")

LOOK_SECONDS = 0.5
SAMPLE_HEAD = ("ID", "NAME", "STATE", "ERROR", "CREATED")
REFUSED_HEAD = ("ID", "ERROR", "OVERRIDE", "MESSAGE")

ids = click.argument("ids", metavar="[ID]...", nargs=-1)


def in_bulk(*, failures: bool) -> Callable[[Command], Command]:
    """Give a command the options that make it act on all runs that match."""
    options = [
        click.option(
            "--all", "every", is_flag=True, help="Select all runs that the action applies to."
        ),
        choosing(failures=failures),
        click.option("--dry-run", is_flag=True, help="Only show how many runs match."),
        click.option(
            "--bulk-id",
            metavar="ID",
            help="Id of the bulk action; a second start with the same id has no effect.",
        ),
        click.option(
            "--no-wait", is_flag=True, help="Start the bulk action without waiting for it."
        ),
    ]

    def given(work: Command) -> Command:
        for option in reversed(options):
            work = option(work)
        return work

    return given


class BulkChoice:
    """The runs that a command is for: given by their ids, or chosen by filters."""

    def __init__(self, ids: tuple[str, ...], asked: dict[str, Any]) -> None:
        self.dry_run = asked.pop("dry_run")
        self.bulk_id = asked.pop("bulk_id")
        self.waits = not asked.pop("no_wait")
        every = asked.pop("every")
        attributes = {name: values[-1] for name, values in asked.pop("attributes").items()}
        self.filters = {name: value for name, value in asked.items() if value is not None}
        if attributes:
            self.filters["attributes"] = attributes
        self.is_bulk = not ids
        if ids and (every or self.filters or self.dry_run or self.bulk_id or not self.waits):
            raise click.UsageError(
                "Ids cannot be combined with filters, --all, --dry-run, --bulk-id or --no-wait."
            )
        if not ids and not every and not self.filters:
            raise click.UsageError("Pass ids, filters such as --name, or --all.")


async def act_in_bulk(
    context: CommandContext, choice: BulkChoice, start: Start, **options: Any
) -> int:
    """Start a bulk action, show its progress, and print its report; or preview it.

    Exits with 1 if a run was refused.
    """
    given = {"dry_run": choice.dry_run, "id": choice.bulk_id, **options, **choice.filters}
    answer = await start(**given)
    if answer.run is None:
        _preview(context, answer)
        return DONE
    if not choice.waits:
        known = {"bulk": answer.run.id, "action": answer.action, "count": _count(answer)}
        text = f"bulk {answer.action} {answer.run.id} was started: {_matches(answer)}"
        context.out.done(known, text)
        return DONE
    context.out.say(f"Bulk {answer.action} {answer.run.id}: {_matches(answer)}.")
    report = await _followed(context, answer.run, answer.count)
    _report(context, answer.run.id, report)
    return NO if report.refused else DONE


def _count(answer: BulkAnswer[Any]) -> int | str:
    return f"{answer.count}+" if answer.is_capped else answer.count


def _matches(answer: BulkAnswer[Any]) -> str:
    return "1 run matches" if _count(answer) == 1 else f"{_count(answer)} runs match"


def _preview(context: CommandContext, answer: BulkAnswer[Any]) -> None:
    thing = {"action": answer.action, "count": answer.count, "is_capped": answer.is_capped}
    sample = [asdict(info) for info in answer.sample]
    if context.out.as_json:
        context.out.done(thing | {"sample": sample}, "")
        return
    context.out.say(f"Dry run of {answer.action}: {_matches(answer)}. Nothing was changed.")
    rows = [
        (info.id, info.name, info.state, first_line(info.error), info.created_at)
        for info in answer.sample
    ]
    context.out.things(sample, SAMPLE_HEAD, rows)
    if answer.count > len(rows):
        context.out.note(f"Showing the newest {len(rows)}.")


async def _followed(context: CommandContext, run: Run[BulkReport], total: int) -> BulkReport:
    """Wait for a bulk action and show how far it is, on a terminal."""
    result = asyncio.ensure_future(run.result())
    try:
        bar = None if context.out.as_json or not sys.stderr.isatty() else _bar(total)
        if bar is None:
            return await result
        with bar:
            task = bar.add_task("runs", total=total)
            while not result.done():
                await asyncio.wait([result], timeout=LOOK_SECONDS)
                done = (await run.info()).progress or {}
                bar.update(task, completed=done.get("done", 0) + done.get("refused", 0))
        return await result
    finally:
        result.cancel()


def _bar(total: int) -> Any:
    """Return a progress bar, if rich is there to draw it."""
    try:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn
    except ModuleNotFoundError:
        return None
    if not total:
        return None
    return Progress(
        BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(), console=Console(stderr=True)
    )


def _report(context: CommandContext, run_id: str, report: BulkReport) -> None:
    if context.out.as_json:
        context.out.done(asdict(report) | {"bulk": run_id}, "")
        return
    context.out.say(f"{report.done} done, {report.refused} refused.")
    rows = [
        (each.id, each.error, f"--{each.option}" if each.option else None, first_line(each.message))
        for each in report.refusals
    ]
    context.out.things([], REFUSED_HEAD, rows)
    if report.refused > len(rows):
        context.out.note(f"Showing the first {len(rows)} refusals.")
