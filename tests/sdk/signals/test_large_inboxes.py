"""Inboxes with many or large messages: only new ones are read, and payloads when they are taken."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING

import pytest

from onward import Signal, workflow
from onward.engine import loading
from onward.engine.loading import last_taken
from onward.model.records import RecordRow
from tests.kit.watching import until, until_state, working

if TYPE_CHECKING:
    from onward import App, Run

letter = Signal("letter", str)
note = Signal("note", str)


@workflow
async def collects(count: int) -> list[str]:
    return [(await letter.wait())[:3] for _ in range(count)]


@workflow
async def collects_at_once(count: int) -> list[str]:
    taken = await asyncio.gather(*(letter.wait() for _ in range(count)))
    return [text[:3] for text in taken]


@workflow
async def has_a_limit() -> str:
    await note.wait()
    async with asyncio.timeout(0.001):
        return (await letter.wait())[:3]


@workflow
async def cleans_up() -> None:
    try:
        await letter.wait()
    finally:
        await note.wait()


@pytest.fixture(autouse=True)
def _small_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loading, "INBOX_BYTES", 1000)


def large(number: int) -> str:
    return f"{number:03}".ljust(400, "x")


@pytest.mark.parametrize("warm", [0, 100])
@pytest.mark.parametrize("body", [collects, collects_at_once])
async def test_messages_beyond_the_budget_are_taken_in_order(
    app: App, body: object, warm: int
) -> None:
    wanted = collects if body is collects else collects_at_once
    async with working(app, warm=warm):
        run = await app.start(wanted, 25)
        for number in range(5):
            await run.signal(letter, large(number))
        await until_state(run, "waiting")
        for number in range(5, 25):
            await run.signal(letter, large(number))

        assert await run.result(timeout="30s") == [f"{number:03}" for number in range(25)]


async def test_a_message_whose_payload_is_still_to_be_read_wins_over_a_time_that_has_passed(
    app: App,
) -> None:
    async with app:
        run = await app.start(has_a_limit)
        await run.signal(letter, large(0) * 10)
        await run.signal(note, "go")
        async with app.worker(warm=0):
            assert await run.result(timeout="60s") == "000"


async def is_cleaning(run: Run[None]) -> bool:
    kinds = [row.kind for row in await run.history() if row.state == "open"]
    return await run.state() == "waiting" and kinds == ["signal", "signal"]


async def test_a_cancelled_run_whose_body_is_replayed_knows_that_it_is_to_stop(app: App) -> None:
    async with working(app, warm=0):
        run = await app.start(cleans_up)
        await until_state(run, "waiting")
        await run.cancel()
        await until(partial(is_cleaning, run))
        await app.pause(run.id)
        await run.signal(note, "done")

        await until_state(run, "cancelled")


def test_what_was_taken_from_the_beginning_on_is_not_read_again() -> None:
    def taking(message: int | None) -> RecordRow:
        said = ("signal", "s", "succeeded", None, None, None)
        return RecordRow("r", "i", 1, 1, *said, message, None, None, 0, 0)

    assert last_taken([]) == 0
    assert last_taken([taking(None), taking(2), taking(1), taking(4)]) == 2
