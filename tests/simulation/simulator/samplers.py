"""Runs that give steps all that a replay must repeat: time, ids, random numbers, order of sets.

A step's arguments are kept with its record. If a body is handed something else in a replay, a retry
or a fork than it was handed live, its calls no longer fit its history and the run parks; the
witness allows that to no run, since the code of these never changes.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from onward.core.retry import Retry
from onward.engine.starting import StartOptions
from onward.sdk.current import current
from onward.sdk.inside import as_completed, continue_as_new, now, random, uuid
from onward.sdk.step import step
from onward.sdk.waits import Signal, sleep
from onward.sdk.workflow import workflow
from tests.simulation.simulator.sample_workflows import outside

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from onward.sdk.workflow import Workflow

BRANCHES = 4
SHAPES_A_RUN = 3
ATTEMPTS = 3
ROUNDS = 3

silence = Signal("silence", str)
"""A signal that is never sent."""


def sample() -> str:
    """Return what a body can be handed beside results."""
    loop = asyncio.get_running_loop()
    return f"{now().isoformat()} {uuid()} {random().random()} {loop.time()}"


@step(name="simulated note")
async def note(seen: str) -> str:
    """Take what the body has seen as an argument."""
    outside().begin()
    await outside().take_time(1.0)
    return f"{len(seen)}={outside().token()}"


@step(name="simulated break", retry=Retry(attempts=1))
async def break_once(cause: str) -> str:
    """Fail until the cause is gone."""
    outside().begin()
    await outside().take_time(1.0)
    if not outside().is_repaired(cause):
        raise ValueError("the cause is still there")
    return outside().token()


@workflow(name="simulated sampling child")
async def sampling_child(seen: str) -> str:
    """Be given what a parent has seen, and see something itself."""
    await note(f"{seen} {sample()}")
    return await note(sample())


async def _twice(what: str) -> str:
    found = await note(f"{what} {sample()}")
    return await note(f"{found} {sample()}")


def _tasks() -> list[asyncio.Task[str]]:
    return [asyncio.create_task(_twice(str(n)), name=str(n)) for n in range(BRANCHES)]


# --- shapes ---------------------------------------------------------------------------------------


async def alone() -> None:
    """One after the other."""
    await _twice("first")
    await _twice("second")


async def gathered() -> None:
    """In branches of a gather."""
    found = await asyncio.gather(*(_twice(str(n)) for n in range(BRANCHES)))
    await note(" ".join(found))


async def grouped() -> None:
    """In branches of a group."""
    async with asyncio.TaskGroup() as group:
        for number in range(BRANCHES):
            group.create_task(_twice(str(number)))
    await note(sample())


async def waited() -> None:
    """In the order of the set that `asyncio.wait` returns."""
    done, _ = await asyncio.wait(_tasks())
    await note(" ".join(task.result() for task in done))


async def first_completed() -> None:
    """In the order of the sets of what has ended and what has not, again and again."""
    pending = set(_tasks())
    while pending:
        done, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
        ended, left = ([task.get_name() for task in some] for some in (done, pending))
        await note(f"{ended} {left} {sample()}")


async def completed() -> None:
    """In the order in which branches end."""
    async for ended in as_completed(_twice(str(n)) for n in range(BRANCHES)):
        await note(f"{await ended} {sample()}")


async def timed_out() -> None:
    """After limits that have run out."""
    try:
        async with asyncio.timeout(2):
            await sleep("1h")
    except TimeoutError:
        await note(sample())
    try:
        await silence.wait(timeout="1s")
    except TimeoutError:
        await note(sample())


async def with_children() -> None:
    """In children, at once."""
    found = await asyncio.gather(*(sampling_child(sample()) for _ in range(2)))
    await note(" ".join(found))


async def mapped() -> None:
    """In the items of a map."""
    await note.map([sample() for _ in range(BRANCHES)])
    await note(sample())


SHAPES: tuple[Callable[[], Awaitable[None]], ...] = (
    alone,
    gathered,
    grouped,
    waited,
    first_completed,
    completed,
    timed_out,
    with_children,
    mapped,
)


async def _some_shapes() -> str:
    """Go through shapes that the run itself has drawn, and return their names."""
    shapes = random().sample(SHAPES, SHAPES_A_RUN)
    for shape in shapes:
        await shape()
    return " ".join(shape.__name__ for shape in shapes)


# --- workflows, each with what it must return -----------------------------------------------------


@workflow(name="simulated sampler")
async def sampler() -> list[str]:
    """Take samples in some shapes, with a sleep in which the body may be evicted."""
    shapes = await _some_shapes()
    await sleep("1s")
    await note(sample())
    return ["sampled", shapes, "1"]


@workflow(name="simulated retried sampler")
async def retried_sampler() -> list[str]:
    """Take samples, fail as a whole after that, and be retried by policy."""
    shapes = await _some_shapes()
    await note(sample())
    if current().attempt < ATTEMPTS:
        raise ValueError(f"attempt {current().attempt} fails")
    return ["sampled", shapes, str(current().attempt)]


@workflow(name="simulated broken sampler")
async def broken_sampler() -> list[str]:
    """Take samples beside a step that fails until the cause is gone, which it is at a retry."""
    cause = current().id.removeprefix("fork of ")  # a fork is given what the run was given
    if current().attempt > 1:
        outside().repair(cause)
    shapes = await _some_shapes()
    await asyncio.gather(_twice("beside"), break_once(cause))
    await note(sample())
    return ["sampled", shapes, str(current().attempt)]


@workflow(name="simulated continuing sampler")
async def continuing_sampler(rounds: int = 0) -> list[str]:
    """Take samples and go on as a new run, some times."""
    shapes = await _some_shapes()
    if rounds + 1 < ROUNDS:
        continue_as_new(rounds + 1)
    return ["sampled", shapes, "1"]


SAMPLERS: dict[str, Workflow[..., list[str]]] = {
    each.name: each for each in (sampler, retried_sampler, broken_sampler, continuing_sampler)
}
OPTIONS = {
    retried_sampler.name: StartOptions(retry=Retry(attempts=ATTEMPTS, delay="1s", factor=1)),
    broken_sampler.name: StartOptions(retry=Retry(attempts=2, delay="1s")),
}
CHILDREN: tuple[Workflow[..., Any], ...] = (sampling_child,)
STEPS = (note, break_once)

_ATTEMPTS = {retried_sampler.name: (str(ATTEMPTS),), broken_sampler.name: ("1", "2")}
"""At which attempts runs succeed; the cause of one may be gone early, because its fork failed."""


def is_right_sampler(name: str, result: list[str] | None) -> bool:
    """Say whether a run of this workflow may have this result."""
    return result is not None and result[2] in _ATTEMPTS.get(name, ("1",))
