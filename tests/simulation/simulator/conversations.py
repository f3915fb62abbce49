"""Runs that are sent words while they go on as new runs, and runs whose rows the world spoils."""

from __future__ import annotations

from typing import TYPE_CHECKING

from onward.sdk.inside import continue_as_new
from onward.sdk.workflow import workflow
from tests.simulation.simulator.sample_workflows import fetch, word

if TYPE_CHECKING:
    from onward.sdk.workflow import Workflow

WORDS = ("one", "two", "three", "four", "five", "six")


@workflow(name="simulated conversation")
async def conversation(heard: tuple[str, ...] = ()) -> list[str]:
    """Go on as a new run after each word."""
    heard = (*heard, await word.wait())
    if len(heard) < len(WORDS):
        continue_as_new(heard)
    return list(heard)


@workflow(name="simulated working conversation")
async def working_conversation(heard: tuple[str, ...] = ()) -> list[str]:
    """Work before each word, and go on as a new run after it."""
    await fetch("before")
    heard = (*heard, await word.wait())
    if len(heard) < len(WORDS):
        continue_as_new(heard)
    return list(heard)


@workflow(name="simulated victim")
async def victim() -> list[str]:
    """Work and wait, until the world spoils its rows."""
    await fetch("before")
    heard = [await word.wait()]
    await fetch("between")
    return [*heard, await word.wait()]


CONVERSATIONS: dict[str, Workflow[..., list[str]]] = {
    each.name: each for each in (conversation, working_conversation, victim)
}


def is_right_conversation(name: str, result: list[str] | None) -> bool:
    """Say whether a run of this workflow may have this result."""
    return name == victim.name or result == list(WORDS)
