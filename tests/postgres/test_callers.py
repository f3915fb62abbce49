"""A transaction that a caller of ours keeps open holds nobody up."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from onward.core.lease import Fate
from onward.errors import Unavailable
from onward.model.runs import Move
from onward.store import Commit, Store, open_store
from onward.store.invariants import check
from onward.store.writing import lane
from tests.postgres.builders import WORKER, a_message, a_record, a_run, claimed, wanted
from tests.postgres.hand import Hand, hand, until

# How one would signal from a caller's transaction: by changing the row of the run.
SIGNAL_BY_UPDATE = "UPDATE onward.onward_run SET inbox = inbox + 1 WHERE uid = 'r000'"

CROWD = [f"r{number:03}" for number in range(200)]


@asynccontextmanager
async def caller(url: str, store: Store) -> AsyncIterator[Hand]:
    """A transaction in which a run was started and another was sent a message."""
    async with hand(url) as hands:
        await hands.begin()
        within = store.within(hands.connection)
        assert (await within.start(a_run("theirs"))).created
        await within.send(a_message("r000", "from a caller"))
        yield hands


async def crowd(store: Store, fences: dict[str, int]) -> None:
    """Let everybody record, send and start something at once."""
    writer = store.writer(WORKER)
    commits = [writer.commit(Commit(u, f, (a_record(u),))) for u, f in fences.items()]
    sends = [store.send(a_message(uid)) for uid in fences]
    starts = [store.start(a_run(f"new-{uid}")) for uid in fences]
    async with asyncio.timeout(60):
        outcomes, sent, started = await asyncio.gather(
            asyncio.gather(*commits), asyncio.gather(*sends), asyncio.gather(*starts)
        )
    assert {outcome.fate for outcome in outcomes} == {Fate.DONE}
    assert {answer.fate for answer in sent} == {"delivered"}
    assert all(answer.created for answer in started)


async def fences_of(store: Store) -> dict[str, int]:
    await asyncio.gather(*(store.start(a_run(uid)) for uid in CROWD))
    await store.take_lease(WORKER)
    return {run.uid: run.fence for run in await store.claim(wanted(limit=len(CROWD)))}


async def test_an_open_transaction_of_a_caller_holds_nobody_up(postgres_url: str) -> None:
    async with open_store(postgres_url) as store:
        fences = await fences_of(store)
        async with caller(postgres_url, store) as theirs:
            await crowd(store, fences)
            assert await store.sweep() == 0
            ends = [Commit(u, f, move=Move("succeeded")) for u, f in fences.items()]
            outcomes = await asyncio.gather(*map(store.writer(WORKER).commit, ends[1:]))
            assert {outcome.fate for outcome in outcomes} == {Fate.DONE}
            await theirs.commit()
        assert await store.sweep() == 1
        assert [m.message for m in (await store.look(["r000"]))["r000"]] == ["m1", "from a caller"]
        assert (await store.run("theirs")).state == "ready"
        assert await check(store) == []


async def test_a_row_changed_in_a_callers_transaction_would_hold_a_whole_batch_up(
    postgres_url: str,
) -> None:
    url = postgres_url
    async with open_store(url) as store, hand(url) as naive, hand(url) as eyes:
        fences = await fences_of(store)
        await naive.begin()
        await naive.run(SIGNAL_BY_UPDATE)
        async with asyncio.TaskGroup() as tasks:
            ends = [Commit(u, f, move=Move("succeeded")) for u, f in fences.items()]
            writing = [tasks.create_task(store.writer(WORKER).commit(end)) for end in ends]
            await until(eyes.somebody_waits)
            lane_of_r000 = [
                t for t, end in zip(writing, ends, strict=True) if int(end.run[1:]) % 2 == 0
            ]
            assert len(lane_of_r000) == 100
            assert not any(task.done() for task in lane_of_r000)
            await naive.roll_back()
        assert {task.result().fate for task in writing} == {Fate.DONE}


async def test_a_start_of_an_id_that_a_caller_holds_makes_no_other_start_wait(
    postgres_url: str,
) -> None:
    async with open_store(postgres_url) as store:
        fences = await fences_of(store)
        async with caller(postgres_url, store) as theirs, asyncio.TaskGroup() as tasks:
            same = tasks.create_task(store.start(a_run("ours", id="id of theirs")))
            await crowd(store, fences)
            assert not same.done()
            await theirs.commit()
        assert (same.result().uid, same.result().created) == ("theirs", False)


async def test_a_start_of_an_id_that_a_caller_gave_up_is_made(postgres_url: str) -> None:
    async with open_store(postgres_url) as store, hand(postgres_url) as eyes:
        async with caller(postgres_url, store) as theirs, asyncio.TaskGroup() as tasks:
            same = tasks.create_task(store.start(a_run("ours", id="id of theirs")))
            await until(eyes.somebody_waits)
            await theirs.roll_back()
        assert (same.result().uid, same.result().created) == ("ours", True)


async def test_a_start_of_an_id_that_a_caller_holds_for_ever_is_told_so(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lane, "APART_SECONDS", 0.3)
    async with open_store(postgres_url) as store, caller(postgres_url, store):
        with pytest.raises(Unavailable, match="has an open transaction"):
            await store.start(a_run("ours", id="id of theirs"))
        assert (await store.start(a_run("another"))).created


async def test_a_child_of_an_id_that_a_caller_holds_makes_no_other_run_wait_for_long(
    postgres_url: str,
) -> None:
    """Its own run waits, in order; the rest of the batch is written without it."""
    async with open_store(postgres_url) as store:
        owned = await claimed(store, "r1", "r3")  # one lane
        writer = store.writer(WORKER)
        child = Commit("r1", owned["r1"].fence, (a_record("r1"),), starts=(a_run("x", id="same"),))
        after = Commit("r1", owned["r1"].fence, (a_record("r1", 2),))
        async with hand(postgres_url) as theirs, asyncio.TaskGroup() as tasks:
            await theirs.begin()
            await store.within(theirs.connection).start(a_run("theirs", id="same"))
            held = [tasks.create_task(writer.commit(commit)) for commit in (child, after)]
            free = await writer.commit(Commit("r3", owned["r3"].fence, (a_record("r3"),)))
            assert free.fate is Fate.DONE
            assert not any(task.done() for task in held)
            assert await store.history(["r1"]) == {"r1": []}
            await theirs.commit()
        assert [task.result().fate for task in held] == [Fate.DONE, Fate.DONE]
        assert [record.seq for record in (await store.history(["r1"]))["r1"]] == [1, 2]
        assert (await store.newest("same")).uid == "theirs"
