"""Callers' transactions: what is started and sent in one happens if and when it commits."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from onward.core.inbox import MessageKind
from onward.core.instant import MINUTE
from onward.errors import NotFound, StoreUnusable
from onward.model.runs import Move, Started
from tests.conformance.suite.chains import RETRY, a_failed_run, mail
from tests.conformance.suite.families import each
from tests.conformance.suite.samples import SUCCEEDED, a_message, a_run, an_open_record

if TYPE_CHECKING:
    from tests.conformance.suite.world import World


async def test_a_start_happens_with_the_callers_commit(world: World) -> None:
    worker = await world.worker()

    async with world.caller(commit=True) as connection:
        started = await worker.store.within(connection).start(a_run("a"))

    assert started == Started("uid-a", True, "greet", "hash-of-1", "ready")
    [run] = await worker.claim()
    assert (run.uid, run.input, run.created_at) == ("uid-a", b"j[1]", world.clock.wall())


async def test_what_a_caller_rolls_back_never_happened(world: World) -> None:
    store = await world.store()
    await store.start(a_run("there"))

    async with world.caller(commit=False) as connection:
        within = store.within(connection)
        assert (await within.start(a_run("a"))).created
        await within.send(a_message("there", "m1"))

    assert await store.sweep() == 0
    with pytest.raises(NotFound):
        await store.run("uid-a")
    assert (await store.run("uid-there")).inbox == 0
    assert await store.counts() == {"ready": 1}


async def test_a_delayed_start_of_a_caller_waits(world: World) -> None:
    worker = await world.worker()

    async with world.caller(commit=True) as connection:
        started = await worker.store.within(connection).start(a_run("a")._replace(delay_in=MINUTE))

    assert started.state == "waiting"
    assert await worker.store.next_due() == world.clock.wall() + MINUTE
    assert await worker.claim() == []


async def test_a_caller_is_told_of_a_run_that_is_there(world: World) -> None:
    store = await world.store()
    await store.start(a_run("a"))

    async with world.caller(commit=True) as connection:
        within = store.within(connection)
        other = await within.start(a_run("a")._replace(uid="uid-other", args_hash="other"))
        same = await within.start(a_run("a"))

    assert other == Started("uid-a", False, "greet", "hash-of-1", "ready")
    assert same == Started("uid-a", True, "greet", "hash-of-1", "ready")
    assert await store.counts() == {"ready": 1}


async def test_two_starts_of_one_id_in_one_transaction_make_one_run(world: World) -> None:
    store = await world.store()

    async with world.caller(commit=True) as connection:
        within = store.within(connection)
        first = await within.start(a_run("a"))
        second = await within.start(a_run("a")._replace(uid="uid-other"))

    assert (first.created, second.created, second.uid) == (True, False, "uid-a")


async def test_a_message_is_sent_by_the_sweep_after_the_commit(world: World) -> None:
    worker = await world.worker()
    [run] = await worker.owning("a")
    await worker.commit(run, an_open_record(run, "w#1"), move=Move("waiting"))

    async with world.caller(commit=True) as connection:
        await worker.store.within(connection).send(a_message("a", "m1"))

    assert (await worker.store.run(run.uid)).inbox == 0
    assert await worker.store.sweep() == 1
    assert await worker.store.sweep() == 0
    assert [again.inbox for again in await worker.claim()] == [1]
    [message] = (await worker.store.look([run.uid]))[run.uid]
    assert message[2:6] == ("m1", "signal", "approval", b"jtrue")


async def test_messages_are_swept_in_the_order_in_which_they_were_sent(world: World) -> None:
    store = await world.store()
    await store.start(a_run("a"))
    names = [f"m{number:02}" for number in range(20, 0, -1)]  # not that of their ids

    for some in (names[:10], names[10:]):
        async with world.caller(commit=True) as connection:
            for name in some:
                await store.within(connection).send(a_message("a", name))

    assert await store.sweep() == 20
    assert [row.message for row in (await store.look(["uid-a"]))["uid-a"]] == names


@each(("a", "uid-a"))
async def test_a_message_comes_after_what_a_caller_committed_before_it(
    world: World, target: str
) -> None:
    store = await world.store()
    for run in ("a", "b"):
        await store.start(a_run(run))
    async with world.caller(commit=True) as connection:
        within = store.within(connection)
        for message in ("z", "a"):  # whatever their ids are
            await within.send(a_message("a", message))

    other, own, last = await asyncio.gather(
        store.send(a_message("b", "m1")),
        store.send(a_message(target, "m1")),
        store.send(a_message(target, "m2")),
    )

    assert (other.seq, own.seq, last.seq) == (1, 3, 4)
    messages = (await store.look(["uid-a"]))["uid-a"]
    assert [row.message for row in messages] == ["z", "a", "m1", "m2"]
    assert await store.sweep() == 0


async def test_an_order_comes_after_what_a_caller_committed_before_it(world: World) -> None:
    worker = await world.worker()
    await worker.owning("a")
    async with world.caller(commit=True) as connection:
        await worker.store.within(connection).send(a_message("a", "m1"))

    await worker.store.send(a_message("a", "cancel", MessageKind.CANCEL))

    rows = (await worker.store.look(["uid-a"]))["uid-a"]
    assert [row.message for row in rows] == ["m1", "cancel"]


async def test_all_that_callers_sent_to_a_run_comes_before_the_next_message(world: World) -> None:
    store = await world.store()
    for run in ("a", "b"):
        await store.start(a_run(run))
    for number in range(2):
        async with world.caller(commit=True) as connection:
            for k in range(260):  # in two bites
                for run in ("a", "b"):
                    await store.within(connection).send(a_message(run, f"{number} {k:03}"))

    sent = await asyncio.gather(*(store.send(a_message(run, "last")) for run in ("a", "b")))

    assert [answer.seq for answer in sent] == [521, 521]
    rows = (await store.look(["uid-a"]))["uid-a"]
    assert [row.message for row in rows] == sorted(row.message for row in rows)


async def test_what_a_caller_sent_reaches_the_run_that_follows(world: World) -> None:
    worker = await world.worker()
    await a_failed_run(worker)
    async with world.caller(commit=True) as connection:
        await worker.store.within(connection).send(a_message("a", "m1"))
    await worker.store.follow(RETRY)

    sent = await worker.store.send(a_message("uid-a", "m2"))

    assert (sent.uid, sent.fate) == ("uid-next", "delivered")
    assert [message for _, message in await mail(worker)] == ["m1", "m2"]


async def test_a_sweep_takes_a_bounded_number_and_the_next_one_the_rest(world: World) -> None:
    store = await world.store()
    await store.start(a_run("a"))
    async with world.caller(commit=True) as connection:
        within = store.within(connection)
        for number in range(520):
            await within.send(a_message("a", f"m{number:03}"))

    first, second, third = await store.sweep(), await store.sweep(), await store.sweep()

    assert first + second == 520
    assert 0 < second < first
    assert third == 0
    rows = (await store.look(["uid-a"]))["uid-a"]
    assert [row.message for row in rows] == [f"m{number:03}" for number in range(520)]


async def test_a_sweep_that_takes_one_of_two_messages_of_an_id_leaves_the_other(
    world: World,
) -> None:
    store = await world.store()
    for run in ("a", "b"):
        await store.start(a_run(run))
    async with world.caller(commit=True) as connection:
        within = store.within(connection)
        await within.send(a_message("a", "first"))
        for number in range(260):  # so that wherever a sweep ends, it may be between two
            await within.send(a_message("a", f"m{number:03}"))
            await within.send(a_message("b", f"m{number:03}"))

    while await store.sweep():
        pass

    assert [(await store.run(uid)).inbox for uid in ("uid-a", "uid-b")] == [261, 260]


async def test_what_is_swept_wakes_a_paused_run_as_any_message_does(world: World) -> None:
    worker = await world.worker()
    [run] = await worker.owning("a")
    await worker.commit(run, move=Move("paused", "approval"))
    message = a_message("a", "m1")._replace(kind="verdict", wakes=",approval,")

    async with world.caller(commit=True) as connection:
        await worker.store.within(connection).send(message)
    await worker.store.sweep()

    assert (await worker.store.run(run.uid)).state == "ready"


async def test_one_message_id_may_be_sent_to_two_runs_in_one_transaction(world: World) -> None:
    store = await world.store()
    for run in ("a", "b"):
        await store.start(a_run(run))

    async with world.caller(commit=True) as connection:
        for run in ("a", "b"):
            await store.within(connection).send(a_message(run, "m1"))

    assert await store.sweep() == 2
    assert [(await store.run(uid)).inbox for uid in ("uid-a", "uid-b")] == [1, 1]


async def test_a_message_that_was_also_sent_directly_is_delivered_once(world: World) -> None:
    store = await world.store()
    await store.start(a_run("a"))
    async with world.caller(commit=True) as connection:
        within = store.within(connection)
        await within.send(a_message("a", "m1"))
        await within.send(a_message("a", "m1"))
    await store.send(a_message("a", "m1"))

    await store.sweep()

    assert (await store.run("uid-a")).inbox == 1


async def test_what_is_sent_to_a_run_that_is_over_or_never_was_is_swept_away(world: World) -> None:
    worker = await world.worker()
    [run] = await worker.owning("over")
    await worker.commit(run, move=SUCCEEDED)
    async with world.caller(commit=True) as connection:
        within = worker.store.within(connection)
        await within.send(a_message("over", "m1"))
        await within.send(a_message("nobody", "m2"))

    assert await worker.store.sweep() == 2
    assert await worker.store.sweep() == 0
    assert (await worker.store.run(run.uid)).inbox == 0


async def test_a_run_may_be_started_and_sent_to_in_one_transaction(world: World) -> None:
    store = await world.store()

    async with world.caller(commit=True) as connection:
        within = store.within(connection)
        await within.start(a_run("a"))
        await within.send(a_message("a", "m1"))

    assert await store.sweep() == 1
    assert (await store.run("uid-a")).inbox == 1


async def test_a_connection_that_cannot_carry_writes_is_refused_with_advice(world: World) -> None:
    store = await world.store()

    with pytest.raises(StoreUnusable, match="Pass a connection to the same database") as refused:
        store.within(object())

    assert "builtins.object" in str(refused.value)
