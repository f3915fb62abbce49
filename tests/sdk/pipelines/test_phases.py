"""What each phase of a handler may do: the whole table of phases and operations."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import pytest

import onward
from onward import App, effect, step, workflow
from onward.pipelines import (
    Consumer,
    MutateContext,
    NextContext,
    Pipeline,
    PrepareContext,
    Prepared,
    ProducerContext,
    Topic,
)
from tests.kit.watching import until, working
from tests.sdk.pipelines.post import numbers, runs_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from onward import RunInfo
    from onward.pipelines import Outcome

PHASES = ("producer", "prepare", "mutate", "next")
other: Topic[str] = Topic("phases.other", str)


@step
async def look(name: str) -> str:
    return name.upper()


@effect
async def change(name: str) -> str:
    return name


@workflow
async def child(name: str) -> str:
    return name


CALLS: dict[str, Callable[[], Awaitable[Any]]] = {
    "step": lambda: look("a"),
    "effect": lambda: change("a"),
    "child": lambda: child("a"),
    "start": lambda: onward.start(child, "a"),
    "sleep": lambda: onward.sleep("1ms"),
    "signal": lambda: onward.wait_signal("go", str),
    "publish": lambda: onward.publish(other, "a", id="1"),
}
ALLOWED = {("producer", "step"), ("prepare", "step"), ("mutate", "effect"), ("next", "step")}
"""In a phase that may read the outside world, a step is a plain call."""

OPERATIONS: dict[str, set[type]] = {
    "peek": {PrepareContext},
    "get": {PrepareContext},
    "publish": {NextContext, ProducerContext},
    "input": {ProducerContext},
}


def a_pipeline(phase: str, call: Callable[[], Awaitable[Any]]) -> tuple[Pipeline, Topic[str]]:
    """Return a pipeline of which one phase makes a call."""
    pipeline = Pipeline(f"phases-{next(numbers)}")
    words = pipeline.topic(f"{pipeline.name}.words", str)

    async def in_phase(now: str) -> None:
        if phase == now:
            await call()

    @pipeline.producer(every="1h", publishes=[words])
    async def produce(ctx: ProducerContext, state: None) -> None:
        await in_phase("producer")
        ctx.publish(words, "hello", id="1")

    @pipeline.consumer(subscribes=[words])
    class Handle(Consumer[None, None]):
        async def prepare(self, ctx: PrepareContext, state: None) -> Prepared[None]:
            await in_phase("prepare")
            return Prepared(reserve=await ctx.peek(words))

        async def mutate(self, ctx: MutateContext, prepared: Prepared[None]) -> None:
            await in_phase("mutate")

        async def next(self, ctx: NextContext, prepared: Prepared[None], outcome: Outcome) -> None:
            await in_phase("next")

    return pipeline, words


async def _end_of(app: App, pipeline: Pipeline, phase: str) -> RunInfo:
    """Return the run in which a phase ran, once that has ended."""
    kind, name = ("producer", "produce") if phase == "producer" else ("consumer", "Handle")
    found: list[RunInfo] = []

    async def is_over() -> bool:
        found[:] = await runs_of(app, f"{pipeline.name}.{name}", kind)
        return bool(found) and found[0].state in ("succeeded", "failed")

    await until(is_over)
    return found[0]


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("phase", PHASES)
async def test_a_phase_makes_only_the_calls_that_it_may(memory: App, phase: str, name: str) -> None:
    pipeline, _ = a_pipeline(phase, CALLS[name])
    async with working(memory, pipelines=[pipeline], workflows=[child]):
        await memory.pipelines.trigger(pipeline.name)
        run = await _end_of(memory, pipeline, phase)
        started = [each for each in await memory.runs(name="child") if each.parent is not None]
    if (phase, name) in ALLOWED:
        assert run.state == "succeeded"
    else:
        assert (run.state, run.reason) == ("failed", "logic")
    assert started == []


@pytest.mark.parametrize("name", OPERATIONS)
@pytest.mark.parametrize("context", [PrepareContext, MutateContext, NextContext, ProducerContext])
def test_a_context_has_the_operations_of_its_phase(context: type, name: str) -> None:
    assert hasattr(context, name) == (context in OPERATIONS[name])


async def test_a_second_effect_in_mutate_is_refused_even_if_the_code_catches_everything(
    memory: App,
) -> None:
    async def both() -> None:
        for word in ("a", "b"):
            with contextlib.suppress(BaseException):
                await change(word)

    pipeline, _ = a_pipeline("mutate", both)
    async with working(memory, pipelines=[pipeline]):
        await memory.pipelines.trigger(pipeline.name)
        run = await _end_of(memory, pipeline, "mutate")
        sent = await memory.effects.all()
    assert (run.state, run.reason, sent) == ("failed", "logic", [])
    assert "second effect" in str(run.error)


async def test_code_that_swallows_the_choice_does_not_change_it(memory: App) -> None:
    seen: list[str] = []

    async def swallow() -> None:
        try:
            await change("a")
        except BaseException:  # noqa: BLE001
            seen.append("went on")

    pipeline, _ = a_pipeline("mutate", swallow)
    async with working(memory, pipelines=[pipeline]):
        await memory.pipelines.trigger(pipeline.name)
        run = await _end_of(memory, pipeline, "mutate")
        [sent] = await memory.effects.all()
    assert (run.state, sent.state, seen) == ("succeeded", "applied", ["went on"])


async def test_the_payload_of_an_event_is_not_available_after_prepare(memory: App) -> None:
    pipeline = Pipeline(f"phases-{next(numbers)}")
    words = pipeline.topic(f"{pipeline.name}.words", str)

    @pipeline.consumer(subscribes=[words])
    class Handle(Consumer[None, None]):
        async def prepare(self, ctx: PrepareContext, state: None) -> Prepared[None]:
            return Prepared(reserve=await ctx.peek(words))

        async def next(self, ctx: NextContext, prepared: Prepared[None], outcome: Outcome) -> None:
            print(prepared.reserve[0].payload)

    async with working(memory, pipelines=[pipeline]):
        await memory.publish(words, "a", id="1")
        run = await _end_of(memory, pipeline, "prepare")
    assert (run.state, run.reason) == ("failed", "logic")
    assert "only in prepare" in str(run.error)
