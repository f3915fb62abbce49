"""What a worker is told without asking."""

from __future__ import annotations

from typing import TYPE_CHECKING

from onward.core.instant import SECOND
from onward.store.hints import ANYTHING
from onward.testing.faults import armed
from onward.wire.messages import messages
from tests.server.raw import renew, succeeded, uid_of

if TYPE_CHECKING:
    from tests.server.conftest import Worlds


async def test_a_signal_to_a_run_is_news_to_its_worker_alone(either: Worlds) -> None:
    async with either.serve() as world, world.worker("w1") as owner, world.worker("w2") as other:
        await world.client.start("r1")
        assert len(await owner.claim()) == 1
        await world.client.signal("r1")
        await owner.hears_of(uid_of("r1"))
        while not other.pushed["news"].empty():
            assert not (await other.push("news")).runs


async def test_runs_may_have_changed_while_a_claim_was_made_if_anything_may_have(
    sqlite: Worlds,
) -> None:
    """As after another process has written to the file."""
    async with sqlite.serve() as world, world.worker() as worker:
        for number in range(3):
            await world.client.start(f"r{number}")
        database = (await world.server.hub("default")).store.database
        with armed("claim.before", lambda: database.publish({ANYTHING})):
            reply = await worker.ask(claim=messages.ClaimRequest(limit=6, wait=SECOND))
        assert len(reply.claim.runs) == 3
        assert set(reply.claim.changed) == {run.uid for run in reply.claim.runs}


async def test_the_end_of_its_own_run_is_no_news_to_a_worker(sqlite: Worlds) -> None:
    async with sqlite.serve() as world, world.worker() as worker:
        await world.client.start("r1")
        [run] = await worker.claim()
        await worker.commit(succeeded(1, run))
        await worker.ask(owned=messages.OwnedRequest())
        assert worker.pushed["news"].empty()


async def test_a_drained_worker_is_told_on_its_stream_and_by_its_renewal(either: Worlds) -> None:
    async with either.serve() as world, world.worker() as worker:
        assert await world.client.call("drain_worker", worker="w1")
        assert (await worker.push("news")).drain
        assert (await renew(world.channel, "w1")).is_draining


async def test_a_worker_that_drains_is_given_no_more_runs(sqlite: Worlds) -> None:
    async with sqlite.serve() as world, world.worker() as worker:
        await worker.ask(report_draining=messages.ReportDrainingRequest())
        await world.client.start("r1")
        assert await worker.claim() == []
