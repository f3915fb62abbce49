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
from onward.cli.waiting import check_timeout, is_over
from onward.sdk.bulk_workflow import BulkReport

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from onward.cli.command import CommandContext
    from onward.engine.views import RunInfo
    from onward.sdk.bulk import BulkAnswer
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
        click.option(
            "--timeout",
            metavar="TIME",
            callback=check_timeout,
            help="Wait no longer than this, such as 30s.",
        ),
    ]

    def given(work: Command) -> Command:
        for option in reversed(options):
            work = option(work)
        return work

    return given


class BulkChoice:
    """The runs that a command is for: given by their ids, or chosen by filters."""

    def __init__(
        self, ids: tuple[str, ...], asked: dict[str, Any], *, wait: bool | None = None
    ) -> None:
        """Take the options of `in_bulk` out of those that were given.

        Args:
            ids: The ids that were given.
            asked: All options.
            wait: Whether to wait for runs given by ids; None: the command has no such option.

        Raises:
            UsageError: the options do not fit each other.
        """
        self.dry_run = asked.pop("dry_run")
        self.bulk_id = asked.pop("bulk_id")
        self.waits = not asked.pop("no_wait")
        self.timeout: str | None = asked.pop("timeout")
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
        if wait and not ids:
            raise click.UsageError(
                "--wait requires ids. With filters, the command waits for the bulk action, not for "
                "the runs."
            )
        if self.timeout is not None and ids and not wait:
            needed = "filters or --all" if wait is None else "--wait"
            raise click.UsageError(f"--timeout requires {needed}.")
        if self.timeout is not None and not self.waits:
            raise click.UsageError("--timeout cannot be combined with --no-wait.")


async def act_in_bulk(
    context: CommandContext, choice: BulkChoice, start: Start, **options: Any
) -> int:
    """Start a bulk action, show its progress, and print its report; or preview it.

    Exits with 1 if a run was refused, or if the action did not end within the timeout.
    """
    given = {**options, **choice.filters}
    if choice.dry_run:
        _preview(context, await start(dry_run=True, **given))
        return DONE
    if choice.bulk_id is None:
        preview = await start(dry_run=True, **given)
        if not preview.count:  # no worker is needed to do nothing
            _report_nothing(context, preview)
            return DONE
    answer = await start(id=choice.bulk_id, **given)
    assert answer.run is not None
    if not choice.waits:
        known = {"bulk": answer.run.id, "action": answer.action, "count": _count(answer)}
        text = f"bulk {answer.action} {answer.run.id} was started: {_matches(answer)}"
        context.out.done(known, text)
        return DONE
    context.out.say(f"Bulk {answer.action} {answer.run.id}: {_matches(answer)}.")
    if not await _followed(context, answer, choice.timeout):
        _report_late(context, answer)
        return NO
    report = await answer.run.result()
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


async def _followed(
    context: CommandContext, answer: BulkAnswer[Run[BulkReport]], timeout: str | None
) -> bool:
    """Wait for a bulk action, showing its progress on a terminal; return whether it has ended."""
    run, total = answer.run, answer.count
    assert run is not None
    over = asyncio.ensure_future(is_over(context, run, timeout))
    try:
        bar = None if context.out.as_json or not sys.stderr.isatty() else _bar(total)
        if bar is None:
            return await over
        with bar:
            task = bar.add_task("runs", total=total)
            while not over.done():
                await asyncio.wait([over], timeout=LOOK_SECONDS)
                bar.update(task, completed=_handled(await run.info()))
        return await over
    finally:
        over.cancel()
        await asyncio.wait([over])


def _handled(info: RunInfo) -> int:
    """Return how many runs a bulk action has acted on, or was refused to."""
    progress = info.progress or {}
    return int(progress.get("done", 0)) + int(progress.get("refused", 0))


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


def _report_nothing(context: CommandContext, answer: BulkAnswer[Any]) -> None:
    """Print that no run matches; for programs, as the report of an action that had no runs."""
    thing = asdict(BulkReport(answer.action)) | {"bulk": None, "count": 0}
    context.out.done(thing, f"Bulk {answer.action}: 0 runs match. Nothing was changed.")


def _report_late(context: CommandContext, answer: BulkAnswer[Run[Any]]) -> None:
    """Print that an action goes on for longer than the command may wait."""
    assert answer.run is not None
    known = {"bulk": answer.run.id, "action": answer.action, "count": _count(answer)}
    context.out.done(
        known | {"ended": False},
        f"The bulk action has not ended yet, and continues without this command. To see its "
        f"progress: onward runs show {answer.run.id}",
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
