"""What a worker held of a run is freed as it leaves, without the garbage collector."""

from __future__ import annotations

import asyncio
import gc
import logging
import weakref
from typing import TYPE_CHECKING, Any

import pytest

import onward
from onward import App, Retry, Signal, effect, step, workflow
from onward.errors import RunFailed
from onward.runtime.context import body_now
from tests.kit.ledgers import effect_of
from tests.kit.watching import until, until_state, working

if TYPE_CHECKING:
    from collections.abc import Iterator

go = Signal("go", int)
held: list[weakref.ref[Any]] = []


@pytest.fixture(autouse=True)
def _no_collector() -> Iterator[None]:
    held.clear()
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def hold() -> None:
    """Watch the body of this run and its execution."""
    body = body_now.get()
    assert body is not None
    held.extend((weakref.ref(body), weakref.ref(body._owner._execution)))  # type: ignore[attr-defined]  # the sink of a real run


async def everything_is_free() -> bool:
    return bool(held) and all(kept() is None for kept in held)


@step
async def double(n: int) -> int:
    return 2 * n


@workflow
async def child(n: int) -> int:
    hold()
    return n


@workflow
async def does_everything() -> int:
    hold()
    async with asyncio.timeout(60), asyncio.TaskGroup() as group:
        group.create_task(double(1))
        group.create_task(asyncio.sleep(0.001))
    await child(3)
    return await go.wait() + await double(2)


@step(retry=Retry(attempts=1))
async def no() -> None:
    raise ValueError("no")


@workflow
async def fails() -> None:
    hold()
    await no()


@workflow
async def waits() -> None:
    hold()
    await onward.sleep(3600)


async def test_a_run_that_succeeded_is_freed(app: App) -> None:
    async with working(app):
        run = await app.start(does_everything)
        await run.signal(go, 1)
        assert await run.result() == 5
        await until(everything_is_free)


async def test_a_run_that_failed_is_freed(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    # The handlers of pytest keep records, and so errors with their frames.
    monkeypatch.setattr(logging.getLogger("onward"), "propagate", False)
    async with working(app):
        with pytest.raises(RunFailed):
            await app.run(fails)
        await until(everything_is_free)


async def test_a_run_that_was_cancelled_is_freed(app: App) -> None:
    async with working(app):
        run = await app.start(waits)
        await until_state(run, "waiting")
        await run.cancel()
        await until_state(run, "cancelled")
        await until(everything_is_free)


async def test_a_run_that_waits_is_freed_if_it_is_not_kept_warm(app: App) -> None:
    async with working(app, warm=0):
        run = await app.start(waits)
        await until_state(run, "waiting")
        await until(everything_is_free)


async def test_a_worker_that_has_left_is_freed_while_its_app_stays_open(app: App) -> None:
    async with app:
        async with app.worker() as worker:
            left = weakref.ref(worker)
            assert await app.run(child, 3) == 3
        del worker
        gc.collect()
        assert left() is None


@effect(approve=True)
async def approved() -> int:
    return 1


@effect
async def sent() -> int:
    return 2


@workflow
async def has_effects() -> int:
    hold()
    return await sent() + await approved()


async def test_a_run_with_effects_is_freed_when_it_pauses_and_when_it_ends(app: App) -> None:
    async with working(app):
        run = await app.start(has_effects)
        await until_state(run, "paused")
        await until(everything_is_free)
        held.clear()
        planned = await effect_of(app, run, "planned")
        await app.effects.approve(planned.id, reason="fine")
        assert await run.result(timeout="60s") == 3
        await until(everything_is_free)
