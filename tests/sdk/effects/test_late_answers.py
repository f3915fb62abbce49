"""Answers that come late, and handlers that begin late, are no proof and no send."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING

from onward import App, Applied, NotApplied, Unknown, effect, effect_key, workflow
from onward.testing.clock import VirtualClock, VirtualLoop
from onward.testing.outside import Outside, Trouble
from tests.kit.watching import check_database, until

if TYPE_CHECKING:
    import pytest

bank = Outside()
go_on = threading.Event()


async def look_up_slowly(card: str, *, key: str) -> Applied[str] | NotApplied | Unknown:
    told = await bank.find(key=key)
    if isinstance(told, NotApplied):
        bank.arrive()  # what was late happens after it was looked for,
        await asyncio.sleep(0.35)  # and the answer is so slow that the window has closed meanwhile
    return told


@effect(reconcile=look_up_slowly, timeout="400ms", settle="0s", start_within="100ms")
async def charge(card: str) -> str:
    await asyncio.sleep(0.25)
    answer: str = await bank.call(card, key=effect_key())
    return answer


@workflow
async def buy(card: str) -> str:
    return await charge(card)


def test_a_no_counts_from_when_it_was_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(f"{__name__}.bank", Outside())
    bank.befall(Trouble.LATE)
    clock = VirtualClock()

    async def work() -> str:
        app = App(":memory:", clock=clock, spawn=None)
        async with app, app.worker(workflows=[buy]):
            told = await (await app.start(buy, "card")).result()
            await check_database(app)
        return told

    with asyncio.Runner(loop_factory=lambda: VirtualLoop(clock)) as runner:
        assert runner.run(work()) == "receipt 1"
    assert (len(bank.sent), len(bank.applied)) == (1, 1)


@effect(timeout="10s", start_within="1s")
def knock(door: str) -> str:
    answer: str = bank.call_now(door)
    if door == "slow":
        go_on.wait(10)
    return answer


@workflow
async def visit() -> list[str]:
    return list(await asyncio.gather(knock("slow"), knock("next")))


async def test_a_handler_that_waited_too_long_for_a_thread_is_not_begun(
    memory: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(f"{__name__}.bank", Outside())
    go_on.clear()
    async with memory, memory.worker(threads=1):
        run = await memory.start(visit)
        try:
            await until(lambda: len(bank.sent) == 1)
            await asyncio.sleep(1.1)  # past the time in which the other may begin
        finally:
            go_on.set()
        assert await asyncio.wait_for(run.result(), 60) == ["receipt 1", "receipt 2"]
        # What never began was no attempt.
        assert [each.attempt for each in await memory.effects.of(run.id)] == [1, 1]
        assert [request.arguments for request in bank.sent] == [("slow",), ("next",)]
