"""A pipeline whose database is away for less and more than a lease: each event is handled once."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

import pytest

from onward import App, Consumer, Pipeline, Prepared, effect
from onward.errors import Unavailable
from onward.runtime.worker.options import Options
from onward.sdk.pipelines.process import serve
from onward.store import open_store
from onward.store.invariants import check
from tests.e2e.engine.hands import working
from tests.postgres.hand import hand, until
from tests.postgres.test_outages import BACK_SECONDS, CLAIMS, LEASE_SECONDS, OPTIONS, down

if TYPE_CHECKING:
    from onward.pipelines import MutateContext, NextContext, Outcome, PrepareContext
    from onward.testing.postgres import PostgresServer

KEYS, EVENTS, WORKERS = 4, 40, 2

post = Pipeline("post", parallel=True)
letters = post.topic("post.letters", str)
rows = post.topic("post.rows", str)
written: list[str] = []


@effect
async def write(letter: str) -> None:
    written.append(letter)
    await asyncio.sleep(0.05)


@post.consumer(subscribes=[letters], publishes=[rows])
class Book(Consumer[None, str]):
    """Writes one letter after another of each key, and publishes that it has."""

    async def prepare(self, ctx: PrepareContext, state: None) -> Prepared[str]:
        events = await ctx.peek(letters, limit=1)
        return Prepared(reserve=events, data=events[0].id if events else "")

    async def mutate(self, ctx: MutateContext, prepared: Prepared[str]) -> None:
        await write(prepared.data)

    async def next(self, ctx: NextContext, prepared: Prepared[str], outcome: Outcome) -> None:
        for event in prepared.reserve:
            ctx.publish(rows, "written", id=event.id, key=event.key)


@post.consumer(subscribes=[rows])
class Count(Consumer[int, int]):
    """Counts the rows of each key."""

    async def prepare(self, ctx: PrepareContext, state: int | None) -> Prepared[int]:
        events = await ctx.peek(rows, limit=10)
        return Prepared(reserve=events, data=(state or 0) + len(events))

    async def next(self, ctx: NextContext, prepared: Prepared[int], outcome: Outcome) -> int:
        return prepared.data


async def until_written(count: int) -> None:
    async def is_written() -> bool:
        return len(written) >= count

    await until(is_written)


@pytest.mark.parametrize("leases", [0.6, 1.5])
async def test_an_outage_loses_no_event_and_repeats_no_effect(
    own_server: PostgresServer, own_url: str, leases: float
) -> None:
    written.clear()
    served = serve([post])
    options = Options(lease=OPTIONS.lease, slots=20, pipelines=served.specs)
    async with App(own_url) as app, AsyncExitStack() as stack:
        workers = [
            await stack.enter_async_context(working(own_url, options, served.handlers))
            for _ in range(WORKERS)
        ]
        ids = [worker.id for worker in workers]
        numbers = map(str, range(EVENTS))
        await app.publish_many(letters, numbers, id=str, key=lambda n: str(int(n) % KEYS))
        await until_written(EVENTS // 4)
        async with down(own_server):
            with pytest.raises(Unavailable):
                await app.publish(letters, "too soon", id="too soon")
            await asyncio.sleep(leases * LEASE_SECONDS)
            before = len(written)
        async with asyncio.timeout(BACK_SECONDS):
            await until_written(before + 1)

        async def is_counted() -> bool:
            counts = await app.topics.counts(rows)
            return counts["post.Count"]["consumed"] == EVENTS

        await until(is_counted)
        assert [worker.id for worker in workers] == ids, "a worker was replaced"
        async with hand(own_url) as eyes:
            assert {row[2] for row in await eyes.run(CLAIMS)} == {0}, "a crash was counted"
    assert sorted(written, key=int) == [str(n) for n in range(EVENTS)]
    async with open_store(own_url) as store:
        assert await check(store) == []
