"""A worker needs nothing but a `WorkerEngine`: here one that keeps everything in dicts."""

from __future__ import annotations

import pytest

import onward
from onward import step, workflow
from onward.core.instant import SECOND
from onward.runtime.registry import Registry
from tests.unit.runtime.fake_engine import EPOCH, FakeEngine, arguments, worked

HOUR = 3600 * SECOND

greeted: list[str] = []


@step
async def greet(name: str) -> str:
    greeted.append(name)
    return f"Hello, {name}!"


@workflow
async def welcome(name: str) -> str:
    text = await greet(name)
    await onward.sleep("1h")
    return text


REGISTRY = Registry([welcome.definition], [greet.definition])


@pytest.fixture(autouse=True)
def _nobody_greeted() -> None:
    greeted.clear()


async def test_a_worker_executes_a_step_and_a_sleep_by_a_fake_engine() -> None:
    engine = FakeEngine()
    engine.add("welcome", arguments(welcome, "Ada"))

    assert await worked(engine, REGISTRY) == "Hello, Ada!"
    assert greeted == ["Ada"]
    assert engine.clock.wall() - EPOCH == HOUR
    assert engine.calls == ["join", "claim", "claim", "flush", "leave", "disconnect"]


async def test_a_worker_replays_what_a_fake_engine_has_kept() -> None:
    engine = FakeEngine()
    engine.add("welcome", arguments(welcome, "Ada"))

    assert await worked(engine, REGISTRY, warm=0) == "Hello, Ada!"
    assert greeted == ["Ada"]
    assert engine.calls == ["join", "claim", "claim", "load", "flush", "leave", "disconnect"]
