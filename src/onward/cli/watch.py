"""`onward runs watch`: what runs do, as it happens."""

from __future__ import annotations

import asyncio
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from onward.cli.command import DONE, NO, command
from onward.cli.output import line_of, shown, time_text
from onward.cli.run_report import state_text
from onward.core.run import TERMINAL, RunState
from onward.engine.search import RunPage
from onward.model.run_filter import RunQuery

if TYPE_CHECKING:
    from collections.abc import Sequence

    from onward.cli.command import CommandContext
    from onward.engine.views import HistoryEvent, RunInfo

LOOK_SECONDS = 0.5
MAX_SHOWN = 20
_HEAD = ("ID", "NAME", "TRY", "STATE", "CREATED")
_EVENT_HEAD = ("", "TIME", "KIND", "NAME", "STATE", "TRY")


def add_watch(runs: click.Group) -> None:
    """Add the command to the group of runs."""

    @command(runs, "watch", example="onward runs watch order-7")
    @click.argument("run_id", metavar="[ID]", required=False)
    async def watch(context: CommandContext, *, run_id: str | None) -> int:
        """Watch a run until it has ended, or all runs until Ctrl-C.

        In a terminal, the view is redrawn; elsewhere, and with --json, each change is a line. With
        an ID, exits with 0 if the run has succeeded, and with 1 otherwise.
        """
        return await _watch(context, run_id)


async def _watch(context: CommandContext, run_id: str | None) -> int:
    key = None if run_id is None else await context.engine.find(run_id, changes=False)
    screen = _Screen() if sys.stdout.isatty() and not context.out.as_json else None
    try:
        if key is None:
            return await _watch_all(context, screen)
        return await _watch_one(context, key.id, screen)
    finally:
        if screen is not None:
            screen.close()


async def _watch_one(context: CommandContext, run_id: str, screen: _Screen | None) -> int:
    seen: set[tuple[object, ...]] = set()
    while True:
        info = await context.engine.newest(run_id)
        events = await context.engine.history(run_id)
        if screen is not None:
            rows = [_event_row(event) for event in events[-MAX_SHOWN:]]
            screen.draw(f"run {info.id} of {info.name}: {state_text(info)}", _EVENT_HEAD, rows)
        else:
            for event in events:
                _say_once(context, seen, _event_key(info, event), _event_json(info, event))
            _say_once(context, seen, (info.uid, info.state, info.reason), _run_json(info))
        if info.state in TERMINAL:
            return DONE if info.state == RunState.SUCCEEDED else NO
        await asyncio.sleep(LOOK_SECONDS)


async def _watch_all(context: CommandContext, screen: _Screen | None) -> int:
    seen: set[tuple[object, ...]] = set()
    while True:
        query = RunQuery(children=False)
        found = await context.engine.list_runs(query, RunPage(MAX_SHOWN, None), {})
        if screen is not None:
            counts = await context.engine.stats()
            title = ", ".join(f"{count} {state}" for state, count in counts.runs.items())
            screen.draw(title, _HEAD, [_run_row(info) for info in found])
        else:
            for info in reversed(found):
                _say_once(context, seen, (info.uid, info.state, info.reason), _run_json(info))
        await asyncio.sleep(LOOK_SECONDS)


def _say_once(
    context: CommandContext,
    seen: set[tuple[object, ...]],
    key: tuple[object, ...],
    fact: dict[str, Any],
) -> None:
    if key in seen:
        return
    seen.add(key)
    click.echo(line_of(fact) if context.out.as_json else _line(fact))


def _line(fact: dict[str, Any]) -> str:
    if fact["event"] == "run":
        return shown(f"{time_text(fact['at'])}  run {fact['id']}  {fact['text']}")
    return shown(
        f"{time_text(fact['at'])}  {fact['kind']} {fact['name']}  {fact['state']}"
        + (f" (attempt {fact['attempt']})" if fact["attempt"] > 1 else "")
    )


def _event_key(info: RunInfo, event: HistoryEvent) -> tuple[object, ...]:
    return (info.uid, event.identity, event.kind, event.attempt, event.state)


def _event_json(info: RunInfo, event: HistoryEvent) -> dict[str, Any]:
    kept = asdict(event)
    del kept["value"]
    at = event.closed_at or event.opened_at
    return {"event": "call", "id": info.id, "uid": info.uid, "at": at} | kept


def _run_json(info: RunInfo) -> dict[str, Any]:
    at = info.finished_at or info.started_at or info.created_at
    return {"event": "run", "at": at, "text": state_text(info)} | asdict(info)


def _event_row(event: HistoryEvent) -> tuple[Any, ...]:
    at = event.closed_at or event.opened_at
    return (event.seq, at, event.kind, event.name, event.state, event.attempt)


def _run_row(info: RunInfo) -> tuple[Any, ...]:
    return (info.id, info.name, info.attempt, state_text(info), info.created_at)


class _Screen:
    """A table on a terminal that is drawn again in its place."""

    def __init__(self) -> None:
        from rich.live import Live

        self._live = Live(auto_refresh=False)
        self._live.start()

    def draw(self, title: str, head: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
        """Show a title and a table."""
        from rich.console import Group
        from rich.table import Table
        from rich.text import Text

        table = Table(box=None, pad_edge=False, header_style="bold")
        for name in head:
            table.add_column(name)
        for row in rows:
            table.add_row(*(Text(shown(cell)) for cell in row))
        self._live.update(Group(Text(shown(title)), table), refresh=True)

    def close(self) -> None:
        """Leave what was drawn last on the terminal."""
        self._live.stop()
