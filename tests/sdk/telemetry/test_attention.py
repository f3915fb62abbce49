"""`on_attention` for real runs: when it is called, and that its failures harm no run."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING

import pytest

from onward import App, Signal, step, workflow
from onward.core.lease import LEASE
from onward.core.run import MAX_CRASHES
from onward.errors import RunFailed
from onward.model.claims import Wanted
from tests.kit.watching import until, until_state, working
from tests.unit.telemetry.builders import a_log

if TYPE_CHECKING:
    from collections.abc import Callable

    from onward import Run, Workflow
    from onward.telemetry import Attention

go = Signal("go", str)


class Bell:
    """Keeps what it is called with."""

    def __init__(self) -> None:
        self.told: list[Attention] = []

    async def __call__(self, run: Attention) -> None:
        self.told.append(run)

    async def has_rung(self) -> bool:
        return bool(self.told)

    @property
    def whys(self) -> list[str]:
        return [each.why for each in self.told]


@step
async def alike(text: str) -> str:
    return text


@workflow
async def at_ease() -> str:
    return await go.wait()


@workflow
async def breaks() -> str:
    return await alike.options(key="=" * 500)("a key that no database takes")


def pages(first: str) -> Workflow[[], str]:
    """Return a workflow that asks for other things, depending on how it is deployed."""

    @workflow(name="pages", strict=True)
    async def deployed() -> str:
        return await alike(first) + await go.wait()

    return deployed


async def diverge(app: App, run_id: str) -> Run[str]:
    """Let a run wait in one deployment, and wake up in another that does not fit."""
    async with app.worker(workflows=[pages("one")]):
        run = await app.start(pages("one").options(id=run_id))
        await until_state(run, "waiting")
    return run


async def test_a_run_that_does_not_fit_its_history_calls_for_a_human(url: str) -> None:
    bell = Bell()
    app = App(url, on_attention=bell)
    async with app:
        run = await diverge(app, "book-1")
        await run.signal(go, "on")
        async with app.worker(workflows=[pages("two")]):
            await until_state(run, "paused")
            await until(bell.has_rung)
        info = await run.info()

    [told] = bell.told
    assert (told.run_id, told.uid, told.workflow) == ("book-1", run.uid, "pages")
    assert told.why == info.reason == "divergence"
    assert "alike" in told.message
    assert info.created_at <= told.at


async def test_a_run_that_fails_for_an_error_of_ours_calls_for_a_human(url: str) -> None:
    bell = Bell()
    app = App(url, on_attention=bell)
    async with working(app, workflows=[breaks]):
        with pytest.raises(RunFailed):
            await app.run(breaks.options(id="broken"))
        await until(bell.has_rung)

    [told] = bell.told
    assert (told.run_id, told.why) == ("broken", "internal")
    assert "a write was refused" in told.message


async def test_a_run_with_which_workers_vanish_calls_for_a_human(url: str) -> None:
    bell = Bell()
    app = App(url, on_attention=bell)
    async with working(app, queues=["unserved"], workflows=[at_ease]):
        run = await app.start(at_ease.options(id="heavy"))
        for number in range(MAX_CRASHES):
            worker = f"crashed-{number}"
            await app._store.take_lease(worker, LEASE)
            claimed = await app._store.claim(Wanted(worker, ("default",), ("at_ease",), 1))
            assert [each.uid for each in claimed] == [run.uid]
            await app._store.drop_lease(worker)
        with a_log() as log:
            async with app.worker(workflows=[at_ease]):
                with pytest.raises(RunFailed):
                    await run.result(timeout="60s")
                await until(bell.has_rung)

    [told] = bell.told
    assert (told.run_id, told.why) == ("heavy", "crashed")
    assert told.message == f"{MAX_CRASHES} workers in a row crashed while executing the run"
    of_run = [each for each in log.events if str(each).startswith("run.")]
    assert of_run == ["run.claimed", "run.failed"]


async def test_a_pause_by_an_operator_and_an_ordinary_failure_do_not_call_on_attention(
    url: str,
) -> None:
    @workflow(name="disappoints")
    async def disappoints() -> None:
        raise LookupError("no such thing")

    bell = Bell()
    app = App(url, on_attention=bell)
    async with working(app, workflows=[at_ease, breaks, disappoints]):
        run = await app.start(at_ease)
        await app.pause(run.id)
        await until_state(run, "paused")
        with pytest.raises(RunFailed):
            await app.run(disappoints)
        with pytest.raises(RunFailed):
            await app.run(breaks)  # calls are made in order: this one shows that there was none
        await until(bell.has_rung)
        await app.resume(run.id)
        await run.signal(go, "on")
        assert await run.result(timeout="60s") == "on"

    assert bell.whys == ["internal"]


def _raises(kept: list[str]) -> Callable[[Attention], object]:
    def tell(run: Attention) -> None:
        kept.append(run.run_id)
        raise ZeroDivisionError

    return tell


def _raises_async(kept: list[str]) -> Callable[[Attention], object]:
    async def tell(run: Attention) -> None:
        kept.append(run.run_id)
        await asyncio.sleep(0)
        raise ZeroDivisionError

    return tell


def _is_cancelled(kept: list[str]) -> Callable[[Attention], object]:
    async def tell(run: Attention) -> None:
        kept.append(run.run_id)
        raise asyncio.CancelledError

    return tell


@pytest.mark.parametrize("failing", [_raises, _raises_async, _is_cancelled])
async def test_a_callback_that_fails_harms_no_run_and_is_called_again(
    url: str, failing: Callable[[list[str]], Callable[[Attention], object]]
) -> None:
    kept: list[str] = []
    app = App(url, on_attention=failing(kept))
    with a_log() as log:
        async with working(app, workflows=[breaks]):
            for run_id in ("one", "two"):
                with pytest.raises(RunFailed, match="a write was refused"):
                    await app.run(breaks.options(id=run_id))

    assert kept == ["one", "two"]
    failed = [vars(each)["run"] for each in log.records if each.name == "onward.attention"]
    assert failed == ["one", "two"]


async def test_a_slow_async_callback_holds_up_no_run(url: str) -> None:
    called, answer = asyncio.Event(), asyncio.Event()

    async def tell(run: Attention) -> None:
        called.set()
        await answer.wait()

    app = App(url, on_attention=tell)
    async with working(app, workflows=[breaks, at_ease]):
        await app.start(breaks)
        await asyncio.wait_for(called.wait(), 60)
        run = await app.start(at_ease)
        await run.signal(go, "on")
        assert await run.result(timeout="60s") == "on"
        answer.set()


async def test_a_slow_callback_that_is_not_async_holds_up_no_run(url: str) -> None:
    called, answer, threads = threading.Event(), threading.Event(), set[str]()

    def tell(run: Attention) -> None:
        threads.add(threading.current_thread().name)
        called.set()
        answer.wait(20)

    app = App(url, on_attention=tell)
    async with working(app, workflows=[breaks, at_ease]):
        await app.start(breaks)
        assert await asyncio.to_thread(called.wait, 10)
        run = await app.start(at_ease)
        await run.signal(go, "on")
        assert await run.result(timeout="60s") == "on"
        answer.set()

    assert threads == {"onward-attention"}


async def test_the_sync_app_calls_too(url: str) -> None:
    told: list[str] = []

    def work() -> None:
        app = App(url, on_attention=lambda run: told.append(run.why)).sync()
        with app, app.worker(workflows=[breaks]):
            app.start(breaks)
            with pytest.raises(RunFailed):
                app.run(breaks)

    await asyncio.to_thread(work)

    assert told == ["internal", "internal"]
