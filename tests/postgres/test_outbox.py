"""The outbox: messages to a run keep their order, whoever moves those of callers into its inbox."""

import asyncio
from itertools import groupby

import pytest

from onward.store import Store, open_store
from onward.store.invariants import check
from onward.store.postgres import batch
from tests.postgres.builders import a_message, a_run
from tests.postgres.hand import Hand, hand, until
from tests.postgres.test_deadlocks import look_soon, none_happened

MOST = 100
RUNS = ("a", "b", "c")
SENDERS = 4
ROUNDS = 12


async def send_within(store: Store, url: str, *messages: tuple[str, str]) -> None:
    """Send messages, in a transaction that is committed."""
    async with hand(url) as caller:
        await caller.begin()
        for run, message in messages:
            await store.within(caller.connection).send(a_message(f"id of {run}", message))
        await caller.commit()


async def inbox(store: Store, run: str) -> list[str]:
    return [row.message for row in (await store.look([run]))[run]]


async def sent_while(store: Store, sweeper: Hand, eyes: Hand, *, commits: bool) -> list[str]:
    """Return what a run was sent, if it is sent something while a sweep is not committed yet."""
    await sweeper.begin()
    assert len(await batch.sweep(sweeper.tx, MOST)) == 1
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(store.send(a_message("r", "m2")))
        await until(eyes.somebody_waits)
        await (sweeper.commit() if commits else sweeper.roll_back())
    return await inbox(store, "r")


@pytest.mark.parametrize("commits", [True, False], ids=["committed", "rolled back"])
async def test_a_message_comes_after_those_of_a_sweep_that_has_begun(
    postgres_url: str, *, commits: bool
) -> None:
    url = postgres_url
    async with open_store(url) as store, hand(url) as sweeper, hand(url) as eyes:
        await store.start(a_run("r"))
        await send_within(store, url, ("r", "m1"))

        assert await sent_while(store, sweeper, eyes, commits=commits) == ["m1", "m2"]


async def test_a_sweep_leaves_the_runs_of_another_sweep_alone(postgres_url: str) -> None:
    url = postgres_url
    async with open_store(url) as store, hand(url) as sweeper:
        for run in ("a", "b"):
            await store.start(a_run(run))
        await send_within(store, url, ("a", "1"), ("a", "2"), ("b", "1"), ("a", "3"))
        await sweeper.begin()
        await batch.sweep(sweeper.tx, 1)

        assert await store.sweep() == 1

        assert (await inbox(store, "a"), await inbox(store, "b")) == ([], ["1"])
        await sweeper.commit()
        assert await store.sweep() == 2
        assert await inbox(store, "a") == ["1", "2", "3"]


async def test_each_sender_is_heard_in_its_order_by_every_run(postgres_url: str) -> None:
    url = postgres_url
    await look_soon(url)
    async with open_store(url) as one, open_store(url) as two:
        for run in RUNS:
            await one.start(a_run(run))

        async def speak(store: Store, sender: int) -> None:
            runs = RUNS if sender % 2 else RUNS[::-1]
            for number in range(ROUNDS):
                message = f"{sender}-{number:03}"
                if (sender + number) % 2:
                    await send_within(store, url, *((run, message) for run in runs))
                else:
                    await asyncio.gather(*(store.send(a_message(run, message)) for run in runs))

        async def sweep(store: Store, speaking: asyncio.Future[list[None]]) -> None:
            while not speaking.done():
                await store.sweep()

        stores = (one, two)
        speaking = asyncio.gather(*(speak(stores[each % 2], each) for each in range(SENDERS)))
        await asyncio.gather(speaking, *(sweep(store, speaking) for store in stores))
        while await one.sweep():
            pass

        for run in RUNS:
            heard = await inbox(one, run)
            assert len(heard) == SENDERS * ROUNDS
            by_sender = sorted(heard, key=lambda message: message[0])  # stable
            for _, messages in groupby(by_sender, lambda message: message[0]):
                in_order = list(messages)
                assert in_order == sorted(in_order)
        assert await check(one) == []
    await none_happened(url)


async def test_a_sweep_that_waits_for_another_holds_nothing_the_other_wants(
    postgres_url: str,
) -> None:
    """The first message of a run is the last to be committed, so one sweep does not see it."""
    url = postgres_url
    async with (
        open_store(url) as store,
        hand(url) as late,
        hand(url) as sender,
        hand(url) as eyes,
    ):
        for run in ("a", "b"):
            await store.start(a_run(run))
        await send_within(store, url, ("b", "1"))
        await late.begin()
        await store.within(late.connection).send(a_message("id of a", "1"))
        await send_within(store, url, ("a", "2"))
        await sender.begin()
        await sender.tx.fetch("outbox_of_run", target="id of a", after=0, limit=MOST)
        await late.commit()

        async with asyncio.TaskGroup() as tasks:
            sweeping = tasks.create_task(store.sweep())
            await until(eyes.somebody_waits)
            await sender.tx.fetch("outbox_of_run", target="id of b", after=0, limit=MOST)
            await sender.roll_back()

        assert sweeping.result() == 3
        assert (await inbox(store, "a"), await inbox(store, "b")) == (["1", "2"], ["1"])
    await none_happened(url)
