"""Whoever waits for the store may be cancelled at any moment, and nothing is the worse for it."""

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from onward.store import Store, open_store
from onward.store.invariants import check
from tests.postgres.builders import WORKER, a_run
from tests.postgres.contents import contents, undisturbed
from tests.postgres.hand import hand, until
from tests.postgres.writes import WRITES, prepare

READS: dict[str, Callable[[Store], Awaitable[Any]]] = {
    "run": lambda store: store.run("r"),
    "newest": lambda store: store.newest("id of r"),
    "end": lambda store: store.end("r"),
    "counts": lambda store: store.counts(),
    "now": lambda store: store.now(),
    "history": lambda store: store.history(["r", "parent"]),
    "look": lambda store: store.look(["r"]),
    "owned": lambda store: store.owned(WORKER),
    "next due": lambda store: store.next_due(),
    "view": check,
}
CALLS = READS | {name: write.call for name, write in WRITES.items()}

OURS = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'onward'"
DIRTY = f"{OURS} AND state LIKE 'idle in transaction%'"


@pytest.fixture(params=["postgres", "sqlite"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    if request.param == "sqlite":
        yield str(tmp_path / "onward.db")
    else:
        yield request.getfixturevalue("postgres_url")


async def turns(count: int) -> None:
    """Let the event loop go round."""
    for _ in range(count):
        await asyncio.sleep(0)


async def cancelled_at_every_turn(call: Callable[[], Awaitable[Any]]) -> int:
    """Call again and again, cancelled a little later each time, until one call gets through.

    The first turns are taken one by one; later ones only pass while the database works.
    """
    for tries in itertools.count():
        task = asyncio.ensure_future(call())
        await turns(tries if tries < 12 else int(1.3**tries))
        if task.done():
            task.result()
            return tries
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    raise AssertionError


@pytest.mark.parametrize("name", CALLS)
async def test_a_call_cancelled_at_any_moment_is_made_once_or_not_at_all(
    name: str, url: str, tmp_path: Path
) -> None:
    call = CALLS[name]
    async with open_store(url) as store:
        await prepare(store)
        assert await cancelled_at_every_turn(lambda: call(store)) > 1
        await store.counts()
        assert await check(store) == []
        if url.startswith("postgresql"):
            async with hand(url) as eyes:
                await until(lambda: is_zero(eyes.value(DIRTY)))
    _, expected = await undisturbed(call, tmp_path / "other.db")
    assert await contents(url) == expected


async def is_zero(number: Awaitable[int]) -> bool:
    return await number == 0


async def test_a_call_cancelled_before_it_began_does_nothing(url: str) -> None:
    async with open_store(url) as store:
        task = asyncio.ensure_future(store.start(a_run("r")))
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await store.counts() == {}


async def test_a_call_cancelled_while_the_server_works_on_it_is_still_carried_out(
    postgres_url: str,
) -> None:
    url = postgres_url
    async with open_store(url) as store, hand(url) as stranger, hand(url) as eyes:
        topic = "INSERT INTO onward.onward_topic (namespace, name, created_at)"
        await eyes.run(f"{topic} VALUES ('default', 'mail', 0)")
        await stranger.begin()
        await stranger.run("LOCK TABLE onward.onward_subscription IN ACCESS EXCLUSIVE MODE")
        task = asyncio.ensure_future(WRITES["closure"].call(store))
        await until(eyes.somebody_waits)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await stranger.commit()
        await until(lambda: eyes.value("SELECT count(*) FROM onward.onward_subscription"))


async def test_a_store_cancelled_while_it_opens_or_closes_leaves_no_connection(
    empty_url: str,
) -> None:
    async def open_and_close() -> None:
        async with open_store(empty_url) as store:
            await store.start(a_run("r"))  # so that hints are under way, too

    async with hand(empty_url) as eyes:
        await cancelled_at_every_turn(open_and_close)
        await until(lambda: is_zero(eyes.value(OURS)))
