"""Tasks of bodies in sets: in one order within a run, and spread over all runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from onward.runtime.body.futures import salt_of
from onward.runtime.body.runloop import RunLoop

if TYPE_CHECKING:
    import asyncio


async def nothing() -> None:
    """Return at once."""


def a_loop(seed: str) -> RunLoop:
    return RunLoop(lambda parent, _: f"{parent}.0", lambda *_: lambda: None, salt_of(seed))


def some_tasks(seed: str, number: int) -> list[asyncio.Task[Any]]:
    loop = a_loop(seed)
    tasks: list[asyncio.Task[Any]] = [loop.create_task(nothing()) for _ in range(number)]
    loop.drain()
    return tasks


def test_the_tasks_of_a_run_have_the_same_hashes_in_every_replay() -> None:
    first, again = some_tasks("uid-a", 20), some_tasks("uid-a", 20)

    assert list(map(hash, first)) == list(map(hash, again))


def test_a_set_has_the_tasks_of_a_run_in_the_order_in_which_they_were_made() -> None:
    tasks = some_tasks("uid-a", 20)

    assert list(set(tasks)) == tasks


def test_the_first_tasks_of_many_runs_have_different_hashes() -> None:
    hashes = {hash(some_tasks(f"uid-{number}", 1)[0]) for number in range(1000)}

    assert len(hashes) == 1000
