"""`onward clock`: compares the store's time with the machine's, and resets it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from onward.cli.command import DONE, command
from onward.core.instant import SECOND, instant_text, show

if TYPE_CHECKING:
    from onward.cli.command import CommandContext
    from onward.core.instant import Duration, Instant
    from onward.engine.clock import Reading


_MAX_NAMED = 10


def add_clock(root: click.Group) -> None:
    """Add the command, which is in no group."""

    @command(root, "clock", example="onward clock --reset")
    @click.option(
        "--reset", is_flag=True, help="Set the time of a SQLite file to this machine's clock."
    )
    @click.option(
        "--retime",
        is_flag=True,
        help="Restart waits and delays that were set while the time was ahead.",
    )
    @click.option(
        "--accept",
        is_flag=True,
        help="If the clock was set forward, count the skipped time toward waits.",
    )
    async def clock(context: CommandContext, *, reset: bool, retime: bool, accept: bool) -> int:
        """Compare the store's time with this machine's clock.

        The time of a SQLite file never goes back on its own: if this machine's clock was ahead for
        a moment, the file's time stays ahead and runs at half speed until the clock catches up.
        Make sure that this machine's clock is right, then use --reset. You can do this while
        workers are running.

        Timers keep their due times: a timer that was set while the time was ahead fires late. When
        the time is right again, --retime restarts such timers and delayed starts: each waits its
        full duration from now. Fixed times (sleep_until, at) and deadlines do not change.

        When the clock is set forward while workers are running, waits keep their length, so their
        due times move. If the skipped time really passed, for example because a virtual machine was
        paused, use --accept: waits then end when they were originally due.
        """
        if accept:
            return await _accept(context)
        if retime:
            return await _retime(context, reset=reset)
        if reset:
            before = await context.engine.reset_clock()
            context.out.done(_facts(before) | {"reset": before.ahead > 0}, _reset_text(before))
        else:
            reading = await context.engine.read_clock()
            context.out.thing(_facts(reading), _shown(reading))
        return DONE


async def _retime(context: CommandContext, *, reset: bool) -> int:
    if reset:
        await context.engine.reset_clock()
    runs = await context.engine.restart_waits()
    text = "No run has a wait that was set while the store's time was ahead."
    if runs:
        named = ", ".join(runs[:_MAX_NAMED]) + (", ..." if len(runs) > _MAX_NAMED else "")
        count = "1 run" if len(runs) == 1 else f"{len(runs)} runs"
        text = f"The waits of {count} start over now: {named}"
    context.out.done({"retimed": runs}, text)
    return DONE


async def _accept(context: CommandContext) -> int:
    added = await context.engine.accept_steps()
    text = "No waits were extended when the clock was set forward."
    if added:
        text = (
            f"Waits that were extended by {_rounded(added)} now end when they were originally due."
        )
    context.out.done({"accepted_seconds": added / SECOND}, text)
    return DONE


def _facts(reading: Reading) -> dict[str, Any]:
    return {
        "store": _datetime(reading.store),
        "machine": _datetime(reading.machine),
        "ahead_seconds": reading.ahead / SECOND,
        "timers": reading.timers,
        "added_seconds": reading.added / SECOND,
    }


def _shown(reading: Reading) -> dict[str, Any]:
    shown = {
        "store": _datetime(reading.store),
        "machine": _datetime(reading.machine),
        "difference": "none" if reading.agrees else _difference(reading),
    }
    if reading.timers:
        shown["timers"] = f"{reading.timers} set while the store's time was ahead"
    if reading.added:
        shown["waits"] = f"extended by {_rounded(reading.added)}, because the clock was set forward"
    return shown


def _difference(reading: Reading) -> str:
    side = "ahead of" if reading.ahead > 0 else "behind"
    return f"the store is {_rounded(abs(reading.ahead))} {side} this machine"


def _reset_text(before: Reading) -> str:
    if before.ahead <= 0:
        return "Nothing was reset: the store's time is not ahead of this machine's clock."
    return (
        f"The store's time was set back by {_rounded(before.ahead)}"
        f" to {instant_text(before.machine // SECOND * SECOND)}. Workers follow within about a"
        f" second. Timers keep their due times; {before.timers} of them were set while the time was"
        " ahead and fire late by that amount (to restart them: onward clock --retime)."
    )


def _rounded(length: Duration) -> str:
    return show(length // SECOND * SECOND if length >= SECOND else length)


def _datetime(at: Instant) -> datetime:
    return datetime.fromtimestamp(at / SECOND, UTC)
