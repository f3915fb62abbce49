"""Handlers of pipelines whose runs a remote worker executes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from onward.core.effect.keys import consumer_origin
from onward.model.pipelines import NewEvent
from onward.wire.messages import messages

if TYPE_CHECKING:
    from tests.server.conftest import Worlds

HANDLER, TOPIC = "mail.add", "mail.received"
PIPELINE = messages.PipelineSpec(
    name="mail",
    queue="default",
    topics=[messages.TopicSpec(name=TOPIC)],
    handlers=[messages.HandlerSpec(name=HANDLER, kind="consumer", subscribes=[TOPIC], start="now")],
)


async def test_a_consumer_whose_event_is_gone_is_busy(either: Worlds) -> None:
    """As with an embedded worker: an operator may have deleted the event just now."""
    names, gone = [f"consumer {HANDLER}"], "0" * 32
    async with either.serve() as world, world.worker(names=names, pipelines=[PIPELINE]) as worker:
        event = NewEvent("", TOPIC, "m1", b"json:1")
        await world.client.call("pipelines.publish", events=[event])
        [run] = await worker.claim()
        write = messages.PipelineWrite(
            handler=HANDLER,
            prepared=messages.Preparation(
                reserve=[messages.Reservation(event=gone, attempt=1)],
                origin=consumer_origin(HANDLER, "", [(gone, 0)]),
            ),
        )
        commit = messages.Commit(no=1, run=run.uid, fence=run.fence, pipeline=write)

        assert await worker.commit(commit) == {1: "busy"}
