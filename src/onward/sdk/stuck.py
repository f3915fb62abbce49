"""A wait for a run that cannot continue: the reason is logged, and is in the `TimeoutError`."""

from __future__ import annotations

import asyncio
from contextlib import contextmanager
from typing import TYPE_CHECKING

from onward.core.instant import show
from onward.engine.why import STUCK, still_open
from onward.errors import OnwardError
from onward.telemetry.error_text import describe
from onward.telemetry.events import emit
from onward.telemetry.scope import RunScope

if TYPE_CHECKING:
    from collections.abc import Iterator

    from onward.core.instant import Duration
    from onward.engine.client_engine import ClientEngine

STUCK_SECONDS = 5.0
"""How long a caller waits for a result before it is checked whether the run can continue."""
LOOK_SECONDS = 2.0
"""How long the reason is looked for when a wait has timed out."""
MAX_LOOKING = 20
"""How many checks may be under way at a time; thousands may wait, for the same reason."""

_looking = 0


@contextmanager
def reported_if_stuck(engine: ClientEngine, run: str) -> Iterator[None]:
    """Log once why a run cannot continue, if the body of this `with` waits long for it."""
    loop = asyncio.get_running_loop()
    tasks: list[asyncio.Task[None]] = []
    timer = loop.call_later(
        STUCK_SECONDS, lambda: tasks.append(loop.create_task(_report(engine, run)))
    )
    try:
        yield
    finally:
        timer.cancel()
        for task in tasks:
            task.cancel()


async def _report(engine: ClientEngine, run: str) -> None:
    global _looking
    if _looking >= MAX_LOOKING:
        return
    _looking += 1
    try:
        info = await engine.newest(run)
        why = [each for each in await engine.why(run) if each.kind in STUCK]
    except OnwardError:
        return  # the wait itself raises what is wrong
    finally:
        _looking -= 1
    if why:
        emit(
            "run.stuck",
            RunScope(run, info.uid, info.name),
            state=info.state,
            seconds=STUCK_SECONDS,
            why="; ".join(each.text for each in why),
            next=why[0].next,
        )


async def why_open(engine: ClientEngine, run: str, limit: Duration) -> str:
    """Return that a run has not ended, with its state and what it waits for."""
    within = f" within {show(limit)}" if limit else ""
    fact = f"run {run} has not ended{within}"
    try:
        async with asyncio.timeout(LOOK_SECONDS):
            info = await engine.newest(run)
            return f"{fact}: {still_open(info, await engine.why(run))}"
    except (OnwardError, TimeoutError) as error:
        return f"{fact}, and its state cannot be read: {describe(error)}"
