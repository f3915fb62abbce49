"""Runs that are stopped wherever they are, and must be able to clean up.

What they wait for never comes: an approval, a verdict, a signal. They are cancelled, or their
deadline passes. Whatever had begun must have cleaned up before it is over.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from onward.core.instant import SECOND
from onward.core.retry import Retry
from onward.engine.starting import StartOptions
from onward.sdk.effect import effect, effect_key
from onward.sdk.workflow import workflow
from tests.simulation.simulator.purchases import (
    SETTLE_SECONDS,
    START_SECONDS,
    TIMEOUT_SECONDS,
    shop,
)
from tests.simulation.simulator.sample_workflows import fetch, use
from tests.simulation.simulator.samplers import silence

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection

    from onward.sdk.workflow import Workflow

DEADLINE_SECONDS = 20


def _windows() -> dict[str, Any]:
    return {"timeout": TIMEOUT_SECONDS, "settle": SETTLE_SECONDS, "start_within": START_SECONDS}


@effect(name="simulated proposal", approve=True, **_windows())
async def proposal(what: str) -> str:
    """Wait for an approval that never comes."""
    return await shop().send(what, effect_key())


@effect(name="simulated riddle", retry=Retry(attempts=1), **_windows())
async def riddle(what: str) -> str:
    """Wait for a verdict that never comes."""
    effect_key()
    raise ConnectionError("no reply")


async def _cleaning(wait: Callable[[], Awaitable[Any]]) -> list[str]:
    """Wait until the run is stopped, and clean up in two steps."""
    await fetch("begun")
    try:
        await wait()
    finally:
        await use(await fetch("clean"))
    return ["never stopped"]


@workflow(name="simulated proposer")
async def proposer() -> list[str]:
    """Be stopped while an effect waits for its approval."""
    return await _cleaning(lambda: proposal("p"))


@workflow(name="simulated riddler")
async def riddler() -> list[str]:
    """Be stopped while an effect waits for a verdict."""
    return await _cleaning(lambda: riddle("r"))


@workflow(name="simulated idler")
async def idler() -> list[str]:
    """Be stopped while a signal does not come."""
    return await _cleaning(silence.wait)


@workflow(name="simulated late proposer")
async def late_proposer() -> list[str]:
    """Miss the deadline while an effect waits for its approval."""
    return await _cleaning(lambda: proposal("p"))


@workflow(name="simulated late riddler")
async def late_riddler() -> list[str]:
    """Miss the deadline while an effect waits for a verdict."""
    return await _cleaning(lambda: riddle("r"))


CLEANUPS: dict[str, Workflow[[], list[str]]] = {
    each.name: each for each in (proposer, riddler, idler, late_proposer, late_riddler)
}
OPTIONS = {
    each.name: StartOptions(deadline=DEADLINE_SECONDS * SECOND)
    for each in (late_proposer, late_riddler)
}
CANCELLED = frozenset(each.name for each in (proposer, riddler, idler))
"""Those that are cancelled; the others have a deadline."""


def is_right_cleanup(_: str, result: list[str] | None) -> bool:
    """Say whether a run may have this result; None means that it was stopped."""
    return result is None or result == ["never stopped"]


def has_cleaned_up(recorded: Collection[str], before_cancel: Collection[str]) -> bool:
    """Say whether a run that had begun before it was to stop has cleaned up, to the end."""
    begun = any(text.startswith("begun") for text in before_cancel)
    cleaned = any(text.startswith("clean") and text.endswith("+") for text in recorded)
    return cleaned or not begun
