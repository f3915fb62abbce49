"""Runs whose code raises what is no `Exception`: the run must end, and nothing else with it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, NoReturn

from onward.core.retry import Retry
from onward.sdk.inside import random
from onward.sdk.step import step
from onward.sdk.workflow import workflow
from tests.simulation.simulator.sample_workflows import fetch, outside

if TYPE_CHECKING:
    from onward.sdk.workflow import Workflow

RAISED = (SystemExit, KeyboardInterrupt, GeneratorExit, MemoryError, RecursionError)

RAISED_BY_A_RUN = "the code of a run raised this"


class Unusual(BaseException):
    """A base exception of the user's own."""


def leave(which: float) -> NoReturn:
    """Raise one of those that end a program; `which` is between 0 and 1."""
    kinds = (RuntimeError,) if outside().is_over else (*RAISED, Unusual)
    raise kinds[int(which * len(kinds))](RAISED_BY_A_RUN)


@step(name="simulated exit", retry=Retry(attempts=1))
async def leave_in_step() -> None:
    """Raise it in a step."""
    outside().begin()
    leave(outside().draw.random())


@step(name="simulated exit in a thread", retry=Retry(attempts=1))
def leave_in_thread() -> None:
    """Raise it in a step that is not async."""
    outside().begin()
    leave(outside().draw.random())


async def _leave_in_branch() -> None:
    await fetch("beside")
    leave(random().random())


@workflow(name="simulated leaving child")
async def leaving_child() -> None:
    """Raise it in a child."""
    await fetch("begun")
    leave(random().random())


@workflow(name="simulated leaver")
async def leaver() -> list[str]:
    """Raise it in the body, before or after a step."""
    if random().random() < 0.5:
        await fetch("begun")
    leave(random().random())


@workflow(name="simulated leaving branches")
async def leaving_branches() -> list[str]:
    """Raise it in a branch."""
    await asyncio.gather(_leave_in_branch(), fetch("other"))
    return ["never left"]


@workflow(name="simulated leaving steps")
async def leaving_steps() -> list[str]:
    """Raise it in a step."""
    await leave_in_step()
    return ["never left"]


@workflow(name="simulated leaving threads")
async def leaving_threads() -> list[str]:
    """Raise it in a thread."""
    await leave_in_thread()
    return ["never left"]


@workflow(name="simulated leaving family")
async def leaving_family() -> list[str]:
    """Have a child that raises it."""
    await leaving_child()
    return ["never left"]


EXITS: dict[str, Workflow[[], list[str]]] = {
    each.name: each
    for each in (leaver, leaving_branches, leaving_steps, leaving_threads, leaving_family)
}
STEPS = (leave_in_step, leave_in_thread)
CHILDREN: tuple[Workflow[..., Any], ...] = (leaving_child,)


FAILED = "failed"
"""What a client makes of the end of such a run: it must have failed, with its error."""


def is_right_exit(_: str, result: list[str] | None) -> bool:
    """Say whether a run may have come to this."""
    return result == [FAILED]
