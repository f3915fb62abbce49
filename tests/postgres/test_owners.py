"""An owner that starts a run, while its own run is ended or taken from it."""

import asyncio

import pytest

from onward.errors import LeaseLost, NotFound
from onward.model.runs import RunOwner, Start, Started
from onward.store import open_store
from onward.store.postgres import batch
from tests.postgres.builders import WORKER, a_run, claimed
from tests.postgres.hand import hand, until


async def test_a_start_that_waits_for_a_strangers_is_not_made_once_its_owner_has_lost(
    postgres_url: str,
) -> None:
    url = postgres_url
    async with open_store(url) as store, hand(url) as stranger, hand(url) as eyes:
        parent = (await claimed(store, "parent"))["parent"]
        await stranger.begin()
        await store.within(stranger.connection).start(a_run("theirs", id="child"))
        owner = RunOwner(WORKER, "parent", parent.fence)
        start = asyncio.ensure_future(store.start(a_run("ours", id="child"), owner))
        await until(eyes.somebody_waits)

        stopped = await store.stop("parent", state="cancelled", reason="forced")
        await stranger.roll_back()

        assert stopped.fate == "stopped"
        with pytest.raises(LeaseLost):
            await start
        with pytest.raises(NotFound):
            await store.newest("child")


async def test_who_takes_a_lease_waits_for_a_start_of_its_owner(postgres_url: str) -> None:
    url = postgres_url
    async with open_store(url) as store, hand(url) as worker, hand(url) as eyes:
        parent = (await claimed(store, "parent"))["parent"]
        await worker.begin()
        start = Start(a_run("child"), RunOwner(WORKER, "parent", parent.fence))
        [started] = await batch.start(worker.tx, [start])
        leaving = asyncio.ensure_future(store.drop_lease(WORKER))
        await until(eyes.somebody_waits)

        await worker.commit()
        await leaving

        assert isinstance(started, Started)
        with pytest.raises(LeaseLost):
            await store.start(a_run("other"), start.owner)
        assert (await store.run("child")).state == "ready"
