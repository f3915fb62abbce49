"""What a run notes of itself: the last word wins, and counts are exact whatever happens."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import pytest

import onward
from onward import App, Retry, Signal, step, workflow
from onward.engine.display import shown_notes
from onward.errors import NotInBody, RunFailed
from tests.kit.watching import FALSY, until, until_state, working

tried: Counter[str] = Counter()
failing: set[str] = set()
bell = Signal("bell", int)


@pytest.fixture(autouse=True)
def _nothing_was_tried() -> None:
    tried.clear()
    failing.clear()


@step(retry=Retry(attempts=3, delay="1ms"))
async def counted(name: str, fails: int = 0) -> str:
    tried[name] += 1
    onward.current().counters.add("steps")
    onward.current().counters.add(name, 2)
    onward.current().attributes["last"] = name
    if tried[name] <= fails or name in failing:
        raise OSError(name)
    return name


@step
def counted_in_a_thread() -> int:
    here = onward.current()
    for _ in range(5):
        here.counters.add("steps")
    return here.counters["steps"]  # type: ignore[return-value] # it is an int


@workflow
async def notes_much() -> dict[str, Any]:
    here = onward.current()
    here.counters.add("bodies")
    here.attributes["last"] = "body"
    await counted("a", fails=2)
    await bell.wait()
    await asyncio.gather(counted("b"), counted("c", fails=1), onward.sleep("1ms"))
    assert await counted_in_a_thread() == 5
    here.counters.add("bodies", 0.5)
    return {"counters": dict(here.counters), "last": here.attributes["last"]}


COUNTS = {"bodies": 1.5, "a": 2, "steps": 8, "b": 2, "c": 2}


async def test_counts_are_exact_although_steps_are_tried_again(app: App) -> None:
    async with working(app):
        run = await app.start(notes_much)
        await run.signal(bell, 1)
        result = await run.result(timeout="60s")

        info = await run.info()
        assert info.counters == result["counters"] == COUNTS
        assert info.attributes["last"] == result["last"]
        assert result["last"] in ("b", "c")


async def test_counts_are_exact_although_bodies_are_replayed(app: App) -> None:
    async with app:
        run = await app.start(notes_much)

        async def waits_for_the_bell() -> bool:
            return any(row.name == "bell" for row in await run.history())

        async with working(app):
            await until(waits_for_the_bell)
            assert (await run.info()).counters == {"bodies": 1, "a": 2, "steps": 1}
        for _ in range(3):  # each time by another worker, which has nothing of it in memory
            async with working(app):
                await run.signal("another", 1)
                await until_state(run, "waiting")
        async with working(app):
            await run.signal(bell, 1)
            result = await run.result(timeout="60s")

        assert (await run.info()).counters == result["counters"] == COUNTS


@workflow
async def overwrites() -> list[Any]:
    here = onward.current()
    words = []
    here.attributes["word"] = "first"
    await says("second")
    words.append(here.attributes["word"])
    here.attributes["word"] = "third"
    words.append(here.attributes["word"])
    await counted("failed_call")
    words.append(here.attributes["word"])
    return words


@step
async def says(word: str) -> None:
    onward.current().attributes["word"] = word


async def test_the_last_word_wins_in_body_and_step(app: App) -> None:
    async with working(app):
        run = await app.start(overwrites)

        assert await run.result(timeout="60s") == ["second", "third", "third"]
        assert (await run.info()).attributes == {"word": "third", "last": "failed_call"}


async def test_the_last_word_is_the_same_after_a_retry(app: App) -> None:
    failing.add("failed_call")
    async with working(app):
        run = await app.start(overwrites)
        await until_state(run, "failed")
        assert (await run.info()).attributes == {"word": "third"}
        failing.clear()

        again = await app.retry(run.id)

        assert await again.result(timeout="60s") == ["second", "third", "third"]
        info = await again.info()
        assert info.attributes == {"word": "third", "last": "failed_call"}
        assert info.counters == {"steps": 1, "failed_call": 2}


@workflow
async def step_has_the_last_word() -> str:
    onward.current().attributes["word"] = "first"
    await says("last")
    return await counted("failed_call")


async def test_the_last_word_of_a_step_survives_a_retry_and_a_fork(app: App) -> None:
    failing.add("failed_call")
    async with working(app):
        run = await app.start(step_has_the_last_word)
        await until_state(run, "failed")
        failing.clear()

        again = await app.retry(run.id)
        await again.result(timeout="60s")
        assert (await again.info()).attributes["word"] == "last"

        fork = await app.fork(run.id, "counted", new_id="fork")
        await fork.result(timeout="60s")
        assert (await fork.info()).attributes["word"] == "last"
        edited = await app.fork(run.id, "says", result=None, new_id="edited")
        await edited.result(timeout="60s")
        assert (await edited.info()).attributes["word"] == "first"


async def test_a_fork_counts_what_is_in_its_own_history(app: App) -> None:
    async with working(app):
        run = await app.start(notes_much.options(id="n"))
        await run.signal(bell, 1)
        await run.result(timeout="60s")
        tried.clear()

        fork = await app.fork("n", "bell", new_id="m")
        result = await fork.result(timeout="60s")

        assert (await fork.info()).counters == result["counters"] == COUNTS
        assert (await run.info()).counters == COUNTS


async def test_a_run_that_is_retried_by_itself_counts_once(app: App) -> None:
    async with working(app):
        run = await app.start(counts_and_fails.options(retry=Retry(attempts=3, delay="1ms")))
        await run.result(timeout="60s")

        assert (await run.info()).counters == {"begun": 1, "steps": 1, "x": 2}


@workflow
async def counts_and_fails() -> None:
    onward.current().counters.add("begun")
    await counted("x")
    if onward.current().attempt < 3:
        raise ValueError("not yet")


# --- what can be noted ----------------------------------------------------------------------------


@workflow
async def notes_value(where: str, what: str) -> None:
    if where == "step":
        await notes_in_step(what)
    else:
        _note(what)


@step(retry=Retry(attempts=1))
async def notes_in_step(what: str) -> None:
    _note(what)


def _note(what: str) -> None:
    here = onward.current()
    match what:
        case "an object":
            here.attributes["x"] = object()
        case "a tuple":
            here.attributes["x"] = (1, 2)
        case "a bad name":
            here.attributes["a\nb"] = 1
        case "not a number":
            here.counters.add("x", float("nan"))
        case "a text":
            here.counters.add("x", "1")  # type: ignore[arg-type] # that is the test
        case "a truth":
            here.counters.add("x", True)
        case "too much":
            here.attributes["x"] = "x" * 1_500_000
            here.attributes["y"] = "y" * 1_500_000
        case "a deletion":
            here.attributes["x"] = 1
            del here.attributes["x"]


BAD = ["an object", "a tuple", "a bad name", "not a number", "a text", "a truth", "a deletion"]


@pytest.mark.parametrize("where", ["body", "step"])
async def test_what_cannot_be_noted_is_refused_at_the_line(app: App, where: str) -> None:
    async with working(app):
        for what in BAD:
            with pytest.raises(RunFailed, match=r" x|attribute|count"):
                await app.run(notes_value, where, what)


async def test_a_step_that_notes_too_much_fails(app: App) -> None:
    async with working(app):
        run = await app.start(notes_value, "step", "too much")
        with pytest.raises(RunFailed, match="notes"):
            await run.result(timeout="60s")


@workflow
async def changes_its_mind() -> Any:
    things = [1]
    onward.current().attributes["things"] = things
    things.append(2)
    await counted("x")
    return onward.current().attributes["things"]


async def test_what_was_noted_is_not_changed_by_changing_the_value(app: App) -> None:
    async with working(app):
        run = await app.start(changes_its_mind)

        assert await run.result(timeout="60s") == [1]
        assert (await run.info()).attributes["things"] == [1]


async def test_a_falsy_attribute_is_kept(app: App) -> None:
    async with working(app):
        for value in FALSY:
            run = await app.start(notes_falsy, value)
            await run.result(timeout="60s")

            assert (await run.info()).attributes == {"body": value, "step": value}


@workflow
async def notes_falsy(value: Any) -> None:
    onward.current().attributes["body"] = value
    await notes_falsy_step(value)


@step
async def notes_falsy_step(value: Any) -> None:
    onward.current().attributes["step"] = value


async def test_branches_that_note_the_same_count_all(app: App) -> None:
    async with working(app):
        run = await app.start(many_branches)
        await run.result(timeout="60s")

        info = await run.info()
        assert info.counters == {"n": 30}
        assert info.attributes == {"n": 9}


@workflow
async def many_branches() -> None:
    async def branch(number: int) -> None:
        for _ in range(3):
            onward.current().counters.add("n")
            await onward.sleep(0)
        onward.current().attributes["n"] = number

    async with asyncio.TaskGroup() as group:
        for number in range(10):
            group.create_task(branch(number))


# --- progress -------------------------------------------------------------------------------------


@step
async def works_slowly() -> None:
    for percent in (10, 50):
        onward.current().progress({"percent": percent})
        onward.current().heartbeat({"percent": percent + 1})
    tried["slowly"] += 1
    await asyncio.Event().wait()


@workflow
async def shows_progress(value: Any) -> None:
    onward.current().progress(value)
    await bell.wait()
    await works_slowly()


@pytest.mark.parametrize("value", [0, {"percent": 3}])
async def test_progress_is_seen_by_others(app: App, value: object) -> None:
    async with working(app):
        run = await app.start(shows_progress, value)

        async def is_seen() -> bool:
            return bool((await run.info()).progress == value)

        await until(is_seen)
        await run.signal(bell, 1)

        async def is_later() -> bool:
            return bool((await run.info()).progress == {"percent": 51})

        await until(is_later)
        await run.cancel(force=True)


async def test_the_last_progress_is_there_when_the_run_is_over(app: App) -> None:
    async with app:
        async with working(app):
            run = await app.start(ends_with_progress)
            await run.result(timeout="60s")
        assert (await run.info()).progress == "almost"


@workflow
async def ends_with_progress() -> None:
    onward.current().progress("begun")
    await counted("x")
    onward.current().progress("almost")


async def test_there_is_no_current_run_outside() -> None:
    with pytest.raises(NotInBody):
        onward.current()


@workflow
async def notes_and_goes_on(left: int) -> None:
    onward.current().counters.add("rounds")
    await counted("x")
    onward.current().counters.add("ends")
    if left:
        onward.continue_as_new(left - 1)


async def test_what_a_run_noted_last_is_kept_when_it_goes_on(app: App) -> None:
    async with working(app):
        run = await app.start(notes_and_goes_on, 3)
        await run.result(timeout="60s")

        for info in await app.runs():
            notes = shown_notes(await app._store.notes(info.uid), None)
            assert notes.counters == {"rounds": 1, "ends": 1, "steps": 1, "x": 2}
