"""A parallel pipeline whose worker can be made to die at the commit of a chosen phase."""

from __future__ import annotations

import os
import signal

from onward import effect
from onward.pipelines import (
    Consumer,
    MutateContext,
    NextContext,
    Outcome,
    Pipeline,
    PrepareContext,
    Prepared,
)
from onward.telemetry.failpoints import arm
from tests.e2e.effects.orders import OFTEN, look_up, send

letters = Pipeline("letters", parallel=True)
written = letters.topic("letters.written", str)
posted = letters.topic("letters.posted", str)

_deaths: dict[str, str] = {}
"""At which failpoint this process dies after it has run the code of a phase."""


def die_after(phase: str, point: str) -> None:
    """Let this process die at the first pass of a failpoint after the code of a phase."""
    _deaths[phase] = point


def _pass(phase: str) -> None:
    point = _deaths.pop(phase, None)
    if point is not None:
        arm(point, lambda: os.kill(os.getpid(), signal.SIGKILL))


@effect(reconcile=look_up, retry=OFTEN, timeout="1s", settle="200ms", start_within="1s")
async def post(order: str) -> str:
    answer = await send(order, honours=False)
    _pass("effect")
    return answer


@letters.consumer(subscribes=[written], publishes=[posted])
class Post(Consumer[int, str]):
    """Sends each event in an order of its own, and publishes that it has."""

    async def prepare(self, ctx: PrepareContext, state: int | None) -> Prepared[str]:
        events = await ctx.peek(written, limit=1)
        _pass("prepare")
        return Prepared(reserve=events, data=events[0].id if events else "")

    async def mutate(self, ctx: MutateContext, prepared: Prepared[str]) -> None:
        _pass("mutate")
        await post(prepared.data)

    async def next(self, ctx: NextContext, prepared: Prepared[str], outcome: Outcome) -> int | None:
        for event in prepared.reserve:
            ctx.publish(posted, "posted", id=event.id, key=event.key)
        _pass("next")
        return 1
