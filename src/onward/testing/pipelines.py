"""Single phases of handlers, run without a store or a worker.

    prepared = await prepare(AddRow, {received: [Mail("Ada", "Engines")]})
    chosen = await mutate(AddRow, prepared)
    output = await go_on(AddRow, prepared, Applied(None))

The phases run on the contexts and checks of a worker. What they write is returned instead of
committed, and the effect that `mutate` chooses is not performed.
"""

from __future__ import annotations

import inspect
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

from onward.codec import decode
from onward.core.instant import duration
from onward.engine.payloads import unpack
from onward.errors import BadInput
from onward.runtime.pipelines.phases import (
    next_call,
    prepare_call,
    produce_call,
    stored_preparation,
)
from onward.runtime.pipelines.values import Input
from onward.sdk.pipelines.handlers import DeclaredConsumer, DeclaredProducer
from onward.sdk.pipelines.process import handler_of
from onward.testing.clock import EPOCH
from onward.testing.phase_runner import GivenReads, run_mutate, run_phase

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from onward.core.instant import DurationLike
    from onward.model.pipelines import PipelineWrite
    from onward.runtime.pipelines.definition import ConsumerDefinition, HandlerDefinition
    from onward.runtime.pipelines.phases import StoredPreparation
    from onward.runtime.pipelines.values import Outcome, Prepared, Topic


class PublishedEvent(NamedTuple):
    """An event that a phase publishes.

    Attributes:
        topic: The name of its topic.
        id: Its id.
        payload: Its payload, as a consumer would get it.
        key: Its key, or "".
        input: The input that the producer passed for it, or None.
    """

    topic: str
    id: str
    payload: Any
    key: str = ""
    input: Input | None = None


class HandlerOutput(NamedTuple):
    """What a producer or `next` writes in its commit.

    Attributes:
        events: The events that it publishes, in order.
        inputs: The inputs that a producer registers.
        state: The new state; None if the state stays as it is.
    """

    events: list[PublishedEvent]
    inputs: list[Input]
    state: Any


class EffectToSend(NamedTuple):
    """The effect that `mutate` chooses.

    Attributes:
        name: The name of the effect.
        arguments: The arguments of the call, by parameter name.
    """

    name: str
    arguments: dict[str, Any]


# --- the phases -----------------------------------------------------------------------------------


async def produce(producer: Callable[..., Any], state: Any = None) -> HandlerOutput:
    """Run a producer once, and return what it would commit.

    Args:
        producer: The function that `@pipeline.producer` decorates.
        state: The state that its last run returned; None in the first run.

    Raises:
        BadInput: `producer` is not a producer, or publishes something that it is not allowed to
            publish.

    Example:
        >>> import asyncio
        >>> from onward.pipelines import Pipeline, ProducerContext
        >>> from onward.testing.pipelines import produce
        >>> def count_up() -> list[int]:
        ...     pipeline = Pipeline("counting")
        ...     numbers = pipeline.topic("number", int)
        ...
        ...     @pipeline.producer(every="1m", publishes=[numbers])
        ...     async def count(ctx: ProducerContext, last: int | None) -> int:
        ...         ctx.publish(numbers, (last or 0) + 1, id="n")
        ...         return (last or 0) + 1
        ...
        ...     output = asyncio.run(produce(count, 6))
        ...     return [output.events[0].payload, output.state]
        >>> count_up()
        [7, 7]
    """
    declared = handler_of(producer)
    if not isinstance(declared, DeclaredProducer):
        advice = "To test a consumer, call prepare(...), mutate(...) and go_on(...)."
        raise BadInput(declared.what, "is not a producer", advice)
    definition = declared.definition
    reads = GivenReads(definition, state)
    answer = await run_phase(definition, "", produce_call(definition, "", reads))
    return _output(definition, answer.write)


async def prepare(
    consumer: Any,
    events: Mapping[Topic[Any], Sequence[Any] | Mapping[str, Any]],
    state: Any = None,
    *,
    key: str = "",
    age: DurationLike = 0,
) -> Prepared[Any]:
    """Run the `prepare` phase of a consumer; return the preparation for `mutate` and `next`.

    Args:
        consumer: The class that `@pipeline.consumer` decorates, or an instance of it. A class is
            instantiated for each call.
        events: The pending events: for each topic, the payloads, or the payloads by id. Without
            ids, the events get the ids "1", "2" and so on.
        state: The state of the consumer; None in the first run.
        key: The key of the events, for parallel pipelines.
        age: How long ago the events were published. `ctx.now` is the start of 2026.

    Returns:
        What the consumer's `prepare` returned. Its `data` has been encoded and decoded, as on a
        worker. Its events have no payloads. Its `wake_at` is a duration from now, within the limits
        of the consumer, or None.

    Raises:
        BadInput: `consumer` is not a consumer, reads a topic that it does not subscribe to, or does
            not return a `Prepared`.

    Example:
        >>> import asyncio
        >>> from onward.pipelines import Consumer, Pipeline, Prepared, PrepareContext
        >>> from onward.testing.pipelines import prepare
        >>> def add_up() -> int:
        ...     pipeline = Pipeline("adding")
        ...     numbers = pipeline.topic("number", int)
        ...
        ...     @pipeline.consumer(subscribes=[numbers])
        ...     class Add(Consumer[None, int]):
        ...         async def prepare(self, ctx: PrepareContext, state: None) -> Prepared[int]:
        ...             events = await ctx.peek(numbers, limit=2)
        ...             return Prepared(reserve=events, data=sum(each.payload for each in events))
        ...
        ...     return asyncio.run(prepare(Add, {numbers: [3, 4, 5]})).data
        >>> add_up()
        7
    """
    definition = _consumer(consumer)
    reads = GivenReads(definition, state)
    for topic, payloads in events.items():
        reads.add(definition, topic, payloads, key, EPOCH - duration(age))
    call = prepare_call(definition, key, reads)
    answer = await run_phase(definition, key, call)
    stored: StoredPreparation = call.definition.shape.decode_result(answer.payload)
    wakes = None if stored.wakes is None else timedelta(microseconds=stored.wakes)
    return replace(stored.prepared(definition.data), wake_at=wakes)


async def mutate(consumer: Any, prepared: Prepared[Any], *, key: str = "") -> EffectToSend | None:
    """Run the `mutate` phase of a consumer; return the effect that it chooses, without sending it.

    Args:
        consumer: The class of the consumer, or an instance of it.
        prepared: The preparation that `prepare` in this module returned.
        key: The key of the events, for parallel pipelines.

    Returns:
        The effect; None if the consumer chooses none, or if `prepared` reserves no events.

    Raises:
        BadInput: `mutate` awaits a second effect, or something that is not an effect.
    """
    definition = _consumer(consumer)
    call = await run_mutate(definition, key, _stored(definition, prepared))
    if call is None:
        return None
    args, kwargs = call.arguments()
    bound = inspect.signature(call.definition.fn).bind(*args, **kwargs)
    return EffectToSend(call.name, dict(bound.arguments))


async def go_on(
    consumer: Any, prepared: Prepared[Any], outcome: Outcome, *, key: str = ""
) -> HandlerOutput:
    """Run the `next` phase of a consumer, and return what it would commit.

    Args:
        consumer: The class of the consumer, or an instance of it.
        prepared: The preparation that `prepare` in this module returned.
        outcome: The outcome of the effect: `Applied(result)`, `Nothing()` or `Skipped()`.
        key: The key of the events, for parallel pipelines.

    Raises:
        BadInput: `next` publishes to a topic that the consumer does not declare.
    """
    definition = _consumer(consumer)
    stored = _stored(definition, prepared)
    call = next_call(definition, key, GivenReads(definition, None), stored, outcome)
    return _output(definition, (await run_phase(definition, key, call)).write)


# --- definitions and results ----------------------------------------------------------------------


def _consumer(consumer: Any) -> ConsumerDefinition:
    declared = handler_of(consumer)
    if not isinstance(declared, DeclaredConsumer):
        advice = "To test a producer, call produce(...)."
        raise BadInput(declared.what, "is not a consumer", advice)
    return declared.define(declared.build() if isinstance(consumer, type) else consumer)


def _stored(definition: ConsumerDefinition, prepared: Prepared[Any]) -> StoredPreparation:
    return stored_preparation(definition, prepared, GivenReads(definition, None).row)


def _output(definition: HandlerDefinition, write: PipelineWrite) -> HandlerOutput:
    topics = {topic.name: topic for topic in definition.publishes}
    inputs = {
        each.uid: Input(each.source, each.type, each.external, each.title) for each in write.inputs
    }
    events = [
        PublishedEvent(
            event.topic,
            event.message,
            topics[event.topic].decode(event.payload),
            event.key,
            None if event.input is None else inputs[event.input],
        )
        for event in write.published
    ]
    state = None if write.completed is None else write.completed.state
    decoded = None if state is None else decode(unpack(state), definition.state)
    return HandlerOutput(events, list(inputs.values()), decoded)
