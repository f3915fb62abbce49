"""Signals: in order, once, typed, before, during and after the wait, and never lost."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import onward
from onward import App, Run, Signal, step, workflow
from onward.errors import BadInput, NotFound, RunOver, RunPaused, TimedOut
from tests.kit.watching import check_database, until, until_state

number = Signal("number", int)
word = Signal("word", str)
stop = Signal("stop")


@step
async def note(text: str) -> str:
    return text


@workflow
async def two_waits() -> list[list[int]]:
    async def two() -> list[int]:
        return [await number.wait(), await number.wait()]

    return list(await asyncio.gather(two(), two()))


@pytest.mark.parametrize("leave", [False, True])
async def test_the_oldest_wait_of_a_name_has_the_oldest_signal(app: App, leave: bool) -> None:
    async with app:
        async with app.worker():
            run = await app.start(two_waits)
            await until_state(run, "waiting")
            if not leave:
                for value in range(1, 5):
                    await run.signal(number, value)
                assert await run.result(timeout="60s") == [[1, 3], [2, 4]]
        if leave:  # signals that arrive without a worker, for a body that has to be replayed
            for value in range(1, 5):
                await run.signal(number, value)
            async with app.worker():
                assert await run.result(timeout="60s") == [[1, 3], [2, 4]]
        await check_database(app)


@workflow
async def two_numbers() -> list[int]:
    return [await number.wait(), await number.wait()]


async def test_a_signal_of_another_type_says_how_to_put_one_in_its_place(app: App) -> None:
    async with app, app.worker():
        run = await app.start(two_numbers.options(id="sum 1"))
        for value in (1, "two"):
            await run.signal("number", value)
        with pytest.raises(RunPaused) as paused:
            await run.result(timeout="60s", raise_paused=True)
        told = (await run.info()).error or ""
        assert told.splitlines() == [
            "signal 'number' does not match int: value is text, not an int.",
            "Replace it with a valid value: "
            "onward runs fork 'sum 1' --step ':number#2' --result JSON",
        ]
        assert told in str(paused.value)
        again = await app.fork("sum 1", ":number#2", result=2)
        assert await again.result(timeout="60s") == [1, 2]


@workflow
async def words_and_numbers() -> list[Any]:
    return [await word.wait(), await number.wait(), await word.wait(), await number.wait()]


async def test_names_have_orders_of_their_own(memory: App) -> None:
    async with memory, memory.worker():
        run = await memory.start(words_and_numbers)
        for value in (1, 2):
            await run.signal(number, value)
        for text in ("a", "b"):
            await run.signal(word, text)

        assert await run.result(timeout="60s") == ["a", 1, "b", 2]


@workflow
async def late_reader() -> int:
    await note("first")
    await onward.sleep("10ms")
    return await number.wait()


async def test_a_signal_waits_for_a_run_that_does_not_wait_yet(app: App) -> None:
    async with app:
        run = await app.start(late_reader)
        await run.signal(number, 7)
        async with app.worker():
            assert await run.result(timeout="60s") == 7


async def test_a_signal_starts_no_run_before_its_time(app: App) -> None:
    async with app, app.worker():
        run = await app.start(late_reader.options(delay="1h"))
        await run.signal(number, 7)
        later = await app.start(late_reader)
        await later.signal(number, 8)

        assert await later.result(timeout="60s") == 8
        assert await run.state() == "waiting"
        assert await run.history() == []


async def test_many_signals_come_in_order(app: App) -> None:
    async with app, app.worker():
        run = await app.start(reader, 100)
        for value in range(100):
            await run.signal(number, value)

        assert await run.result(timeout="60s") == list(range(100))


@workflow
async def reader(count: int) -> list[int]:
    return [await number.wait() for _ in range(count)]


# --- once -----------------------------------------------------------------------------------------


async def test_a_message_that_is_sent_again_is_delivered_once(app: App) -> None:
    async with app, app.worker():
        run = await app.start(reader, 3)
        await asyncio.gather(*(run.signal(number, 1, message_id="one") for _ in range(5)))
        await run.signal(number, 2)
        await run.signal(number, 1, message_id="one")
        await app.signal(run.id, number, 3, message_id="three")

        assert await run.result(timeout="60s") == [1, 2, 3]
        await check_database(app)


async def test_a_message_id_is_the_run_s_own_and_no_other_message_is_taken_for_it(
    app: App,
) -> None:
    async with app, app.worker():
        runs = [await app.start(reader, 1) for _ in range(2)]
        for run in runs:
            await run.signal(number, 7, message_id="cancel")  # our own messages have ids too

        assert [await run.result(timeout="60s") for run in runs] == [[7], [7]]


@pytest.mark.parametrize("bad", ["", "a\0b", "x" * 5000])
async def test_a_message_id_that_cannot_be_kept_is_refused_at_the_call(
    memory: App, bad: str
) -> None:
    async with memory:
        run = await memory.start(reader, 1)
        with pytest.raises(BadInput):
            await run.signal(number, 1, message_id=bad)


# --- too late, and nowhere ------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["succeeded", "cancelled"])
async def test_a_signal_to_a_run_that_is_over_is_an_error(app: App, how: str) -> None:
    async with app, app.worker():
        run = await app.start(reader, 1)
        if how == "succeeded":
            await run.signal(number, 1)
        else:
            await run.cancel()
        await until_state(run, how)

        with pytest.raises(RunOver, match="'number'"):
            await run.signal(number, 2)
        with pytest.raises(RunOver):
            await app.signal(run.uid, "number", 2)


async def test_a_signal_to_a_missing_run_is_an_error(app: App) -> None:
    async with app:
        for unknown in ("missing", "", "a\0b", "\ud800", "x" * 5000):
            with pytest.raises(NotFound):
                await app.signal(unknown, number, 1)


@pytest.mark.parametrize("bad", ["", "a\0b", "x" * 5000])
async def test_a_name_that_no_signal_can_have_is_refused(memory: App, bad: str) -> None:
    async with memory:
        run = await memory.start(reader, 1)
        with pytest.raises(BadInput):
            await run.signal(bad, 1)
    with pytest.raises(BadInput):
        Signal(bad)


async def test_a_value_of_another_type_is_refused_where_it_is_sent(memory: App) -> None:
    async with memory:
        run = await memory.start(reader, 1)
        with pytest.raises(onward.errors.Unencodable, match="signal number"):
            await run.signal(number, "seven")


# --- in time --------------------------------------------------------------------------------------


class Seen:
    """What bodies said; a test resets it."""

    told: list[str] = []  # noqa: RUF012 - the tests of a file run one after the other


@pytest.fixture(autouse=True)
def _nothing_seen() -> None:
    Seen.told.clear()


@workflow
async def impatient() -> str:
    try:
        await number.wait(timeout="10ms")
    except TimedOut as late:
        told = f"{type(late).__name__} {isinstance(late, TimeoutError)}: {late}"
        Seen.told.append(told)
    await stop.wait()
    return told


async def test_a_wait_that_is_over_raises_the_same_live_and_on_replay(app: App) -> None:
    async with app:
        async with app.worker():
            run = await app.start(impatient)
            await until(lambda: bool(Seen.told))
            await until_state(run, "waiting")
        async with app.worker():
            await run.signal(stop)
            told = await run.result(timeout="60s")
        assert len(Seen.told) > 1
        assert set(Seen.told) == {told}
        assert told.startswith("TimedOut True: the wait for 'number'")


@workflow
async def looks_once() -> str:
    try:
        return str(await number.wait(timeout=0))
    except TimedOut:
        return "nothing"


async def test_a_wait_of_no_time_has_what_is_there(memory: App) -> None:
    async with memory:
        there = await memory.start(looks_once)
        await there.signal(number, 7)
        nothing = await memory.start(looks_once)
        async with memory.worker():
            assert await there.result(timeout="60s") == "7"
            assert await nothing.result(timeout="60s") == "nothing"


@workflow
async def after_a_timeout() -> int:
    try:
        await number.wait(timeout="5ms")
    except TimedOut:
        Seen.told.append("nothing came")
    return await number.wait()


async def test_a_signal_after_the_wait_was_over_is_for_the_next(app: App) -> None:
    async with app, app.worker():
        run = await app.start(after_a_timeout)
        await until(lambda: bool(Seen.told))
        await run.signal(number, 7)

        assert await run.result(timeout="60s") == 7


# --- never lost -----------------------------------------------------------------------------------


@workflow
async def restless(count: int, *, ours: bool) -> list[int]:
    """Take signals, giving up each wait so soon that many come just then."""
    got: list[int] = []
    while len(got) < count:
        try:
            if ours:
                got.append(await number.wait(timeout=0.0005))
            else:
                async with asyncio.timeout(0.0005):
                    got.append(await number.wait())
        except TimeoutError:
            await note("once more")
    return got


@pytest.mark.parametrize("ours", [True, False])
async def test_no_signal_is_lost_or_doubled_when_waits_are_given_up(app: App, ours: bool) -> None:
    async with app, app.worker():
        run = await app.start(restless, 40, ours=ours)
        for value in range(40):
            await run.signal(number, value)
            await asyncio.sleep(0.0005 * (value % 3))

        assert await run.result(timeout="60s") == list(range(40))
        await check_database(app)


@workflow
async def relay(got: list[int], count: int, step_first: bool) -> list[int]:
    """Go on as a new run after every signal."""
    if step_first:
        await note("a step in between")
    got = [*got, await number.wait()]
    if len(got) < count:
        onward.continue_as_new(got, count, not step_first)
    return got


async def test_no_signal_is_lost_when_a_run_goes_on_as_a_new_one(app: App) -> None:
    async with app, app.worker():
        run = await app.start(relay.options(id="relay"), [], 20, False)
        for value in range(20):
            await run.signal(number, value)

        assert await run.result(timeout="60s") == list(range(20))
        await check_database(app)


@workflow
async def hasty(got: list[int], count: int) -> list[int]:
    """Go on as a new run whenever a wait is given up."""
    try:
        async with asyncio.timeout(0.001):
            while len(got) < count:
                got = [*got, await number.wait()]
    except TimeoutError:
        onward.continue_as_new(got, count)
    return got


async def test_no_signal_is_lost_when_a_wait_is_given_up_to_go_on_as_a_new_run(app: App) -> None:
    async with app, app.worker():
        run = await app.start(hasty.options(id="hasty"), [], 40)
        for value in range(40):
            await run.signal(number, value)
            await asyncio.sleep(0.0005 * (value % 4))

        assert await run.result(timeout="60s") == list(range(40))
        await check_database(app)


async def test_many_senders_at_once_lose_nothing(app: App) -> None:
    async with app, app.worker():
        run: Run[list[int]] = await app.start(reader, 50)
        await asyncio.gather(*(run.signal(number, value) for value in range(50)))

        assert sorted(await run.result(timeout="60s")) == list(range(50))


@workflow
async def selective() -> list[str]:
    """Wait for two names, take what comes first, and give up the other."""
    heard: list[str] = []
    while len(heard) < 20:
        waits = [
            asyncio.create_task(number.wait(), name="n"),
            asyncio.create_task(word.wait(), name="w"),
        ]
        done, pending = await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        for task in pending:
            task.cancel()
        heard += [str(await task) for task in waits if task in done]
    return heard


async def test_a_body_may_wait_for_several_names_and_give_up_the_rest(memory: App) -> None:
    async with memory, memory.worker():
        run = await memory.start(selective)
        for value in range(10):
            await run.signal(number, value)
            await run.signal(word, f"w{value}")

        heard = await run.result(timeout="60s")
        assert [each for each in heard if each[0] != "w"] == [str(n) for n in range(10)]
        assert [each for each in heard if each[0] == "w"] == [f"w{n}" for n in range(10)]
