"""Cancelling: wherever a run is, everyone says the same of how it ended."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from typing import TYPE_CHECKING

import pytest

import onward
from onward import App, Signal, step, workflow
from onward.errors import NotFound, RunCancelled, RunFailed
from onward.model.ends import to_overdue
from tests.kit.watching import ends, lasting, steps_of, until, until_state, working

if TYPE_CHECKING:
    from collections.abc import Iterator

seen: Counter[str] = Counter()
thread_may_end = threading.Event()
stop_it = Signal("stop it", str)


@pytest.fixture(autouse=True)
def _nothing_was_seen() -> Iterator[None]:
    seen.clear()
    thread_may_end.clear()
    yield
    thread_may_end.set()


@step
async def long_step() -> None:
    seen["step"] += 1
    try:
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        seen["step stopped"] += 1
        raise


@step
def thread_step() -> None:
    seen["step"] += 1
    while not thread_may_end.wait(0.005):
        try:
            onward.current().heartbeat()
        except asyncio.CancelledError:
            seen["step stopped"] += 1
            raise


@step(queue="elsewhere")
async def routed_step() -> None:
    seen["step"] += 1
    try:
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        seen["step stopped"] += 1
        raise


@step
async def mapped_step(_: int) -> None:
    await long_step.fn()


@step
async def tidy(what: str = "tidied") -> None:
    seen[what] += 1


@workflow
async def long_child() -> None:
    try:
        await long_step()
    finally:
        await tidy("child tidied")


@workflow
async def busy(how: str) -> None:
    try:
        match how:
            case "wait":
                await stop_it.wait()
            case "sleep":
                await onward.sleep("1h")
            case "step":
                await long_step()
            case "thread":
                await thread_step()
            case "child":
                await long_child()
            case "routed":
                await routed_step()
            case "map":
                await mapped_step.map([1, 2, 3])
            case _:
                await asyncio.gather(long_step(), onward.sleep("1h"), stop_it.wait())
    finally:
        await tidy()


IN_STEP = ["step", "thread", "child", "routed", "map", "gather"]


async def is_busy(run: onward.Run[None], how: str) -> None:
    async def there() -> bool:
        return seen["step"] > 0

    if how in IN_STEP:
        await until(there)
    else:
        await until_state(run, "waiting")


@pytest.mark.parametrize("how", ["wait", "sleep", *IN_STEP])
async def test_a_cancel_reaches_whatever_a_run_is_doing(app: App, url: str, how: str) -> None:
    async with working(app, queues=["default", "elsewhere"]):
        run = await app.start(busy, how)
        await is_busy(run, how)

        assert await run.cancel() == "accepted"

        await until_state(run, "cancelled")
        await ends(app, url, run, "cancelled", "operator")
        assert seen["tidied"] == 1
        assert (await steps_of(run))[-2:] == ["cancel", "tidy"]

        async def is_quiet() -> bool:
            open_runs = [each for each in await app.runs() if each.finished_at is None]
            return seen["step stopped"] == seen["step"] and not open_runs

        await until(is_quiet)
        assert seen["child tidied"] == (1 if how == "child" else 0)
        others = {each.state for each in await app.runs()}
        assert others == {"cancelled"}


@pytest.mark.parametrize("how", ["wait", "step", "child", "routed", "map", "gather"])
async def test_a_forced_end_leaves_nothing_running(app: App, url: str, how: str) -> None:
    async with working(app, queues=["default", "elsewhere"]):
        run = await app.start(busy, how)
        await is_busy(run, how)

        assert await run.cancel(force=True) == "accepted"

        assert await run.state() == "cancelled"
        await ends(app, url, run, "cancelled", "forced")
        assert seen["tidied"] == 0

        async def is_quiet() -> bool:
            open_runs = [each for each in await app.runs() if each.finished_at is None]
            return seen["step stopped"] == seen["step"] and not open_runs

        await until(is_quiet)


async def test_the_answer_is_a_word_that_is_false_when_it_comes_too_late(app: App) -> None:
    async with working(app):
        run = await app.start(busy, "wait")
        await until_state(run, "waiting")

        first, second = await run.cancel(), await run.cancel()
        await until_state(run, "cancelled")
        late = await run.cancel()

        assert (str(first), bool(first)) == ("accepted", True)
        assert second in ("accepted", "too_late")
        assert (str(late), bool(late)) == ("too_late", False)
        assert await run.cancel(force=True) == "too_late"
        assert await app.cancel(run.uid) == "too_late"
        with pytest.raises(NotFound):
            await app.cancel("missing")


@pytest.mark.parametrize("delay", ["0s", "1h"])
@pytest.mark.parametrize("force", [False, True])
async def test_a_run_that_never_started_is_over_at_once(
    app: App, url: str, delay: str, force: bool
) -> None:
    async with app:
        run = await app.start(busy.options(delay=delay), "wait")

        assert await run.cancel(force=force)

        await ends(app, url, run, "cancelled", "forced" if force else "operator")
        assert await run.history() == []
        async with working(app):
            assert await app.run(after_all) == 1
        assert seen["tidied"] == 0


@workflow
async def after_all() -> int:
    return 1


async def test_a_cancel_that_comes_before_anyone_looks_is_found(app: App) -> None:
    async with app:
        run = await app.start(busy, "wait")
        async with working(app):
            await until_state(run, "waiting")
        await run.cancel()
        assert await run.state() == "ready"
        async with working(app):
            await until_state(run, "cancelled")
            assert seen["tidied"] == 1


# --- cleanup --------------------------------------------------------------------------------------


@workflow
async def slow_cleanup() -> None:
    try:
        await stop_it.wait()
    finally:
        await tidy("begun")
        await stop_it.wait()
        await tidy("ended")


async def test_a_cleanup_may_wait_and_is_not_cancelled_again(app: App, url: str) -> None:
    async with working(app):
        run = await app.start(slow_cleanup)
        await until_state(run, "waiting")
        await run.cancel()
        await has_seen("begun")
        await until_state(run, "waiting")

        assert await run.cancel() == "accepted"
        await run.signal(stop_it, "go on")

        await until_state(run, "cancelled")
        await ends(app, url, run, "cancelled", "operator")
        assert seen == {"begun": 1, "ended": 1}


async def has_seen(what: str) -> None:
    async def there() -> bool:
        return seen[what] > 0

    await until(there)


@lasting
async def test_a_cleanup_goes_on_in_another_process(app: App, url: str) -> None:
    async with working(app):
        run = await app.start(slow_cleanup.options(id="a"))
        await until_state(run, "waiting")
        await run.cancel()
        await has_seen("begun")
        await until_state(run, "waiting")
    later = App(url)
    async with working(later):
        await later.signal("a", stop_it, "go on")
        again = await later.get("a")
        await until_state(again, "cancelled")
        await ends(later, url, again, "cancelled", "operator")
        assert seen == {"begun": 1, "ended": 1}


async def test_a_cleanup_that_takes_too_long_is_ended(app: App, url: str) -> None:
    async with working(app):
        run = await app.start(slow_cleanup)
        await until_state(run, "waiting")

        await run.cancel(grace="500ms")

        await until_state(run, "cancelled")
        await ends(app, url, run, "cancelled", "operator")
        assert seen == {"begun": 1}


@workflow
async def hanging_cleanup() -> None:
    try:
        await stop_it.wait()
    finally:
        await long_step()


async def test_a_step_of_a_cleanup_that_takes_too_long_is_stopped(app: App, url: str) -> None:
    async with working(app):
        run = await app.start(hanging_cleanup)
        await until_state(run, "waiting")

        await run.cancel(grace="500ms")

        await until_state(run, "cancelled")
        await ends(app, url, run, "cancelled", "operator")
        await has_seen("step stopped")


async def test_a_cleanup_can_be_ended_by_force(app: App, url: str) -> None:
    async with working(app):
        run = await app.start(hanging_cleanup)
        await until_state(run, "waiting")
        await run.cancel()
        await has_seen("step")

        assert await run.cancel(force=True)

        await ends(app, url, run, "cancelled", "forced")
        await has_seen("step stopped")


@workflow
async def broken_cleanup() -> None:
    try:
        await stop_it.wait()
    finally:
        await tidy()
        raise LookupError("lost the broom")


async def test_an_error_in_a_cleanup_is_a_failure(app: App, url: str) -> None:
    async with working(app):
        run = await app.start(broken_cleanup)
        await until_state(run, "waiting")
        await run.cancel()

        with pytest.raises(RunFailed, match="lost the broom"):
            await run.result(timeout="60s")
        info = await run.info()
        assert (info.state, info.reason) == ("failed", "logic")
        assert "lost the broom" in (info.error or "")
        assert await run.cancel() == "too_late"
        if url != ":memory:":
            async with App(url) as later:
                with pytest.raises(RunFailed, match="lost the broom"):
                    await (await later.get(run.id)).result(timeout="60s")


@workflow
async def cancels_itself() -> None:
    await tidy()
    raise asyncio.CancelledError


async def test_a_body_that_cancels_itself_is_cancelled_for_no_reason(app: App, url: str) -> None:
    async with working(app):
        run = await app.start(cancels_itself)
        with pytest.raises(RunCancelled):
            await run.result(timeout="60s")
        await ends(app, url, run, "cancelled", None)


@workflow
async def parent_in_a_hurry() -> str:
    child = asyncio.ensure_future(long_child())
    await stop_it.wait()
    child.cancel()
    await asyncio.wait([child])
    return "went on"


async def test_a_child_that_is_no_longer_awaited_gets_the_reason(app: App, url: str) -> None:
    async with working(app):
        run = await app.start(parent_in_a_hurry)
        await has_seen("step")
        await app.signal(run.id, stop_it, "go on")
        assert await run.result(timeout="60s") == "went on"
        [info] = await app.runs(name="long_child")
        child = await app.get(info.id)
        await until_state(child, "cancelled")
        await ends(app, url, child, "cancelled", "parent")


@workflow
async def parent_who_asks() -> str:
    try:
        await long_child.options(id="the child")()
    except RunCancelled as told:
        return f"{told.state} {told.reason}"
    return "not reached"


@pytest.mark.parametrize("force", [False, True])
async def test_a_parent_gets_an_error_when_its_child_was_cancelled(app: App, force: bool) -> None:
    async with working(app):
        run = await app.start(parent_who_asks)
        await has_seen("step")
        await app.cancel("the child", force=force)

        reason = "forced" if force else "operator"
        assert await run.result(timeout="60s") == f"cancelled {reason}"


async def test_of_two_wishes_that_come_together_one_is_recorded(app: App, url: str) -> None:
    async with app:
        async with working(app):
            run = await app.start(busy, "wait")
            await until_state(run, "waiting")
        await app._store.send(to_overdue(run.uid))
        await run.cancel()
        async with working(app) as worker:  # it finds both at once
            while await run.state() != "timed_out":  # and much else happens meanwhile
                for execution in list(worker.running.values()):
                    execution.pump()
                await asyncio.sleep(0)
            await ends(app, url, run, "timed_out", "deadline")
            assert await steps_of(run) == ["cancel", "tidy"]
