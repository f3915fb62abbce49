"""Runs that become due while a claim waits for them."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import grpc

from onward.cli.server import server_runner
from onward.core.instant import SECOND
from onward.server import hub
from onward.server.process import OnwardServer
from onward.wire.messages import messages
from tests.server.raw import RawClient, RawStream

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


async def park_and_claim(database: str, times: int) -> None:
    """Park a run for a moment, and claim it when it is due, so many times."""
    async with (
        OnwardServer(database, grpc="127.0.0.1:0") as server,
        grpc.aio.insecure_channel(server.address) as channel,
        RawStream(channel, "w1") as worker,
    ):
        await RawClient(channel).start("r1")
        await worker.join()
        [run] = await worker.claim(1)
        for number in range(times):
            due_in = SECOND // 50 + number * 137
            move = messages.Move(state="waiting", due_in=due_in, seq=1)
            await worker.commit(
                messages.Commit(no=number + 1, run=run.uid, fence=run.fence, move=move)
            )
            [run] = await worker.claim(1)


def test_no_due_run_is_missed_because_a_timer_fires_early(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The timers of uvloop fire up to a millisecond early."""
    monkeypatch.setattr(hub, "POLL_SECONDS", 3600)
    with server_runner() as runner:
        runner.run(asyncio.wait_for(park_and_claim(str(tmp_path / "onward.db"), 40), 60))
