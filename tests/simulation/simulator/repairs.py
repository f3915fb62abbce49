"""Runs whose steps fail until a cause is gone, which it is when the run is retried.

A retry must do all again that failed: a run whose cause is gone succeeds at its second attempt,
however many of its calls had failed at the first.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from onward.core.retry import Retry
from onward.engine.starting import StartOptions
from onward.sdk.current import current
from onward.sdk.step import step
from onward.sdk.workflow import workflow
from tests.simulation.simulator.sample_workflows import outside

if TYPE_CHECKING:
    from onward.sdk.workflow import Workflow

ITEMS = ("a", "b", "c", "d")


@step(name="simulated fragile", retry=Retry(attempts=1))
async def fragile(what: str, run_id: str) -> str:
    """Fail until the cause is gone."""
    outside().begin()
    await outside().take_time()
    if not outside().is_repaired(run_id):
        raise ValueError(f"{what} fails")
    return what


@workflow(name="simulated fragile child")
async def fragile_child(what: str, run_id: str) -> str:
    """Fail with its step."""
    return await fragile(what, run_id)


def _begin() -> str:
    """Return the id of the run; from its second attempt on the cause is gone."""
    if current().attempt > 1:
        outside().repair(current().id)
    return current().id


def _raise_first(found: list[Any]) -> list[str]:
    for each in found:
        if isinstance(each, BaseException):
            raise each
    return [*found, str(current().attempt)]


@workflow(name="simulated repaired gather")
async def repaired_gather() -> list[str]:
    """Let all branches fail, and raise the first error in order."""
    run_id = _begin()
    calls = (fragile(what, run_id) for what in ITEMS)
    return _raise_first(await asyncio.gather(*calls, return_exceptions=True))


@workflow(name="simulated repaired children")
async def repaired_children() -> list[str]:
    """Let all children fail, and raise the first error in order."""
    run_id = _begin()
    calls = (fragile_child(what, run_id) for what in ITEMS)
    return _raise_first(await asyncio.gather(*calls, return_exceptions=True))


@workflow(name="simulated repaired map")
async def repaired_map() -> list[str]:
    """Let all items of a map fail."""
    run_id = _begin()
    found = await fragile.starmap([(what, run_id) for what in ITEMS])
    return [*found, str(current().attempt)]


REPAIRS: dict[str, Workflow[[], list[str]]] = {
    each.name: each for each in (repaired_gather, repaired_children, repaired_map)
}
OPTIONS = {name: StartOptions(retry=Retry(attempts=2, delay="1s", factor=1)) for name in REPAIRS}
CHILDREN: tuple[Workflow[..., Any], ...] = (fragile_child,)
STEPS = (fragile,)


def is_right_repair(name: str, result: list[str] | None) -> bool:
    """Say whether a run may have this result."""
    return result == [*ITEMS, "2"]
