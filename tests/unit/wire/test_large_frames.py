"""A remote worker and a server that exchange large frames."""

from __future__ import annotations

import asyncio

import pytest

from onward.core.run import RunState
from onward.errors import PayloadTooLarge, Unavailable
from onward.model.commits import Attachments, Commit, CommitOutcome
from onward.model.effects import EffectWrite
from onward.model.runs import Move
from onward.wire.commit_queue import FEW_COMMITS, MAX_COMMITS
from onward.wire.messages import messages
from onward.wire.rpc import MAX_COMMIT_BYTES
from tests.unit.wire.test_remote_worker import joined

pytestmark = pytest.mark.usefixtures("onward_clock")


async def test_requests_may_wait_behind_a_large_response_that_takes_long() -> None:
    async with joined() as world:
        load = asyncio.ensure_future(world.worker.load(["r1"], {}))
        request = await world.stream.sent("load")
        other = asyncio.ensure_future(world.worker.owned())
        behind = await world.stream.sent("owned")
        for _ in range(6):
            await asyncio.sleep(10)
            part = messages.LoadReply(runs=[messages.LoadedRun(run="r1")])
            world.stream.put(messages.Response(id=request.id, more=True, load=part))
        world.stream.answer(request, load=messages.LoadReply())
        world.stream.answer(behind, owned=messages.OwnedReply())
        assert list(await load) == ["r1"]
        assert not await other


async def test_a_commit_that_no_frame_can_hold_fails_without_being_sent() -> None:
    async with joined() as world:
        result = b"x" * (MAX_COMMIT_BYTES + 1)
        end = Move(RunState.SUCCEEDED, result=result)
        answers = world.submit(Commit("a", 1, move=end), Commit("b", 1))
        frame = await world.stream.sent("commits")
        [sent] = frame.commits.commits
        assert sent.run == "b"
        world.stream.answer(frame, commits=messages.CommitsReply(done=[sent.no]), at=2)
        await world.worker.flush()
        alone = world.submit(Commit("c", 1, move=end))
        await world.worker.flush()
        assert [type(each) for each in (*answers, *alone)] == [
            PayloadTooLarge,
            CommitOutcome,
            PayloadTooLarge,
        ]
        assert not world.stream.unread


async def test_commits_of_effects_go_into_frames_of_their_size() -> None:
    async with joined() as world:
        planned = [
            EffectWrite(f"e{number}", "r", "a#1", "send", "", b"x" * 900_000, "", "planned", 1)
            for number in range(3)
        ]
        world.submit(*(Commit("r", 1, attached=Attachments(effects=(each,))) for each in planned))
        for _ in range(2):
            frame = await world.stream.sent("commits")
            [sent] = frame.commits.commits
        world.stream.answer(frame, commits=messages.CommitsReply(done=[sent.no]), at=2)
        assert len((await world.stream.sent("commits")).commits.commits) == 1


async def test_a_request_that_no_server_takes_fails_alone() -> None:
    async with joined() as world:
        world.stream.max_bytes = 1000
        load = asyncio.ensure_future(world.worker.load(["r" * 2000], {}))
        owned = asyncio.ensure_future(world.worker.owned())
        [loaded] = (await load).values()
        assert isinstance(loaded.failure, PayloadTooLarge)
        assert "a 'load' request is 2,0" in str(loaded.failure)
        world.stream.answer(await world.stream.sent("owned"), owned=messages.OwnedReply())
        assert not await owned


async def test_a_commit_whose_frame_no_server_takes_fails_alone() -> None:
    async with joined() as world:
        world.stream.max_bytes = 1000
        end = Move(RunState.SUCCEEDED, result=b"x" * 2000)
        too_large = world.submit(Commit("a", 1, move=end))
        await world.worker.flush()
        [error] = too_large
        assert isinstance(error, PayloadTooLarge)
        answers = world.submit(Commit("b", 1))
        frame = await world.stream.sent("commits")
        [sent] = frame.commits.commits
        world.stream.answer(frame, commits=messages.CommitsReply(done=[sent.no]), at=2)
        await world.worker.flush()
        assert [type(each) for each in answers] == [CommitOutcome]


async def test_after_a_response_that_was_too_large_only_what_returns_payloads_fails() -> None:
    async with joined() as world:
        load = asyncio.ensure_future(world.worker.load(["r"], {}))
        await world.stream.sent("load")
        owned = asyncio.ensure_future(world.worker.owned())
        await world.stream.sent("owned")
        answers = world.submit(Commit("a", 1))
        await world.stream.sent("commits")
        world.stream.cut(PayloadTooLarge("a message to or from fake", 2000, 1000))
        [loaded] = (await load).values()
        assert isinstance(loaded.failure, PayloadTooLarge)
        with pytest.raises(Unavailable):
            await owned
        stream, _ = await world.network.greeted()
        frame = await stream.sent("commits")
        [sent] = frame.commits.commits
        stream.answer(frame, commits=messages.CommitsReply(done=[sent.no]), at=2)
        await world.worker.flush()
        assert [type(each) for each in answers] == [CommitOutcome]


async def test_while_many_commits_are_unanswered_the_second_frame_is_sent_when_it_is_full() -> None:
    async with joined() as world:
        world.submit(*(Commit(f"a{number}", 1) for number in range(FEW_COMMITS)))
        await world.stream.sent("commits")
        world.submit(*(Commit(f"b{number}", 1) for number in range(MAX_COMMITS - 1)))
        await asyncio.sleep(0.01)
        assert world.stream.unread == 0
        world.submit(Commit("last", 1))
        second = await world.stream.sent("commits")
        assert len(second.commits.commits) == MAX_COMMITS
