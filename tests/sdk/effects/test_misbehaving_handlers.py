"""Handlers and reconcilers that misbehave: the error is always reported."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any

import pytest

import onward
from onward import Applied, NotApplied, Retry, Signal, effect, workflow
from tests.kit.ledgers import effect_of
from tests.kit.watching import until, until_state, working

if TYPE_CHECKING:
    from onward import App

sent: list[str] = []
does: list[BaseException] = []
door = threading.Event()
go = Signal("go", str)


@pytest.fixture(autouse=True)
def world() -> None:
    door.clear()
    for kept in (sent, does):
        kept.clear()


class Speechless(NotApplied):
    """Cannot be told."""

    def __str__(self) -> str:
        raise RuntimeError("no words")


class Timeless(NotApplied):
    """Cannot say when to come again."""

    @property
    def after(self) -> Any:
        raise RuntimeError("no time")

    @after.setter
    def after(self, value: Any) -> None: ...


@effect(retry=Retry(attempts=1))
async def deed() -> str:
    sent.append("deed")
    raise does.pop(0)


@workflow
async def told() -> str:
    try:
        return await deed()
    except NotApplied:
        return "not applied"


@pytest.mark.parametrize("raised", [Speechless, Timeless])
async def test_a_not_applied_error_with_a_broken_message_still_counts(
    app: App, raised: type[NotApplied]
) -> None:
    does[:] = [raised("no")]
    async with working(app):
        assert await app.run(told) == "not applied"


async def test_an_error_that_is_none_of_a_handler_leaves_it_uncertain(app: App) -> None:
    does[:] = [GeneratorExit()]
    async with working(app):
        run = await app.start(told)
        info = await effect_of(app, run, "indeterminate")
        await until_state(run, "paused")

        assert info.why is not None
        assert "GeneratorExit" in info.why


# --- threads that are taken -----------------------------------------------------------------------


@effect(timeout="60s")
def blocks() -> str:
    sent.append("blocks")
    door.wait(60)
    return "blocked"


@effect(timeout="30s", start_within="50ms", retry=Retry(attempts=1))
def knocks() -> str:
    sent.append("knocks")
    return "knocked"


@workflow
async def visits() -> list[str]:
    first = asyncio.ensure_future(blocks())
    await go.wait()
    try:
        second = await knocks()
    except NotApplied as error:
        second = str(error)
    return [await first, second]


async def is_blocked() -> bool:
    return bool(sent)


async def test_a_call_for_which_no_thread_was_free_is_made_when_one_is(app: App) -> None:
    async with working(app, threads=1):
        run = await app.start(visits)
        await until(is_blocked)
        await run.signal(go, "on")
        await effect_of(app, run, "failed", name="knocks")
        door.set()

        assert await run.result(timeout="60s") == ["blocked", "knocked"]
        assert (await effect_of(app, run, "applied", name="knocks")).attempt == 1
    assert sent == ["blocks", "knocks"]


def in_a_thread(*, key: str) -> Applied[str]:
    return Applied("looked up")


@effect(reconcile=in_a_thread, timeout="50ms", settle="50ms", retry=Retry(attempts=1))
async def unanswered() -> str:
    sent.append("unanswered")
    raise ConnectionError("no answer")


@workflow
async def asks_meanwhile() -> list[str]:
    first = asyncio.ensure_future(blocks())
    await go.wait()
    second = await unanswered()
    return [await first, second]


async def test_a_reconciler_has_its_time_when_a_thread_is_free(memory: App) -> None:
    async with working(memory, threads=1):
        run = await memory.start(asks_meanwhile)
        await until(is_blocked)
        await run.signal(go, "on")
        await effect_of(memory, run, "needs_reconcile", name="unanswered")
        await memory.run(naps)  # for longer than the reconciler may take
        door.set()
        assert await run.result(timeout="60s") == ["blocked", "looked up"]
        assert (await effect_of(memory, run, "applied", name="unanswered")).asks == 1


@workflow
async def naps() -> None:
    await onward.sleep("300ms")
