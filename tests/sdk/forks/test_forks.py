"""Forks: a part of a run again, with its history before that, and maybe another result."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

import onward
from onward import App, Signal, step, workflow
from onward.errors import BadInput, Conflict, NotFound, RunOver, Unencodable
from tests.kit.watching import FALSY, info_of, steps_of, until, until_state, working

made: Counter[str] = Counter()
letter = Signal("letter", str)


@pytest.fixture(autouse=True)
def _nothing_is_made() -> None:
    made.clear()


@step
async def fetch_price(item: str) -> int:
    made[item] += 1
    return len(item)


@step
async def bill(price: int) -> str:
    made["bill"] += 1
    return f"pay {price}"


@step
async def anything(name: str) -> Any:
    made[name] += 1
    return name


@workflow
async def purchase() -> list[Any]:
    tea = await fetch_price("tea")
    coffee = await fetch_price("coffee")
    return [tea, coffee, await bill(tea + coffee)]


@pytest.fixture
def purchased() -> list[Any]:
    return [3, 6, "pay 9"]


async def test_a_fork_runs_again_from_a_step_on(app: App, purchased: list[Any]) -> None:
    async with working(app):
        run = await app.start(purchase.options(id="p"))
        assert await run.result(timeout="60s") == purchased

        fork = await app.fork("p", "bill")

        assert await fork.result(timeout="60s") == purchased
        assert made == {"tea": 1, "coffee": 1, "bill": 2}
        info = await run.info()
        assert (info.uid, info.link, info.follows) == (fork.uid, "forked_from", run.uid)
        assert info.attempt == 1


async def test_a_step_has_a_name_and_an_identity(app: App) -> None:
    async with working(app):
        run = await app.start(purchase.options(id="p"))
        await run.result(timeout="60s")
        second = (await run.history())[1]
        assert second.name == "fetch_price"

        fork = await app.fork("p", second.identity, new_id="by identity")
        await fork.result(timeout="60s")
        assert made == {"tea": 1, "coffee": 2, "bill": 2}

        await (await app.fork("p", "fetch_price", new_id="by name")).result(timeout="60s")
        assert made == {"tea": 2, "coffee": 3, "bill": 3}


async def test_a_fork_may_have_another_result_at_its_step(app: App) -> None:
    async with working(app):
        await (await app.start(purchase.options(id="p"))).result(timeout="60s")

        fork = await app.fork("p", "fetch_price", result=100)

        assert await fork.result(timeout="60s") == [100, 6, "pay 106"]
        assert made == {"tea": 1, "coffee": 2, "bill": 2}
        assert await steps_of(fork) == ["fetch_price", "fetch_price", "bill"]


@workflow
async def pass_on() -> list[Any]:
    first = await anything("first")
    return [first, await anything("second")]


async def test_a_result_can_be_edited_to_a_falsy_one(app: App) -> None:
    async with working(app):
        await (await app.start(pass_on.options(id="p"))).result(timeout="60s")
        for value in FALSY:
            fork = await app.fork("p", "anything", result=value)

            assert await fork.result(timeout="60s") == [value, "second"]
        assert made == {"first": 1, "second": 1 + len(FALSY)}


async def test_an_edited_result_must_fit_the_step(app: App) -> None:
    async with working(app):
        run = await app.start(purchase.options(id="p"))
        await run.result(timeout="60s")

        with pytest.raises(Unencodable):
            await app.fork("p", "fetch_price", result="a lot")
        assert (await run.info()).uid == run.uid


async def test_an_unknown_step_is_an_error_and_changes_nothing(app: App) -> None:
    async with working(app):
        run = await app.start(purchase.options(id="p"))
        await run.result(timeout="60s")

        with pytest.raises(NotFound, match="fetch_prise"):
            await app.fork("p", "fetch_prise")
        with pytest.raises(NotFound, match="missing"):
            await app.fork("missing", "fetch_price")
        assert len(await app.runs()) == 1


async def test_a_fork_of_everything_comes_to_the_same_end(app: App, purchased: list[Any]) -> None:
    async with working(app):
        await (await app.start(purchase.options(id="p"))).result(timeout="60s")

        fork = await app.fork("p")

        assert await fork.result(timeout="60s") == purchased
        assert made == {"tea": 1, "coffee": 1, "bill": 1}


# --- beside a run ---------------------------------------------------------------------------------


@workflow
async def post_box() -> list[str]:
    await anything("before")
    letters = [await letter.wait()]
    await anything("between")
    letters.append(await letter.wait())
    return letters


async def test_a_run_that_goes_on_is_forked_beside_it(app: App) -> None:
    async with working(app):
        run = await app.start(post_box.options(id="box"))
        await run.signal(letter, "a")
        await has_made("between")
        await until_state(run, "waiting")

        fork = await app.fork("box", "anything", new_id="other box")
        await fork.signal(letter, "c")
        await run.signal(letter, "b")

        assert await run.result(timeout="60s") == ["a", "b"]
        assert await fork.result(timeout="60s") == ["a", "c"]
        assert made == {"before": 2, "between": 2}
        assert (await run.info()).uid == run.uid


async def has_made(what: str) -> None:
    async def there() -> bool:
        return made[what] > 0

    await until(there)


async def test_a_run_that_goes_on_is_not_forked_in_its_place(app: App) -> None:
    async with working(app):
        run = await app.start(post_box.options(id="box"))
        await until_state(run, "waiting")

        with pytest.raises(RunOver, match="Cancel or pause it first"):
            await app.fork("box", "anything")
        await app.pause("box")
        await until_state(run, "paused")
        fork = await app.fork("box", "anything")
        await fork.signal(letter, "a")
        await fork.signal(letter, "b")
        assert await fork.result(timeout="60s") == ["a", "b"]
        assert (await info_of(app, run.uid)).state == "failed"


async def test_a_fork_from_a_signal_puts_it_and_all_later_ones_back(app: App) -> None:
    async with working(app):
        run = await app.start(post_box.options(id="box"))
        await run.signal(letter, "a")
        await run.signal(letter, "b")
        assert await run.result(timeout="60s") == ["a", "b"]

        fork = await app.fork("box", "letter")

        assert await fork.result(timeout="60s") == ["a", "b"]
        assert made == {"before": 1, "between": 2}


@workflow
async def naps() -> None:
    await onward.sleep("1ms")


async def test_a_fork_can_replace_what_a_signal_carried(app: App) -> None:
    async with working(app):
        run = await app.start(post_box.options(id="box"))
        await run.signal(letter, "a")
        await run.signal(letter, "b")
        await run.result(timeout="60s")

        fork = await app.fork("box", "letter", result="x")

        assert await fork.result(timeout="60s") == ["x", "b"]


async def test_a_sleep_has_no_result_that_could_be_edited(app: App) -> None:
    async with working(app):
        run = await app.start(naps)
        await run.result(timeout="60s")

        with pytest.raises(BadInput, match="has no result"):
            await app.fork(run.id, "sleep", result="x")


async def test_a_new_id_that_is_taken_is_refused(app: App) -> None:
    async with working(app):
        await (await app.start(purchase.options(id="p"))).result(timeout="60s")
        await (await app.start(purchase.options(id="q"))).result(timeout="60s")

        with pytest.raises(Conflict, match="'q' is taken: the run with this id has succeeded"):
            await app.fork("p", "bill", new_id="q")
        assert len(await app.runs()) == 2


@workflow
async def forked_child(name: str) -> str:
    await anything(name)
    return await letter.wait()


@workflow
async def parent_of_forked() -> str:
    return await forked_child.options(id="child")("x")


async def test_a_fork_beside_a_child_says_nothing_to_the_parent(app: App) -> None:
    async with working(app):
        parent = await app.start(parent_of_forked)
        await has_made("x")
        child = await app.get("child")
        await until_state(child, "waiting")

        fork = await app.fork("child", "anything", new_id="beside")
        await fork.signal(letter, "wrong")
        assert await fork.result(timeout="60s") == "wrong"
        await app.signal("child", letter, "right")

        assert await parent.result(timeout="60s") == "right"


async def test_a_fork_beside_a_child_outlives_the_parent(app: App) -> None:
    async with working(app):
        parent = await app.start(parent_of_forked)
        await has_made("x")
        await until_state(await app.get("child"), "waiting")
        fork = await app.fork("child", new_id="beside")
        await until_state(fork, "waiting")
        await parent.cancel()
        await until_state(parent, "cancelled")
        await until_state(await app.get("child"), "cancelled")

        await fork.signal(letter, "still here")
        assert await fork.result(timeout="60s") == "still here"


@workflow
async def asks_child() -> Any:
    found = await falsy_child()
    return [found, await anything("then")]


@workflow
async def falsy_child() -> Any:
    made["child"] += 1
    return 0


async def test_the_result_of_a_child_can_be_edited(app: App) -> None:
    async with working(app):
        run = await app.start(asks_child.options(id="a"))
        assert await run.result(timeout="60s") == [0, "then"]

        assert await (await app.fork("a", "falsy_child", result="")).result(timeout="60s") == [
            "",
            "then",
        ]
        assert made["child"] == 1


async def test_a_failed_step_is_edited_into_a_good_one(app: App) -> None:
    async with working(app):
        run = await app.start(unlucky.options(id="u"))
        await until_state(run, "failed")

        assert await (await app.fork("u", "never_works", result=7)).result(timeout="60s") == 7


@step(retry=onward.Retry(attempts=2, delay="1ms"))
async def never_works() -> int:
    raise OSError("no")


@workflow
async def unlucky() -> int:
    return await never_works()
