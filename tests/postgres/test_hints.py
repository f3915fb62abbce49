"""Hints between processes by LISTEN and NOTIFY."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from onward.store import open_store
from onward.store.hints import queue_subject

if TYPE_CHECKING:
    from onward.store import Store

LONG = 20.0  # seconds: only a failing test waits that long
FIRST, SECOND = queue_subject("first"), queue_subject("second")


async def listening(store: Store) -> None:
    database: Any = store.database
    await database._channel.ready.wait()


async def test_the_server_does_not_bring_a_process_its_own_hints_again(postgres_url: str) -> None:
    async with open_store(postgres_url) as store, open_store(postgres_url) as other:
        await listening(store)
        await listening(other)
        with store.subscribe([FIRST, SECOND]) as here, other.subscribe([FIRST]) as there:
            store.database.publish({FIRST})
            assert await here.wait(LONG) == {FIRST}
            assert await there.wait(LONG) == {FIRST}
            other.database.publish({SECOND})  # comes after the first, if that comes again
            assert await here.wait(LONG) == {SECOND}
