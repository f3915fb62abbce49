"""One phase of one handler at a time, without a store."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass
from datetime import timedelta

import pytest

import onward
from onward import effect
from onward.errors import BadInput, BadPipeline, NotInBody, Unencodable
from onward.pipelines import (
    Applied,
    Consumer,
    Input,
    MutateContext,
    NextContext,
    Nothing,
    Outcome,
    Pipeline,
    PrepareContext,
    Prepared,
    ProducerContext,
    Skipped,
)
from onward.testing.pipelines import (
    EffectToSend,
    PublishedEvent,
    go_on,
    mutate,
    prepare,
    produce,
)


@dataclass(frozen=True)
class Mail:
    sender: str
    subject: str


box = Pipeline("testing-kit")
received = box.topic("testing-kit.received", Mail)
answered = box.topic("testing-kit.answered", str)


@effect
async def send_answer(to: str, text: str = "Thanks!") -> str:
    raise AssertionError("the kit performs no effect")


@box.producer(every="5m", publishes=[received])
async def poll(ctx: ProducerContext, cursor: int | None) -> int | None:
    if cursor == 2:
        return None
    source = ctx.input(source="box", type="mail", id="1", title="Engines")
    ctx.publish(received, Mail("Ada", "Engines"), id="mail-1", key="ada", input=source)
    ctx.publish(received, Mail("Grace", "Compilers"), id="mail-2")
    return (cursor or 0) + 2


@box.consumer(subscribes=[received], publishes=[answered], max_wake="2h")
class Answer(Consumer[int, Mail]):
    def __init__(self, greeting: str = "Dear") -> None:
        self.greeting = greeting
        self.answered = 0

    async def prepare(self, ctx: PrepareContext, state: int | None) -> Prepared[Mail]:
        events = await ctx.peek(received, limit=1)
        if not events or ctx.now - events[0].published_at < timedelta(minutes=5):
            return Prepared(wake_at="1d")
        mail = events[0].payload
        return Prepared(reserve=events, data=mail, title=f"{state}: {self.greeting} {mail.sender}")

    async def mutate(self, ctx: MutateContext, prepared: Prepared[Mail]) -> None:
        self.answered += 1
        assert self.answered == 1
        if prepared.data.subject != "Spam":
            await send_answer(f"{self.greeting} {prepared.data.sender}")
        if prepared.data.subject == "Two":
            raise AssertionError("nothing runs after the effect")

    async def next(
        self, ctx: NextContext, prepared: Prepared[Mail], outcome: Outcome
    ) -> int | None:
        if not isinstance(outcome, Applied):
            return None
        ctx.publish(answered, f"{outcome.result} of {ctx.key!r}", id=prepared.reserve[0].id)
        return 7


ADA = Mail("Ada", "Engines")


async def test_a_producer_returns_events_inputs_and_state() -> None:
    output = await produce(poll, 5)
    source = Input("box", "mail", "1", "Engines")
    assert output.events == [
        PublishedEvent("testing-kit.received", "mail-1", ADA, "ada", source),
        PublishedEvent("testing-kit.received", "mail-2", Mail("Grace", "Compilers")),
    ]
    assert (output.inputs, output.state) == ([source], 7)


async def test_a_producer_that_returns_none_leaves_its_state() -> None:
    assert await produce(poll, 2) == ([], [], None)


async def test_a_preparation_is_what_later_phases_get() -> None:
    prepared = await prepare(Answer, {received: [ADA, ADA]}, 3, age="1h")
    assert (prepared.data, prepared.title) == (ADA, "3: Dear Ada")
    [event] = prepared.reserve
    assert (event.id, event.topic) == ("1", "testing-kit.received")
    with pytest.raises(BadInput, match="only in prepare"):
        event.payload  # noqa: B018 - it raises


async def test_events_may_have_ids() -> None:
    prepared = await prepare(Answer, {received: {"mail-7": ADA}}, age="1h")
    assert [event.id for event in prepared.reserve] == ["mail-7"]


async def test_a_wake_time_is_within_the_limits_of_the_consumer() -> None:
    prepared = await prepare(Answer, {received: [ADA]})
    assert (prepared.reserve, prepared.wake_at) == ([], timedelta(hours=2))


async def test_mutate_returns_the_effect_and_does_not_perform_it() -> None:
    prepared = await prepare(Answer, {received: [ADA]}, age="1h")
    chosen = await mutate(Answer, prepared)
    assert chosen == EffectToSend("send_answer", {"to": "Dear Ada"})
    assert await mutate(Answer, prepared) == chosen, "each call builds an instance"


async def test_mutate_may_choose_nothing() -> None:
    prepared = await prepare(Answer, {received: [Mail("Bot", "Spam")]}, age="1h")
    assert await mutate(Answer, prepared) is None


async def test_mutate_does_not_run_without_events() -> None:
    assert await mutate(Answer, await prepare(Answer, {})) is None


async def test_an_instance_can_be_given() -> None:
    hello = Answer("Hello")
    prepared = await prepare(hello, {received: [ADA]}, age="1h")
    assert await mutate(hello, prepared) == ("send_answer", {"to": "Hello Ada"})


async def test_next_returns_events_and_state() -> None:
    prepared = await prepare(Answer, {received: [ADA]}, key="a", age="1h")
    output = await go_on(Answer, prepared, Applied("receipt"), key="a")
    event = PublishedEvent("testing-kit.answered", "1", "receipt of 'a'")
    assert output == ([event], [], 7)


@pytest.mark.parametrize("outcome", [Skipped(), Nothing()])
async def test_next_gets_the_outcome_that_is_given(outcome: Outcome) -> None:
    prepared = await prepare(Answer, {received: [ADA]}, age="1h")
    assert await go_on(Answer, prepared, outcome) == ([], [], None)


# --- what a worker refuses, the kit refuses too ---------------------------------------------------


async def wait() -> None:
    await asyncio.sleep(1)


async def remember() -> None:
    await onward.sleep("1s")


async def send_twice() -> None:
    for name in ("Ada", "Grace"):
        with contextlib.suppress(BaseException):
            await send_answer(name)


def doing(phase: str, work: object) -> type:
    """Return a consumer of which one phase does something."""
    pipeline = Pipeline("testing-kit-wrong")
    words = pipeline.topic("testing-kit-wrong.words", str)

    async def do(now: str) -> None:
        if phase == now:
            await work()  # type: ignore[operator]

    @pipeline.consumer(subscribes=[words])
    class Handle(Consumer[None, None]):
        topic = words

        async def prepare(self, ctx: PrepareContext, state: None) -> Prepared[None]:
            await do("prepare")
            return Prepared(reserve=await ctx.peek(words))

        async def mutate(self, ctx: MutateContext, prepared: Prepared[None]) -> None:
            await do("mutate")

    return Handle


@pytest.mark.parametrize("work", [wait, remember, send_twice])
async def test_mutate_may_only_choose_one_effect(work: object) -> None:
    handle = doing("mutate", work)
    prepared = await prepare(handle, {handle.topic: ["a"]})  # type: ignore[attr-defined]
    with pytest.raises(BadInput, match="awaited"):
        await mutate(handle, prepared)


async def test_prepare_may_not_change_the_outside_world() -> None:
    handle = doing("prepare", lambda: send_answer("Ada"))
    with pytest.raises(NotInBody, match="send_answer"):
        await prepare(handle, {})


async def test_events_and_states_are_checked_against_their_types() -> None:
    with pytest.raises(BadInput, match="subscribes"):
        await prepare(Answer, {answered: ["a"]})
    with pytest.raises(Unencodable, match="annotation is Mail"):
        await prepare(Answer, {received: ["no mail"]})


async def test_what_is_no_handler_is_refused() -> None:
    with pytest.raises(BadInput, match="not a handler"):
        await produce(test_what_is_no_handler_is_refused)
    with pytest.raises(BadInput, match="not a producer"):
        await produce(Answer)
    with pytest.raises(BadInput, match="not a consumer"):
        await prepare(poll, {})


async def test_a_wrong_declaration_is_refused_as_by_a_worker() -> None:
    pipeline = Pipeline("testing-kit-undeclared")

    @pipeline.consumer(subscribes=[])
    class Handle(Consumer[None, None]):
        async def prepare(self, ctx: PrepareContext, state: None) -> Prepared[None]:
            return Prepared()

    with pytest.raises(BadPipeline, match="subscribes to no topic"):
        await prepare(Handle, {})
