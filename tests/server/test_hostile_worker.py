"""A hostile worker with a valid key for its own queue changes nothing of others."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

import grpc

from onward.store import open_store
from onward.store.invariants import check
from tests.server.hostile.attack import HostileWorker
from tests.server.hostile.ground import (
    Ground,
    contents,
    create_keys,
    foreign_violations,
    foreign_writes,
)

if TYPE_CHECKING:
    from tests.server.conftest import Worlds


async def test_a_hostile_worker_writes_nothing_beyond_its_runs(either: Worlds) -> None:
    """A small run of `python -m tools.hostile_worker`."""
    keys = await create_keys(either.url)
    async with either.serve() as world:
        ground = Ground(world.channel, keys)
        pool = await ground.prepare(attacks=40)
        before = await contents(either.url)
        async with grpc.aio.insecure_channel(world.server.address) as channel:
            hostile = HostileWorker(channel, keys.hostile, pool, Random(14), max_bytes=300_000)
            tally = await hostile.attack(1_000)
        after = await contents(either.url)
        await ground.close()
    assert foreign_writes(before, after, keys.hostile_id) == []
    assert tally.broken == []
    assert tally.answers["done"] > 0, str(tally)
    for namespace in ("default", "bank"):
        async with open_store(either.url, namespace=namespace) as store:
            assert foreign_violations(await check(store), after) == []
