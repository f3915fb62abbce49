"""What the end of a process says of the workers whose leases it has written to a SQLite file."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING

from onward.core.lease import LEASE
from onward.store import Wanted, open_store
from onward.testing.clock import VirtualClock
from tests.conformance.suite.samples import NAME, QUEUE, a_run

if TYPE_CHECKING:
    from pathlib import Path


def wanted(worker: str) -> Wanted:
    return Wanted(worker, (QUEUE,), (NAME,), limit=10)


async def test_only_workers_of_a_process_that_ended_are_dead_at_once(tmp_path: Path) -> None:
    clock, path = VirtualClock(), str(tmp_path / "onward.db")
    async with open_store(path, clock=clock) as store:
        for worker in ("remote", "local"):
            await store.take_lease(worker, is_remote=worker == "remote")
            await store.start(a_run(f"of {worker}"))
            assert len(await store.claim(wanted(worker))) == 1
    async with open_store(path, clock=clock) as store:
        await store.take_lease("fresh")

        [adopted] = [*await store.claim(wanted("fresh")), *await store.claim(wanted("fresh"))]

        assert adopted.taken_from == "local"
        assert await store.renew_lease("local") is None
        assert await store.renew_lease("remote") is not None
        clock.advance(LEASE // 2)
        assert (await store.run("uid-of remote")).state == "running"


async def test_a_remote_lease_leaves_no_file_behind(tmp_path: Path) -> None:
    async with open_store(str(tmp_path / "onward.db")) as store:
        await store.take_lease("remote", is_remote=True)
        names = await asyncio.to_thread(os.listdir, f"{tmp_path}/onward.db-onward")
        assert [name for name in names if name.startswith("worker-")] == []
        await store.drop_lease("remote")
        assert await store.renew_lease("remote") is None
