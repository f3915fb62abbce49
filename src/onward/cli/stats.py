"""`onward stats` and `onward why`: how much work is open, and why one run does not proceed."""

from __future__ import annotations

from dataclasses import asdict
from textwrap import indent
from typing import TYPE_CHECKING

import click

from onward.cli.command import DONE, command
from onward.cli.output import shown
from onward.cli.run_report import next_move, state_text
from onward.core.instant import SECOND, show
from onward.core.run import TERMINAL
from onward.engine.stats import MAX_DEAD

if TYPE_CHECKING:
    from collections.abc import Mapping

    from onward.cli.command import CommandContext


def add_stats(root: click.Group) -> None:
    """Add the command, which is in no group."""

    @command(root, "stats", example="onward stats")
    async def stats(context: CommandContext) -> int:
        """Show how much work is open.

        Prints open runs by state, ready runs by queue with the age of the oldest, unsettled
        effects, live workers and their slots, and dead letters (up to 1,000). Other finished runs
        are not counted, so the command is fast on any store.
        """
        found = await context.engine.stats()
        facts = {
            "runs": _counts(found.runs),
            "effects": _counts(found.effects),
            "workers": f"{found.workers} alive, {found.slots} slots",
            "outbox": found.outbox or None,
            "dead letters": _dead(found.dead),
            "schedules": f"late by {_age(found.schedule_lag_seconds)}"
            if found.schedule_lag_seconds >= 1
            else None,
        }
        context.out.thing(asdict(found), facts)
        if found.queues and not context.out.as_json:
            context.out.say("")
            rows = [(each.queue, each.ready, _age(each.age_seconds)) for each in found.queues]
            context.out.things([], ("QUEUE", "READY", "OLDEST"), rows)
        if found.dead:
            context.out.say(context.out.suggested("\nNext: onward dead groups"))
        return DONE


def add_why(root: click.Group) -> None:
    """Add the command, which is in no group."""

    @command(root, "why", example="onward why order-7")
    @click.argument("run_id", metavar="ID")
    async def why(context: CommandContext, *, run_id: str) -> int:
        """Show why a run is not proceeding, and what to do next.

        If the run is waiting for other runs, their reasons are also shown.
        """
        key = await context.engine.find(run_id, changes=False)
        blockers = await context.engine.why(key.id)
        info = await context.engine.newest(key.id)
        context.out.things([asdict(blocker) for blocker in blockers], (), ())
        context.out.say(f"run {shown(key.id)}: {shown(state_text(info))}")
        for blocker in blockers:
            text = indent(shown(str(blocker), lines=True), "    ").lstrip()
            context.out.say(f"- {blocker.kind}: {text}")
            context.out.say(f"  Next: {shown(context.out.suggested(blocker.next))}")
        if not blockers:
            over = info.state in TERMINAL
            context.out.say("It has ended." if over else "Nothing is blocking it.")
            move = next_move(info)
            if move is not None:
                context.out.say(f"Next: {shown(context.out.suggested(move))}")
        return DONE


def _dead(count: int) -> str | None:
    return f"{count} or more" if count >= MAX_DEAD else str(count) if count else None


def _counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {name}" for name, count in counts.items() if count) or "none"


def _age(seconds: float) -> str:
    return show(int(seconds) * SECOND) if seconds >= 1 else "0s"
