"""A worker on a stream: join, claim, commit, load, leave."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from onward.core.instant import SECOND
from onward.server.limits import StreamLimits
from onward.store import open_store
from onward.wire.messages import messages
from tests.server.raw import renew, stepped, succeeded, uid_of

if TYPE_CHECKING:
    from tests.server.conftest import Worlds

CHILD = "01a1ec46-9d11-7fdc-8959-4e91f7342679"


async def test_a_worker_claims_and_ends_a_run_that_a_client_started(either: Worlds) -> None:
    async with either.serve() as world, world.stream() as worker:
        welcome = await worker.join()
        assert welcome.hello.namespace == "default"
        assert welcome.at > 0
        await world.client.start("r1")
        [run] = await worker.claim()
        assert (run.uid, run.name) == (uid_of("r1"), "greet")
        assert await worker.commit(stepped(1, run), succeeded(2, run)) == {1: "done", 2: "done"}
        assert (await world.client.end_of(uid_of("r1"))).state == "succeeded"


async def test_a_waiting_claim_is_answered_when_a_run_is_started(either: Worlds) -> None:
    async with either.serve() as world, world.worker() as worker:
        asked = await worker.send(claim=messages.ClaimRequest(limit=1, wait=20 * SECOND))
        await worker.ask(owned=messages.OwnedRequest())  # it waits by now
        begun = asyncio.get_running_loop().time()
        await world.client.start("r1")
        response = await worker.response(asked)
        assert [run.uid for run in response.claim.runs] == [uid_of("r1")]
        assert asyncio.get_running_loop().time() - begun < 0.8  # the next poll is a second away


async def test_a_waiting_claim_is_answered_when_a_run_becomes_due(sqlite: Worlds) -> None:
    async with sqlite.serve() as world, world.worker() as worker:
        asked = await worker.send(claim=messages.ClaimRequest(limit=1, wait=20 * SECOND))
        begun = asyncio.get_running_loop().time()
        await world.client.start("r1", delay_in=300_000)
        await worker.response(asked)
        assert 0.3 <= asyncio.get_running_loop().time() - begun < 0.8


async def test_a_claim_that_has_waited_long_enough_is_answered_without_runs(
    sqlite: Worlds,
) -> None:
    async with sqlite.serve() as world, world.worker() as worker:
        assert await worker.claim(wait=1) == []


async def test_a_second_claim_is_refused_while_the_first_waits(sqlite: Worlds) -> None:
    async with sqlite.serve() as world, world.worker() as worker:
        await worker.send(claim=messages.ClaimRequest(limit=1, wait=20 * SECOND))
        response = await worker.ask(claim=messages.ClaimRequest(limit=1, wait=20 * SECOND))
        assert response.problem.code == "bad_input"


async def test_each_of_many_waiting_workers_gets_one_of_many_runs(either: Worlds) -> None:
    async with either.serve() as world, asyncio.TaskGroup() as group:
        workers = [world.stream(f"w{number}") for number in range(5)]
        for worker in workers:
            await worker.join()
        claims = [group.create_task(worker.claim(limit=1)) for worker in workers]
        for number in range(5):
            await world.client.start(f"r{number}")
        claimed = [run.uid for claim in claims for run in await claim]
        assert sorted(claimed) == sorted(uid_of(f"r{number}") for number in range(5))
        for worker in workers:
            await worker.__aexit__()


async def test_a_history_comes_with_the_time_up_to_which_steps_of_the_clock_are_in_it(
    either: Worlds,
) -> None:
    async with either.serve() as world, world.worker() as worker:
        await world.client.start("r1")
        [run] = await worker.claim()
        loaded = await worker.ask(load=messages.LoadRequest(histories=[uid_of("r1")]))
        assert run.claimed_at < loaded.at
        position = {uid_of("r1"): messages.InboxPosition(seen=0)}
        assert not (await worker.ask(load=messages.LoadRequest(inboxes=position))).at


async def test_a_history_beyond_the_size_of_a_frame_comes_in_parts(sqlite: Worlds) -> None:
    async with (
        sqlite.serve(limits=StreamLimits(frame_bytes=100)) as world,
        world.worker() as worker,
    ):
        await world.client.start("r1")
        [run] = await worker.claim()
        await worker.commit(*(stepped(no, run, f"a#{no}", no) for no in (1, 2, 3)))
        asked = await worker.send(load=messages.LoadRequest(histories=[uid_of("r1")]))
        parts = [await worker.response(asked)]
        while parts[-1].more:
            parts.append(await worker.response(asked))
        identities = [row.identity for part in parts for row in part.load.runs[0].history]
        assert identities == ["a#1", "a#2", "a#3"]
        assert len(parts) == 3


async def test_a_parent_is_told_how_its_child_ended(either: Worlds) -> None:
    async with either.serve() as world, world.worker() as worker:
        await world.client.start("parent")
        [parent] = await worker.claim()
        child = messages.NewRun(
            uid=CHILD, id="child", name="greet", input=b"json:[]", args_hash="h", kind="workflow",
            queue="default", parent=parent.uid, parent_identity="greet#1", root=parent.uid,
            attempt=1,
        )  # fmt: skip
        record = messages.NewRecord(
            identity="greet#1", attempt=1, kind="child", name="greet", state="open"
        )
        commit = messages.Commit(
            no=1, run=parent.uid, fence=parent.fence, records=[record], starts=[child]
        )
        assert await worker.commit(commit) == {1: "done"}
        [run] = await worker.claim()
        assert await worker.commit(succeeded(2, run, b"json:7")) == {2: "done"}
        await worker.hears_of(parent.uid)
        position = {parent.uid: messages.InboxPosition(seen=0)}
        loaded = await worker.ask(load=messages.LoadRequest(inboxes=position))
        [message] = loaded.load.runs[0].inbox
        assert (message.kind, message.name) == ("child", "greet#1")
        assert message.payload == b"succeeded\n\njson:7"


async def test_a_worker_that_leaves_gives_back_its_lease_and_its_runs(either: Worlds) -> None:
    async with either.serve() as world:
        async with world.worker("w1") as first:
            await world.client.start("r1")
            await first.claim()
            held = await first.send(claim=messages.ClaimRequest(limit=1, wait=20 * SECOND))
            left = await first.send(leave=messages.LeaveRequest(releases=True))
            assert not (await first.response(held)).claim.runs  # answered before the leave
            await first.response(left)
        async with world.worker("w2") as second:
            assert [run.uid for run in await second.claim()] == [uid_of("r1")]
    async with open_store(either.url) as store:
        assert [row.worker for row in await store.workers()] == ["w2"]


async def test_two_namespaces_on_one_server_do_not_see_each_other(sqlite: Worlds) -> None:
    async with sqlite.serve() as world, world.worker() as worker:
        world.client.metadata = (("onward-namespace", "other"),)
        await world.client.start("r1")
        assert await worker.claim(wait=1) == []


async def test_a_renewal_keeps_the_lease_and_one_of_a_stranger_does_not(either: Worlds) -> None:
    async with either.serve() as world, world.worker():
        assert (await renew(world.channel, "w1")).is_kept
        assert not (await renew(world.channel, "w2")).is_kept


async def test_a_worker_may_have_more_slots_than_a_claim_takes_runs(sqlite: Worlds) -> None:
    async with sqlite.serve() as world, world.worker() as worker:
        await world.client.start("r1")
        room = messages.Suspects(crashes=2, room=100_000)
        request = messages.ClaimRequest(limit=100_000, suspects=[room])
        [run] = (await worker.ask(claim=request)).claim.runs
        assert run.uid == uid_of("r1")
