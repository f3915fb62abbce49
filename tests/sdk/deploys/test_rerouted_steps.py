"""Open runs whose code moves: steps that are sent elsewhere or called back, lists that change."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

import onward
from onward import App, Retry, Signal, step
from onward.errors import RunCancelled
from tests.kit.deploys import SECONDS, deployed, waits_for
from tests.kit.watching import check_database, until, until_state

if TYPE_CHECKING:
    from onward import Run

go = Signal("go", str)

done: list[str] = []
"""What the code of steps did, in order."""

gates: dict[str, asyncio.Event] = {}


@pytest.fixture(autouse=True)
def _fresh() -> None:
    done.clear()
    gates.clear()


@step(retry=Retry(attempts=3, delay="10ms", factor=1, max_delay="10ms", jitter=0))
async def work(what: str) -> str:
    done.append(what)
    if what in gates:
        await gates[what].wait()
    if what.startswith("bad"):
        raise ValueError(what)
    return f"{what} is done"


elsewhere = work.options(queue="elsewhere")


async def here_then_wait() -> list[str]:
    return [await work("a"), await go.wait()]


async def elsewhere_then_wait() -> list[str]:
    return [await elsewhere("a"), await go.wait()]


@pytest.mark.parametrize(
    ("old", "new"),
    [(here_then_wait, elsewhere_then_wait), (elsewhere_then_wait, here_then_wait)],
)
async def test_a_finished_step_is_not_repeated_where_it_is_called_now(
    app: App, old: Any, new: Any
) -> None:
    async with app:
        async with app.worker(workflows=[deployed(old)], queues=["default", "elsewhere"]):
            run = await app.start(deployed(old))
            await waits_for(run, "go")
        async with app.worker(workflows=[deployed(new)], queues=["default", "elsewhere"]):
            await run.signal(go, "now")
            assert await run.result(timeout=SECONDS) == ["a is done", "now"]
        await check_database(app)
    assert done == ["a"]


async def test_a_step_that_was_sent_elsewhere_is_waited_for_though_it_is_local_now(
    app: App,
) -> None:
    async def old() -> list[str]:
        return [await elsewhere("a")]

    async def new() -> list[str]:
        return [await work("a")]

    async with app:
        async with app.worker(workflows=[deployed(old)]):
            run = await app.start(deployed(old).options(id="run"))
            await until_state(run, "waiting")
        async with app.worker(workflows=[], queues=["elsewhere"]):
            await until_state(run, "ready")
        async with app.worker(workflows=[deployed(new)]):
            assert await run.result(timeout=SECONDS) == ["a is done"]
        await check_database(app)
    assert done == ["a"]


async def has_asked(run: Run[Any], identity: str) -> bool:
    return identity in [row.identity for row in await run.history()]


async def is_over(app: App, run_id: str) -> bool:
    return await (await app.get(run_id)).state() in ("cancelled", "succeeded")


async def test_a_step_that_was_sent_elsewhere_ends_with_the_wait_of_local_code(app: App) -> None:
    async def new() -> None:
        async with asyncio.TaskGroup() as group:
            called = group.create_task(work("a"))
            await go.wait()
            called.cancel()
        await go.wait()

    async def old_in_a_branch() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(elsewhere("a"))
            await go.wait()

    async with app:
        async with app.worker(workflows=[deployed(old_in_a_branch)]):
            run = await app.start(deployed(old_in_a_branch).options(id="run"))
            await waits_for(run, "go")
        async with app.worker(workflows=[deployed(new)]):
            await run.signal(go, "now")
            await until(lambda: has_asked(run, ":go#2"))
            [sent] = [info for info in await app.runs() if info.kind == "step"]
            async with app.worker(workflows=[], queues=["elsewhere"]):
                await until(lambda: is_over(app, sent.id))
        assert (await (await app.get(sent.id)).state(), await run.state()) == (
            "cancelled",
            "waiting",
        )
        await check_database(app)
    assert done == []


async def is_due(run: Run[Any]) -> bool:
    [row] = await run.history()
    return row.due is not None and row.due < datetime.now(UTC)


async def test_a_step_that_is_to_be_tried_again_is_sent_elsewhere_by_new_code(app: App) -> None:
    slow = work.options(retry=Retry(attempts=2, delay="1s"))

    async def old() -> str:
        return await slow("bad")

    async def new() -> str:
        try:
            return await elsewhere("bad")
        except ValueError as error:
            return repr(error)

    async with app:
        async with app.worker(workflows=[deployed(old)]):
            run = await app.start(deployed(old).options(id="run"))
            await until_state(run, "waiting")
            await app.pause("run")
            await until_state(run, "paused")
        assert done == ["bad"]
        await until(lambda: is_due(run))
        async with app.worker(workflows=[deployed(new)], queues=["default", "elsewhere"]):
            await app.resume("run")
            assert await run.result(timeout=SECONDS) == "ValueError('bad')"
        await check_database(app)
    assert done == ["bad"] * 4


async def test_a_step_that_was_cancelled_elsewhere_is_cancelled_to_local_code(app: App) -> None:
    async def caught(called: onward.Step[[str], str]) -> list[str]:
        try:
            first = await called("a")
        except RunCancelled as error:
            first = error.state
        return [first, await go.wait()]

    async def old() -> list[str]:
        return await caught(elsewhere)

    async def new() -> list[str]:
        return await caught(work)

    async with app:
        async with app.worker(workflows=[deployed(old)]):
            run = await app.start(deployed(old).options(id="run"))
            await until_state(run, "waiting")
            [sent] = [info for info in await app.runs() if info.kind == "step"]
            await app.cancel(sent.id)
            await waits_for(run, "go")
        async with app.worker(workflows=[deployed(new)]):
            await run.signal(go, "now")
            assert await run.result(timeout=SECONDS) == ["cancelled", "now"]


# --- keyed lists ----------------------------------------------------------------------------------


async def listed(*names: str) -> list[str]:
    found = await asyncio.gather(*(work.options(key=name)(name) for name in names))
    return [*found, await go.wait()]


async def test_a_keyed_list_that_is_reordered_filtered_and_added_to_keeps_its_results(
    app: App,
) -> None:
    async def old() -> list[str]:
        return await listed("a", "b", "c", "d")

    async def new() -> list[str]:
        return await listed("d", "new", "b", "a")

    async with app:
        async with app.worker(workflows=[deployed(old)]):
            run = await app.start(deployed(old))
            await waits_for(run, "go")
        async with app.worker(workflows=[deployed(new)]):
            await run.signal(go, "now")
            assert await run.result(timeout=SECONDS) == [
                "d is done",
                "new is done",
                "b is done",
                "a is done",
                "now",
            ]
        await check_database(app)
    assert sorted(done) == ["a", "b", "c", "d", "new"]


async def has_done(run: Run[Any], count: int) -> bool:
    return len(await run.history()) >= count


async def test_a_keyed_list_that_is_half_done_goes_on_in_another_order(app: App) -> None:
    gates["b"] = asyncio.Event()

    async def old() -> list[str]:
        return await listed("a", "b", "c")

    async def new() -> list[str]:
        return await listed("c", "b", "a")

    async with app:
        async with app.worker(workflows=[deployed(old)]) as worker:
            run = await app.start(deployed(old))
            await until(lambda: has_done(run, 2))
            for execution in worker.running.values():
                execution.release()
            worker.stop()
        gates["b"].set()
        async with app.worker(workflows=[deployed(new)]):
            await run.signal(go, "now")
            found = await run.result(timeout=SECONDS)
            assert found == ["c is done", "b is done", "a is done", "now"]
        await check_database(app)
    assert sorted(done) == ["a", "b", "b", "c"]


async def test_a_map_with_keys_that_is_reordered_and_filtered_keeps_its_results(app: App) -> None:
    async def mapped(*names: str) -> list[str]:
        found = await work.map(names, key=str)
        return [*found, await go.wait()]

    async def old() -> list[str]:
        return await mapped(*"abcdefgh")

    async def new() -> list[str]:
        return await mapped(*"xhcab")

    async with app:
        async with app.worker(workflows=[deployed(old)]):
            run = await app.start(deployed(old))
            await waits_for(run, "go")
        async with app.worker(workflows=[deployed(new)]):
            await run.signal(go, "now")
            found = await run.result(timeout=SECONDS)
            assert found == [*(f"{name} is done" for name in "xhcab"), "now"]
        await check_database(app)
    assert sorted(done) == [*"abcdefgh", "x"]
