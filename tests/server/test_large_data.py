"""Replies that are larger than what may wait to be sent: they come in parts, and all of them."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from onward.core.instant import SECOND
from onward.model.runs import NewRun
from onward.server.limits import StreamLimits
from onward.wire.messages import messages
from tests.server.raw import stepped, succeeded, uid_of

if TYPE_CHECKING:
    import pytest

    from tests.server.conftest import World, Worlds
    from tests.server.raw import RawStream

SMALL = StreamLimits(frame_bytes=1000, unsent_bytes=300)


async def all_parts(worker: RawStream, request: int) -> list[Any]:
    parts = [await worker.response(request)]
    while parts[-1].more:
        parts.append(await worker.response(request))
    return parts


async def test_a_history_beyond_what_may_wait_to_be_sent_is_loaded(sqlite: Worlds) -> None:
    async with sqlite.serve(limits=SMALL) as world, world.worker() as worker:
        await world.client.start("r1")
        [run] = await worker.claim()
        await worker.commit(*(stepped(no, run, f"a#{no}", no) for no in range(1, 101)))
        loads = [
            await worker.send(load=messages.LoadRequest(histories=[uid_of("r1")])) for _ in range(9)
        ]
        for load in loads:
            parts = await all_parts(worker, load)
            assert sum(len(part.load.runs[0].history) for part in parts) == 100
        assert not worker.is_over.is_set()


async def test_runs_beyond_what_may_wait_to_be_sent_are_claimed(sqlite: Worlds) -> None:
    async with sqlite.serve(limits=SMALL) as world, world.worker() as worker:
        for number in range(10):
            await world.client.start(f"r{number}")
        asked = await worker.send(claim=messages.ClaimRequest(limit=10, wait=SECOND))
        parts = await all_parts(worker, asked)
        assert len({run.uid for part in parts for run in part.claim.runs}) == 10


async def test_a_claim_takes_fewer_runs_if_they_are_large(
    sqlite: Worlds, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("onward.server.session.CLAIM_BYTES", 2000)
    async with sqlite.serve() as world, world.worker() as worker:
        for number in range(7):
            await world.client.start(f"r{number}")
        claimed = [len(await worker.claim()) for _ in range(3)]
        assert claimed == [3, 3, 1]  # a small run counts as about 500 bytes


async def test_a_claim_of_large_runs_after_small_ones_takes_few(
    sqlite: Worlds, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("onward.server.session.CLAIM_BYTES", 100_000)
    async with sqlite.serve() as world, world.worker() as worker:
        for number in range(100):
            await world.client.start(f"small{number}")
        assert len(await worker.claim(limit=100)) == 100
        for number in range(20):
            name = f"large{number}"
            run = NewRun(uid_of(name), name, "greet", b"json:" + b"1" * 30_000, "h")
            await world.client.call("start", run=run, on_conflict="return")
        sizes: list[int] = []
        while sum(sizes) < 20:
            sizes.append(len(await worker.claim(limit=100)))
        assert max(sizes) == 3


async def test_the_ends_of_runs_beyond_the_size_of_a_frame_come_in_several(sqlite: Worlds) -> None:
    limits = StreamLimits(reply_bytes=20_000, frame_bytes=3000, unsent_bytes=6000)
    async with sqlite.serve(limits=limits) as world, world.worker() as worker:
        await end_runs(world, worker, 30, b"json:" + b"1" * 1000)
        replies = await watch(world, [uid_of(f"r{number}") for number in range(30)], 30)
        assert len(replies) > 10
        assert all(reply.ByteSize() < 5000 for reply in replies)


async def test_a_client_that_waits_for_too_many_runs_gets_an_error_for_the_rest(
    sqlite: Worlds,
) -> None:
    async with (
        sqlite.serve(limits=StreamLimits(watched=2)) as world,
        world.worker() as worker,
    ):
        await end_runs(world, worker, 2, b"json:1")
        uids = [uid_of("r0"), "01a3185c-507b-7952-9942-5b1e60d67a7c", uid_of("r1")]
        replies = await watch(world, uids, 2)
        [failure] = [each for reply in replies for each in reply.failures]
        assert failure.run == uid_of("r1")
        assert (
            "is already waiting for 2 runs. Wait for fewer runs at once" in failure.problem.message
        )
        assert [end.uid for reply in replies for end in reply.ends] == [uid_of("r0")]


async def test_a_result_that_no_reply_can_hold_is_a_final_error(sqlite: Worlds) -> None:
    limits = StreamLimits(reply_bytes=5000)
    async with sqlite.serve(limits=limits) as world, world.worker() as worker:
        await world.client.start("r1")
        [run] = await worker.claim()
        await worker.commit(*(stepped(no, run, f"a#{no}", no) for no in range(1, 31)))
        problem = (await world.client.reply("history", {"run_id": "r1"})).problem
        assert (problem.code, problem.is_retryable) == ("bad_input", False)
        assert "the result of history is " in problem.message
        assert "a server sends at most 5,000 bytes in a reply. Ask for less" in problem.message


async def end_runs(world: World, worker: RawStream, count: int, result: bytes) -> None:
    for number in range(count):
        await world.client.start(f"r{number}")
    left = count
    while left:
        runs = await worker.claim(limit=5)
        left -= len(runs)
        for no, run in enumerate(runs):
            assert await worker.commit(succeeded(left * 100 + no, run, result))


async def watch(world: World, uids: list[str], count: int) -> list[Any]:
    """Return the replies of a server until it has answered for so many runs."""
    channel: Any = world.channel
    stream = channel.stream_stream("/onward.v1.Engine/Watch")()
    request = messages.WatchRequest(watch=[messages.Watched(run=uid) for uid in uids])
    await stream.write(request.SerializeToString())
    replies: list[Any] = []
    async with asyncio.timeout(10):
        while sum(len(reply.ends) + len(reply.failures) for reply in replies) < count:
            replies.append(messages.WatchReply.FromString(await stream.read()))
    await stream.done_writing()
    return replies
