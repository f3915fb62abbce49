"""Replies that are larger than what may wait to be sent: they come in parts, and all of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from onward.core.instant import SECOND
from onward.server.limits import StreamLimits
from onward.wire.messages import messages
from tests.server.raw import stepped

if TYPE_CHECKING:
    import pytest

    from tests.server.conftest import Worlds
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
        loads = [await worker.send(load=messages.LoadRequest(histories=["r1"])) for _ in range(9)]
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
    monkeypatch.setattr("onward.server.session.ASSUMED_RUN_BYTES", 1000)
    async with sqlite.serve() as world, world.worker() as worker:
        for number in range(7):
            await world.client.start(f"r{number}")
        claimed = [len(await worker.claim()) for _ in range(3)]
        assert claimed == [2, 3, 2]  # a small run counts as about 500 bytes
