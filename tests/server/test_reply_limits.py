"""Replies that are too large for one frame: lists come in parts, and a single row is refused."""

from __future__ import annotations

import sqlite3
import tracemalloc
from base64 import b64encode
from contextlib import closing
from typing import TYPE_CHECKING, Any

import grpc

from onward.core.instant import SECOND
from onward.model.pipelines import NewEvent
from onward.model.runs import NewRun
from onward.server.limits import StreamLimits
from onward.wire.messages import messages
from onward.wire.rpc import MAX_REPLY_BYTES
from tests.kit.watching import until
from tests.server.raw import RawStream, stepped, uid_of
from tests.server.test_large_data import all_parts
from tests.server.test_pipelines import HANDLER, PIPELINE, TOPIC

if TYPE_CHECKING:
    from tests.server.conftest import World, Worlds

MIB = 1024 * 1024
PARTS = StreamLimits(frame_bytes=1000)
SMALL_REPLIES = StreamLimits(frame_bytes=1000, reply_bytes=5000)
TOO_LARGE = b"json:" + b"1" * 6000


async def send_signals(world: World, run: str, sizes: list[int]) -> None:
    for size in sizes:
        payload = {"tag": "json", "data": b64encode(b"1" * size).decode()}
        await world.client.call("signal", run=uid_of(run), name="go", payload=payload)


async def claim_all(worker: RawStream) -> list[Any]:
    asked = await worker.send(claim=messages.ClaimRequest(limit=10, wait=SECOND))
    return [run for part in await all_parts(worker, asked) for run in part.claim.runs]


def ask_messages(run: Any, seqs: list[int]) -> Any:
    return messages.MessagesRequest(run=run.uid, seqs=seqs)


# --- lists in parts -------------------------------------------------------------------------------


async def test_messages_come_in_parts_and_each_of_them_once(either: Worlds) -> None:
    async with either.serve(limits=PARTS) as world, world.worker() as worker:
        await world.client.start("r1")
        await send_signals(world, "r1", [600] * 5)
        [run] = await worker.claim()
        asked = await worker.send(messages=ask_messages(run, [5, 1, 1, 2, 2, 3, 4, 99, 5, 1]))
        parts = await all_parts(worker, asked)
        assert [len(part.messages.messages) for part in parts] == [1, 1, 1, 1, 1]
        found = [row for part in parts for row in part.messages.messages]
        assert [row.seq for row in found] == [5, 1, 2, 3, 4]
        assert all(len(row.payload) > 600 for row in found)


async def test_an_empty_list_is_one_reply(sqlite: Worlds) -> None:
    async with sqlite.serve() as world, world.worker() as worker:
        await world.client.start("r1")
        [run] = await worker.claim()
        [part] = await all_parts(worker, await worker.send(messages=ask_messages(run, [7])))
        assert not part.messages.messages


async def test_peeked_events_come_in_parts(either: Worlds) -> None:
    names = [f"consumer {HANDLER}"]
    async with (
        either.serve(limits=PARTS) as world,
        world.worker(names=names, pipelines=[PIPELINE]) as worker,
    ):
        sent = [
            NewEvent(uid_of(f"m{no}"), TOPIC, f"m{no}", b"json:" + b"1" * 600) for no in range(5)
        ]
        await world.client.call("pipelines.publish", events=sent)
        given = {"handler": HANDLER, "key": "", "topic": TOPIC}
        peek = await worker.send(peek=messages.PeekRequest(**given, limit=100))
        request = messages.PeekIdsRequest(**given, ids=["m1", "m3"])
        peek_ids = await worker.send(peek_ids=request)
        parts = [part.peek.events for part in await all_parts(worker, peek)]
        assert [[event.message for event in part] for part in parts] == [
            [f"m{no}"] for no in range(5)
        ]
        parts = [part.peek_ids.events for part in await all_parts(worker, peek_ids)]
        assert [[event.message for event in part] for part in parts] == [["m1"], ["m3"]]


async def test_messages_are_read_only_as_fast_as_the_worker_takes_them(sqlite: Worlds) -> None:
    limits = StreamLimits(frame_bytes=MIB, unsent_bytes=4 * MIB)
    async with sqlite.serve(limits=limits) as world:
        async with world.worker() as worker:
            await world.client.start("r1")
            await send_signals(world, "r1", [MIB] * 40)
            [run] = await worker.claim()
        channel: Any = world.channel
        stream = channel.stream_stream("/onward.v1.Workers/Work")()
        hello = messages.Hello(
            protocol=1,
            registration=worker.registration,
            is_reconnect=True,
            held={run.uid: run.fence},
        )
        await stream.write(messages.Request(id=1, hello=hello).SerializeToString())
        assert messages.Response.FromString(await stream.read()).HasField("hello")
        session = (await world.server.hub("default")).sessions["w1"]
        tracemalloc.start()
        try:
            request = messages.Request(id=2, messages=ask_messages(run, list(range(1, 41))))
            await stream.write(request.SerializeToString())
            await until(lambda: session.outbox.unsent > 1)  # the worker does not read
            assert tracemalloc.get_traced_memory()[1] < 25 * MIB
        finally:
            tracemalloc.stop()
        stream.cancel()


# --- rows that no frame can hold ------------------------------------------------------------------


async def test_rows_beyond_the_size_of_a_request_are_sent(sqlite: Worlds) -> None:
    """Such as the result of a chunk that an embedded worker has written."""
    options = (("grpc.max_receive_message_length", MAX_REPLY_BYTES),)
    async with (
        sqlite.serve() as world,
        grpc.aio.insecure_channel(world.server.address, options=options) as channel,
        RawStream(channel, "w1") as worker,
    ):
        await worker.join()
        await world.client.start("r1")
        [run] = await worker.claim()
        await worker.commit(stepped(1, run))
        with closing(sqlite3.connect(sqlite.url)) as file, file:
            file.execute("UPDATE onward_record SET payload = ?", (b"x" * 20 * MIB,))
        request = messages.LoadRequest(histories=[run.uid])
        parts = await all_parts(worker, await worker.send(load=request))
        [row] = [row for part in parts for each in part.load.runs for row in each.history]
        assert len(row.payload) == 20 * MIB


async def test_a_message_that_no_frame_can_hold_fails_its_request(sqlite: Worlds) -> None:
    async with sqlite.serve(limits=SMALL_REPLIES) as world, world.worker() as worker:
        await world.client.start("r1")
        await send_signals(world, "r1", [6000, 10])
        [run] = await worker.claim()
        problem = (await worker.ask(messages=ask_messages(run, [1]))).problem
        assert (problem.code, problem.is_retryable) == ("payload_too_large", False)
        assert "the response to 'messages' is 6,1" in problem.message
        assert "the limit is 5,000" in problem.message
        small = await worker.ask(messages=ask_messages(run, [2]))
        assert [row.seq for row in small.messages.messages] == [2]


async def test_a_row_that_no_frame_can_hold_fails_the_load_of_its_run_alone(
    sqlite: Worlds,
) -> None:
    async with sqlite.serve(limits=SMALL_REPLIES) as world, world.worker() as worker:
        for name in ("r1", "r2"):
            await world.client.start(name)
        for run in await claim_all(worker):
            step = stepped(1, run)
            if run.uid == uid_of("r1"):
                step.records[0].payload = TOO_LARGE
            assert await worker.commit(step) == {1: "done"}
        request = messages.LoadRequest(histories=[uid_of("r1"), uid_of("r2")])
        parts = await all_parts(worker, await worker.send(load=request))
        runs = [each for part in parts for each in part.load.runs]
        failed = [each for each in runs if each.HasField("failure")]
        assert [(each.run, each.failure.code) for each in failed] == [
            (uid_of("r1"), "payload_too_large")
        ]
        assert [each.run for each in runs if each.history] == [uid_of("r2")]


async def test_a_claimed_run_that_no_frame_can_hold_ends_and_the_others_arrive(
    either: Worlds,
) -> None:
    async with either.serve(limits=SMALL_REPLIES) as world, world.worker() as worker:
        await world.client.start("r0")
        row = NewRun(uid_of("big"), "big", "greet", TOO_LARGE, "h")
        await world.client.call("start", run=row, on_conflict="return")
        await world.client.start("r1")
        assert {run.id for run in await claim_all(worker)} == {"r0", "r1"}
        store = (await world.server.hub("default")).store

        async def is_over() -> bool:
            return (await store.run(uid_of("big"))).state == "failed"

        await until(is_over)
        end = await store.end(uid_of("big"))
        assert end.reason == "internal"
        assert b"the limit is 5,000" in (end.error or b"")
        assert not worker.is_over.is_set()
