"""Batches that want the same rows wait for each other in one order, and nobody hears of it."""

import asyncio

from onward.core.lease import Fate
from onward.model.pipelines import HandlerSpec, NewEvent, PipelineSpec, PipelineWrite
from onward.model.runs import Move
from onward.store import Attachments, Commit, Store, open_store
from onward.store.invariants import check
from onward.store.pipelines.declaring import declare
from tests.postgres.builders import OTHER, WORKER, a_message, a_record, a_run, claimed
from tests.postgres.hand import hand, until

DEADLOCKS = "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"
PARENTS = [f"parent-{number}" for number in range(8)]
ROUNDS = 20


async def look_soon(url: str, after: str = "20ms") -> None:
    """Let the server look for deadlocks long before anybody gives up waiting for a lock."""
    async with hand(url) as admin:
        name = await admin.value("SELECT current_database()")
        await admin.run(f"ALTER DATABASE \"{name}\" SET deadlock_timeout = '{after}'")


async def none_happened(url: str) -> None:
    """Look at the server's own count, which a connection adds to when it ends at the latest."""
    async with hand(url) as eyes:
        assert await eyes.value(DEADLOCKS) == 0


async def told(store: Store, worker: str, fence: int, parents: list[str]) -> list[Fate]:
    """Let a child tell each parent at once; all of it becomes one batch, in the order given."""
    commits = [
        Commit(f"{worker}-{place}", fence, messages=(a_message(parent, f"{worker}-{place}"),))
        for place, parent in enumerate(parents)
    ]
    writer = store.writer(worker)
    return [outcome.fate for outcome in await asyncio.gather(*map(writer.commit, commits))]


async def test_batches_that_tell_the_same_parents_in_opposite_order_never_deadlock(
    postgres_url: str,
) -> None:
    url = postgres_url
    await look_soon(url)
    async with open_store(url) as one, open_store(url) as two:
        await claimed(one, *PARENTS, worker="parents")
        for number in range(ROUNDS):
            for store, worker in ((one, f"{WORKER}{number}"), (two, f"{OTHER}{number}")):
                await claimed(store, *(f"{worker}-{place}" for place in range(8)), worker=worker)
            first, second = await asyncio.gather(
                told(one, f"{WORKER}{number}", 1, PARENTS),
                told(two, f"{OTHER}{number}", 1, PARENTS[::-1]),
            )
            assert first == second == [Fate.DONE] * 8
        assert {(await one.run(parent)).inbox for parent in PARENTS} == {2 * ROUNDS}
        assert await check(one) == []
    await none_happened(url)


async def test_starts_of_the_same_ids_in_opposite_order_never_deadlock(postgres_url: str) -> None:
    url = postgres_url
    await look_soon(url)
    async with open_store(url) as one, open_store(url) as two:
        for number in range(ROUNDS):
            ids = [f"{number}-{place}" for place in range(20)]
            answers = await asyncio.gather(
                *(one.start(a_run(f"one {i}", id=i)) for i in ids),
                *(two.start(a_run(f"two {i}", id=i)) for i in reversed(ids)),
            )
            assert sum(answer.created for answer in answers) == 20
        assert await check(one) == []
    await none_happened(url)


async def test_a_deadlock_with_a_stranger_is_not_heard_of(postgres_url: str) -> None:
    """The server ends one of the two; here it is ours, and it is sent again."""
    url = postgres_url
    lock = "SELECT 1 FROM onward.onward_run WHERE uid = $1 FOR UPDATE"
    async with hand(url) as stranger, hand(url) as eyes:
        await look_soon(url, "1s")  # each looks once, and ours must not do so before they meet
        async with open_store(url) as store:
            await claimed(store, "a", "b")
            await stranger.run("SET deadlock_timeout = '1min'")
            await stranger.begin()
            await stranger.run(lock, "b")
            end = Commit("a", 1, move=Move("succeeded"), messages=(a_message("b"),))
            async with asyncio.TaskGroup() as tasks:
                ending = tasks.create_task(store.writer(WORKER).commit(end))  # has a, wants b
                await until(eyes.somebody_waits)
                await stranger.run(lock, "a")  # has b, wants a
                await stranger.commit()
            assert ending.result().fate is Fate.DONE
        await until(lambda: eyes.value(DEADLOCKS))


async def test_publishing_to_each_others_handlers_never_deadlocks(postgres_url: str) -> None:
    url = postgres_url
    await look_soon(url)
    async with open_store(url) as one, open_store(url) as two, hand(url) as eyes:
        await declare(
            one,
            PipelineSpec(
                "p",
                False,
                "default",
                (),
                tuple(HandlerSpec(f"on {topic}", "consumer", (topic,)) for topic in "abc"),
            ),
        )
        await claimed(one, "one", worker=WORKER)
        await claimed(two, "two", worker=OTHER)

        async def publish(store: Store, worker: str, run: str, topics: str) -> Fate:
            events = tuple(
                NewEvent(f"{run} {number} {topic}", topic, f"{run} {number}", b"{}")
                for number in range(ROUNDS)
                for topic in topics
            )
            write = PipelineWrite(published=events)
            commit = Commit(run, 1, (a_record(run),), attached=Attachments(pipeline=write))
            return (await store.writer(worker).commit(commit)).fate

        first, second = await asyncio.gather(
            publish(one, WORKER, "one", "abc"), publish(two, OTHER, "two", "cba")
        )
        assert first is second is Fate.DONE
        assert await eyes.value("SELECT count(*) FROM onward.onward_delivery") == 6 * ROUNDS
    await none_happened(url)
