"""The runs of a campaign on remote workers: every shape, effects of every kind, and cancels."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, NamedTuple

from onward import workflow
from tests.e2e.effects.kills import PROMISES
from tests.e2e.effects.orders import three_orders
from tests.e2e.engine.shapes import SHAPES, double, go, signalled

if TYPE_CHECKING:
    from onward import Workflow

CANCELLED = "cancelled"
"""The state of a run that was cancelled stands for its result."""


@workflow
async def cancelled(n: int) -> int:
    """Wait for a signal that never arrives, and execute a step when cancelled."""
    first = await double(n)
    try:
        return await go.wait()
    except asyncio.CancelledError:
        await double(first)
        raise


class PlannedRun(NamedTuple):
    """A run to start, what the client does after that, and the only correct result."""

    workflow: Workflow[..., Any]
    arguments: tuple[Any, ...]
    result: Any
    is_signalled: bool = False
    is_cancelled: bool = False
    has_effects: bool = False


def planned_run(number: int) -> PlannedRun:
    """Return the run of this number: all kinds in turn."""
    kinds = len(SHAPES) + len(PROMISES) + 1
    place = number % kinds
    if place < len(SHAPES):
        shape = SHAPES[place]
        is_signalled = shape.workflow is signalled
        return PlannedRun(shape.workflow, (number,), shape.comes_to(number), is_signalled)
    if place == kinds - 1:
        return PlannedRun(cancelled, (number,), CANCELLED, is_cancelled=True)
    kind = PROMISES[place - len(SHAPES)]
    name = f"{kind}-{number}"
    done = [f"{name}/{part} done" for part in "abc"]
    return PlannedRun(three_orders, (kind, name), done, has_effects=True)
