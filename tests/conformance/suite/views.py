"""Views: stores of other namespaces that share the connections of one store."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from onward.core.lease import Fate
from onward.errors import NotFound, NotOpen
from onward.store.hints import queue_subject
from tests.conformance.suite.samples import SUCCEEDED, a_message, a_record, a_run
from tests.conformance.suite.worker import Worker

if TYPE_CHECKING:
    from onward.store import Store
    from onward.store.hints import Subscription
    from tests.conformance.suite.world import World

LONG = 20.0  # seconds: only a failing test waits that long
QUEUE, LAST = queue_subject("default"), queue_subject("last")


async def heard_before_last(store: Store, subscription: Subscription) -> set[str]:
    """Return what a subscription hears until a hint that is published now."""
    heard: set[str] = set()
    store.database.publish({LAST})
    async with asyncio.timeout(LONG):
        while LAST not in heard:
            heard |= await subscription.wait(LONG)
    return heard - {LAST}


async def test_a_view_reads_and_writes_its_own_namespace_alone(world: World) -> None:
    store = await world.store("views")
    async with store.view("other") as view:
        await store.start(a_run("a"))

        assert view.namespace == "other"
        with pytest.raises(NotFound, match="other"):
            await view.run("uid-a")
        assert (await view.send(a_message("a", "m1"))).fate == "absent"
        assert (await view.start(a_run("a"))).created
        assert (await store.send(a_message("a", "m1"))).fate == "delivered"
        assert (await view.run("uid-a")).inbox == 0


async def test_workers_of_two_views_may_have_the_same_name_and_run_ids(world: World) -> None:
    store = await world.store("views")
    async with store.view("one") as one, store.view("two") as two:
        first, second = Worker(one, "w"), Worker(two, "w")
        for worker in (first, second):
            assert await worker.store.take_lease(worker.name) is not None
        [mine], [yours] = await first.owning("a"), await second.owning("a")
        await second.leave()

        outcomes = await asyncio.gather(
            first.commit(mine, a_record(mine, 1), move=SUCCEEDED),
            second.commit(yours, a_record(yours, 1), move=SUCCEEDED),
        )

        assert [outcome.fate for outcome in outcomes] == [Fate.DONE, Fate.LOST]
        assert (await one.run("uid-a")).state == "succeeded"
        assert (await two.run("uid-a")).state == "running"


async def test_a_hint_of_one_view_does_not_wake_another(world: World) -> None:
    store = await world.store("views")
    async with store.view("one") as one, store.view("two") as two:
        with (
            one.subscribe([QUEUE, LAST]) as first,
            two.subscribe([QUEUE, LAST]) as second,
            store.subscribe([QUEUE, LAST]) as own,
        ):
            await one.start(a_run("a"))

            assert QUEUE in await heard_before_last(one, first)
            assert QUEUE not in await heard_before_last(two, second)
            assert QUEUE not in await heard_before_last(store, own)


async def test_two_views_of_a_namespace_hear_each_other(world: World) -> None:
    store = await world.store("views")
    async with store.view("one") as one, store.view("one") as again:
        with again.subscribe([QUEUE]) as subscription:
            await one.start(a_run("a"))
            async with asyncio.timeout(LONG):
                while QUEUE not in await subscription.wait(LONG):
                    pass


async def test_a_view_that_is_closed_leaves_the_others_alone(world: World) -> None:
    store = await world.store("views")
    async with store.view("one") as one:
        async with store.view("two") as two, two.view("three") as three:
            await three.start(a_run("a"))
        await one.start(a_run("a"))
        await store.start(a_run("a"))

        with one.subscribe([QUEUE, LAST]) as subscription:
            await one.start(a_run("b"))
            assert QUEUE in await heard_before_last(one, subscription)
    async with store.view("three") as again:
        assert (await again.run("uid-a")).state == "ready"


async def test_a_store_that_closes_first_writes_what_its_views_were_given(world: World) -> None:
    store = await world.store("closing")
    view = await store.view("one").__aenter__()
    started = [asyncio.ensure_future(view.start(a_run(f"r{n}"))) for n in range(5)]
    await asyncio.sleep(0)  # they are queued, not written
    await world.close(store)

    assert all([(await start).created for start in started])
    world.forget(store)


async def test_a_view_opens_only_while_its_store_is_open(world: World) -> None:
    store = await world.store("closing")
    view = store.view("one")
    await view.__aenter__()
    await view.start(a_run("a"))
    await world.close(store)

    with pytest.raises(NotOpen):
        await view.start(a_run("b"))
    with pytest.raises(NotOpen):
        await store.view("two").__aenter__()
    await view.__aexit__(None, None, None)  # closed by its store already: nothing is left to do
    world.forget(store)
