"""A wait for a run that cannot continue: the reason is logged, and is in the `TimeoutError`."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from onward.core.instant import show
from onward.engine.why import STUCK, still_open
from onward.errors import OnwardError
from onward.telemetry.error_text import describe
from onward.telemetry.events import emit
from onward.telemetry.scope import RunScope

if TYPE_CHECKING:
    from types import TracebackType

    from onward.core.instant import Duration
    from onward.engine.client_engine import ClientEngine

STUCK_SECONDS = 5.0
"""How long a caller waits for a result before it is checked whether the run can continue."""
LOOK_SECONDS = 2.0
"""How long the reason is looked for when a wait has timed out."""
MAX_LOOKING = 20
"""How many checks may be under way at a time; thousands may wait, for the same reason."""

_looking = 0


class reported_if_stuck:  # noqa: N801 - used as a statement; a generator would take longer
    """Log once why a run cannot continue, if the body of this `with` waits long for it."""

    __slots__ = ("_engine", "_run", "_task", "_timer")

    def __init__(self, engine: ClientEngine, run: str) -> None:
        self._engine = engine
        self._run = run

    def __enter__(self) -> None:
        self._task: asyncio.Task[None] | None = None
        self._timer = asyncio.get_running_loop().call_later(STUCK_SECONDS, self._look)

    def _look(self) -> None:
        self._task = asyncio.get_running_loop().create_task(_report(self._engine, self._run))

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._timer.cancel()
        if self._task is not None:
            self._task.cancel()


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
            waited_seconds=STUCK_SECONDS,
            why="; ".join(str(each).partition("\n")[0] for each in why),
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
