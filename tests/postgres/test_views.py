"""Namespaces that share the connections of one store."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any

from onward.store import open_store
from onward.store.hints import queue_subject
from tests.postgres.builders import a_run
from tests.postgres.hand import hand

if TYPE_CHECKING:
    from onward.store import Store

LONG = 20.0  # seconds: only a failing test waits that long
NAMESPACES = 100
MAX_CONNECTIONS = 24
QUEUE, LAST = queue_subject("default"), queue_subject("last")


async def listening(store: Store) -> None:
    database: Any = store.database
    await database._channel.ready.wait()


async def use(store: Store) -> None:
    """Do everything that takes a connection of its own kind."""
    await asyncio.gather(
        store.take_lease("w"),
        store.start(a_run("a")),
        store.start(a_run("b")),
        store.counts(),
        store.maintenance_due(),
        listening(store),
    )
    await store.renew_lease("w")


async def test_a_hundred_namespaces_share_few_connections(postgres_url: str) -> None:
    async with AsyncExitStack() as opened, hand(postgres_url) as operator:
        store = await opened.enter_async_context(open_store(postgres_url))
        views = [
            await opened.enter_async_context(store.view(f"n{number}"))
            for number in range(NAMESPACES)
        ]
        await asyncio.gather(*map(use, views))

        connections = await operator.value(
            "SELECT count(*) FROM pg_stat_activity"
            " WHERE datname = current_database() AND application_name = 'onward'"
        )
        assert 5 < connections <= MAX_CONNECTIONS
        assert len(await views[-1].list_runs()) == 2


async def test_views_hear_other_processes_in_their_own_namespace(postgres_url: str) -> None:
    async with (
        open_store(postgres_url) as store,
        store.view("one") as one,
        store.view("two") as two,
        open_store(postgres_url, namespace="one") as other,
    ):
        for each in (one, two, other):
            await listening(each)
        with one.subscribe([QUEUE, LAST]) as first, two.subscribe([QUEUE, LAST]) as second:
            await other.start(a_run("a"))
            assert await first.wait(LONG) == {QUEUE}
            two.database.publish({LAST})
            assert await second.wait(LONG) == {LAST}


async def test_the_channel_of_a_closed_view_is_listened_to_no_more(postgres_url: str) -> None:
    async with open_store(postgres_url) as store, open_store(postgres_url) as other:
        async with store.view("one") as one, store.view("one") as again:
            await listening(one)
            await listening(again)
        database: Any = store.database
        assert len(database._connections.listener._channels) == 1
        async with store.view("one") as once_more:
            await listening(once_more)
        await listening(store)
        with store.subscribe([QUEUE]) as subscription:
            await other.start(a_run("a"))
            assert await subscription.wait(LONG) == {QUEUE}
