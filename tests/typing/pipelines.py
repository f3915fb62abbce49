"""What type checkers see of pipelines: topics have types, and so have consumers."""

from typing import Any, assert_type

import onward
from onward import App
from onward.handles import SyncApp
from onward.pipelines import (
    Applied,
    Consumer,
    Event,
    EventInfo,
    Input,
    InputInfo,
    InputReport,
    MutateContext,
    NextContext,
    Nothing,
    Outcome,
    Pipeline,
    PipelineInfo,
    PrepareContext,
    Prepared,
    ProducerContext,
    Skipped,
    Topic,
)


class Mail:
    sender: str = ""


mail = Pipeline("mail", parallel=True, queue="slow")
received = mail.topic("mail.received", Mail, max_pending=1000, max_age="1h")
counted = mail.topic("mail.counted", int)
anything = mail.topic("mail.anything")
assert_type(received, Topic[Mail])
assert_type(anything, Topic[Any])


@mail.producer(every="5m", publishes=[received])
async def poll(ctx: ProducerContext, cursor: str | None) -> str | None:
    source = ctx.input(source="gmail", type="email", id="1", title="Mail from Ada")
    assert_type(source, Input)
    ctx.publish(received, Mail(), id="1", input=source)

    ctx.publish(received, "text", id="1")  # type: ignore[misc]  # the topic has mails
    ctx.publish(received, Mail())  # type: ignore[call-arg]  # an event has an id
    return cursor


@mail.consumer(subscribes=[received], publishes=[counted], start="earliest")
class AddRow(Consumer[int, Mail]):
    async def prepare(self, ctx: PrepareContext, state: int | None) -> Prepared[Mail]:
        events = await ctx.peek(received, limit=10)
        assert_type(events, list[Event[Mail]])
        return (
            Prepared(reserve=events, data=events[0].payload, wake_at="1h") if events else Prepared()
        )

    async def mutate(self, ctx: MutateContext, prepared: Prepared[Mail]) -> None:
        assert_type(prepared.data, Mail)

    async def next(self, ctx: NextContext, prepared: Prepared[Mail], outcome: Outcome) -> int:
        assert_type(outcome, Applied[Any] | Nothing | Skipped)
        ctx.publish(counted, 7, id="7")
        return 7


class WrongState(Consumer[int, Mail]):
    async def prepare(self, ctx: PrepareContext, state: int) -> Prepared[Mail]:  # type: ignore[override]  # it is None at first
        return Prepared()

    async def next(  # type: ignore[override]  # the state is a number
        self, ctx: NextContext, prepared: Prepared[Mail], outcome: Outcome
    ) -> str:
        return ""


async def unit_test(ctx: ProducerContext, prepare: PrepareContext) -> None:
    assert_type(await poll(ctx, None), str | None)
    assert_type(await AddRow().prepare(prepare, None), Prepared[Mail])

    await poll(None, "7")  # type: ignore[arg-type]  # that is no context
    mail.producer(every="5m", publishes=[received])(len)  # type: ignore[type-var]  # it is not async
    mail.consumer(subscribes=[received], start=1)  # type: ignore[arg-type]  # one of two words


async def operate(app: App) -> None:
    assert_type(await app.publish(received, Mail(), id="1", key="ada"), bool)
    assert_type(await app.publish("mail.received", {"sender": "Ada"}, id="1"), bool)
    assert_type(await app.publish_many(counted, range(10), id=str, key=lambda n: str(n % 2)), int)
    assert_type(await app.pipelines.list(), list[PipelineInfo])
    assert_type(await app.pipelines.trigger("mail", "poll"), list[str])
    await app.pipelines.pause()
    assert_type(await app.topics.counts(received), dict[str, dict[str, int]])
    assert_type(await app.topics.peek("mail.received", ids=["1"]), list[EventInfo])
    assert_type(await app.topics.replay(received, ["1"], consumer="mail.AddRow"), int)
    assert_type(await app.inputs.list(state="pending"), list[InputInfo])
    assert_type(await app.inputs.get("7"), InputReport)

    await app.publish(received, 7, id="1")  # type: ignore[misc]  # the topic has mails
    await app.publish(received, Mail())  # type: ignore[call-arg]  # an event has an id
    await app.topics.skip(received, ["1"])  # type: ignore[call-arg]  # a reason is needed


def operate_without_a_loop(app: SyncApp) -> None:
    assert_type(app.publish("mail.received", None, id="1"), bool)
    assert_type(app.pipelines.get("mail"), PipelineInfo)
    assert_type(app.topics.counts("mail.received"), dict[str, dict[str, int]])
    assert_type(app.inputs.list(), list[InputInfo])


@onward.workflow
async def buy(order: int) -> None:
    await onward.publish(counted, order, id=str(order))

    await onward.publish(counted, "7", id="7")  # type: ignore[misc]  # the topic has numbers
