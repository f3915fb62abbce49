"""Workers that come back: after a broken stream, through another server, after a restart."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from onward.wire.messages import messages
from tests.server.raw import succeeded, uid_of

if TYPE_CHECKING:
    from tests.server.conftest import Worlds


async def test_a_worker_continues_its_runs_after_the_server_was_restarted(
    either: Worlds,
) -> None:
    async with either.serve() as world, world.worker() as worker:
        await world.client.start("r1")
        [run] = await worker.claim()
    async with either.serve() as world, world.stream() as worker:
        welcome = await worker.join(is_reconnect=True, held={run.uid: run.fence})
        assert list(welcome.hello.lost) == []
        assert (await worker.push("news")).everything
        assert await worker.commit(succeeded(1, run)) == {1: "done"}


async def test_a_worker_continues_through_the_other_of_two_servers(postgres: Worlds) -> None:
    async with postgres.serve() as first, postgres.serve() as second:
        async with first.worker() as worker:
            await second.client.start("r1")
            [run] = await worker.claim()
        async with second.stream() as worker:
            await worker.join(is_reconnect=True, held={run.uid: run.fence})
            assert await worker.commit(succeeded(1, run)) == {1: "done"}
        assert (await first.client.end_of(uid_of("r1"))).state == "succeeded"


async def test_a_reconnect_without_the_lease_is_refused(either: Worlds) -> None:
    async with either.serve() as world, world.stream() as worker:
        response = await worker.join(is_reconnect=True)
        assert response.problem.code == "lease_lost"
        await worker.is_over.wait()


async def test_a_reconnect_names_the_runs_that_are_lost(sqlite: Worlds) -> None:
    async with sqlite.serve() as world:
        async with world.worker() as worker:
            await world.client.start("r1")
            [run] = await worker.claim()
        async with world.stream() as worker:
            held = {run.uid: run.fence, "r2": 1}
            welcome = await worker.join(is_reconnect=True, held=held)
            assert list(welcome.hello.lost) == ["r2"]


async def test_a_reconnect_releases_runs_whose_claim_was_not_answered(sqlite: Worlds) -> None:
    async with sqlite.serve() as world:
        async with world.worker() as worker:
            await world.client.start("r1")
            [lost] = await worker.claim()
        async with world.stream() as worker:
            await worker.join(is_reconnect=True)
            [run] = await worker.claim()
            assert run.uid == lost.uid
            assert run.fence > lost.fence


async def test_a_second_stream_of_a_worker_ends_the_first(sqlite: Worlds) -> None:
    async with sqlite.serve() as world, world.worker() as first, world.stream() as second:
        await second.join(is_reconnect=True)
        assert "another stream" in (await first.push("goodbye")).why
        await first.is_over.wait()
        assert not second.is_over.is_set()


async def test_a_commit_is_recognised_when_it_is_sent_again(either: Worlds) -> None:
    async with either.serve() as world:
        async with world.worker() as worker:
            await world.client.start("r1")
            [run] = await worker.claim()
            await worker.commit(succeeded(1, run))
        async with world.stream() as worker:
            welcome = await worker.join(is_reconnect=True, held={run.uid: run.fence})
            assert list(welcome.hello.lost) == [uid_of("r1")]
            assert await worker.commit(succeeded(1, run)) == {1: "done"}


async def test_a_stopping_server_says_goodbye_and_gives_the_claim_back(sqlite: Worlds) -> None:
    async with asyncio.timeout(8), sqlite.serve() as world, world.worker() as worker:
        held = await worker.send(claim=messages.ClaimRequest(limit=1, wait=20_000_000))
        await worker.ask(owned=messages.OwnedRequest())  # it waits by now
        await world.server.stop()
        assert (await worker.push("goodbye")).why == "the server is stopping"
        assert not (await worker.response(held)).claim.runs
        await worker.is_over.wait()


async def test_a_worker_of_another_server_takes_what_is_left_by_a_dead_one(
    postgres: Worlds,
) -> None:
    async with postgres.serve() as first, postgres.serve() as second:
        async with first.worker("w1") as worker:
            await first.client.start("r1")
            assert len(await worker.claim()) == 1
            await worker.ask(leave=messages.LeaveRequest(releases=False))
        async with second.worker("w2") as worker:
            [run] = await worker.claim()
            assert run.taken_from == "w1"


async def test_a_worker_that_names_a_run_of_another_takes_no_news_from_it(sqlite: Worlds) -> None:
    async with sqlite.serve() as world:
        async with world.worker("w1") as first:
            await world.client.start("r1")
            [before] = await first.claim()
            parked = messages.Move(state="waiting", seen=0)
            commit = messages.Commit(no=1, run=before.uid, fence=before.fence, move=parked)
            assert await first.commit(commit) == {1: "done"}  # and if the answer was lost:
        async with world.worker("w2") as second, world.stream("w1") as first:
            await world.client.signal("r1")
            await second.claim()
            await world.client.signal("r1")
            assert list((await second.push("news")).runs) == [before.uid]
            welcome = await first.join(is_reconnect=True, held={before.uid: before.fence})
            assert list(welcome.hello.lost) == [before.uid]
            await second.ask(owned=messages.OwnedRequest())  # after it, all news has arrived
            while not second.pushed["news"].empty():
                await second.push("news")
            await world.client.signal("r1")
            assert list((await second.push("news")).runs) == [before.uid]
