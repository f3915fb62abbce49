"""A worker that lost its lease writes nothing, and whoever takes over sees all it ever wrote."""

import asyncio
from functools import partial

import pytest

from onward.core.lease import Fate
from onward.model.runs import Move
from onward.store import Commit, open_store
from onward.store.database import Tx
from onward.store.invariants import check
from onward.store.postgres import pool
from onward.store.runs.maintenance import release
from tests.postgres.builders import (
    LONG,
    OTHER,
    RUN_OUT,
    STEADY,
    WORKER,
    a_record,
    a_run,
    claimed,
    wanted,
)
from tests.postgres.hand import hand, until

# How one would write it without a lease row: the run's fence is looked at, and nothing is held.
FENCE_ALONE = """
    INSERT INTO onward.onward_record
        (namespace, run, identity, attempt, seq, kind, name, state, opened_at, closed_at)
    SELECT namespace, uid, 'greet#1', 1, 1, 'step', 'greet', 'succeeded', 0, 0
    FROM onward.onward_run
    WHERE namespace = 'default' AND uid = 'r' AND fence = $1 AND state = 'running'
    RETURNING run
"""
LOCK_NOW = "SELECT uid FROM onward.onward_run ORDER BY uid FOR UPDATE NOWAIT"
TAKE_AWAY = "DELETE FROM onward.onward_lease WHERE worker = $1"

KINDS = {
    "a record": lambda fence: Commit("r", fence, (a_record("r"),)),
    "an end": lambda fence: Commit("r", fence, (a_record("r"),), Move("succeeded", result=b"1")),
    "a child": lambda fence: Commit("r", fence, (a_record("r"),), starts=(a_run("child"),)),
}


async def test_a_fence_without_a_lock_lets_history_grow_under_the_new_owner(
    postgres_url: str,
) -> None:
    async with open_store(postgres_url) as store, hand(postgres_url) as zombie:
        fence = (await claimed(store, "r"))["r"].fence
        await zombie.begin()
        assert await zombie.run(FENCE_ALONE, fence) == [("r",)]
        await store.drop_lease(WORKER)
        await store.take_lease(OTHER)
        assert [run.uid for run in await store.claim(wanted(OTHER))] == ["r"]
        assert await store.history(["r"]) == {"r": []}
        await zombie.commit()
        assert len((await store.history(["r"]))["r"]) == 1  # and its owner believes there is none


@pytest.mark.parametrize("kind", KINDS)
async def test_takeover_waits_for_the_batch_in_progress(postgres_url: str, kind: str) -> None:
    async with open_store(postgres_url) as store, hand(postgres_url) as zombie:
        fence = (await claimed(store, "r"))["r"].fence
        await store.take_lease(OTHER)
        await zombie.begin()
        written = await zombie.write(WORKER, KINDS[kind](fence))
        assert written.fates == {"r": Fate.DONE}
        async with asyncio.TaskGroup() as tasks, hand(postgres_url) as eyes:
            taking = tasks.create_task(store.drop_lease(WORKER))
            await until(eyes.somebody_waits)
            assert await store.claim(wanted(OTHER)) == []
            assert not taking.done()
            await zombie.commit()
        await store.claim(wanted(OTHER))
        assert len((await store.history(["r"]))["r"]) == 1


async def test_a_claim_passes_over_an_expired_lease_under_which_a_batch_is_being_written(
    postgres_url: str,
) -> None:
    async with open_store(postgres_url) as store, hand(postgres_url) as zombie:
        fence = (await claimed(store, "r"))["r"].fence
        await zombie.run(RUN_OUT, WORKER)
        await store.take_lease(OTHER)
        await zombie.run(STEADY, OTHER)
        await zombie.begin()
        await zombie.write(WORKER, KINDS["a record"](fence))
        assert await store.claim(wanted(OTHER)) == []
        assert await store.claim(wanted(OTHER)) == []
        await zombie.commit()
        await store.claim(wanted(OTHER))  # takes the lease away
        [run] = await store.claim(wanted(OTHER))
        assert (run.uid, run.fence, run.crashes) == ("r", fence + 1, 1)
        assert len((await store.history(["r"]))["r"]) == 1


@pytest.mark.parametrize("kind", KINDS)
async def test_a_lease_that_is_taken_away_just_now_writes_nothing(
    postgres_url: str, kind: str
) -> None:
    async with open_store(postgres_url) as store, hand(postgres_url) as thief:
        fence = (await claimed(store, "r"))["r"].fence
        await store.take_lease(OTHER)
        await thief.begin()
        await thief.run(TAKE_AWAY, WORKER)
        async with asyncio.TaskGroup() as tasks, hand(postgres_url) as eyes:
            late = tasks.create_task(store.writer(WORKER).commit(KINDS[kind](fence)))
            await until(eyes.somebody_waits)
            await thief.commit()
        assert late.result().fate is Fate.LOST
        assert await store.history(["r"]) == {"r": []}
        assert await store.counts() == {"running": 1}
        assert [run.uid for run in await store.claim(wanted(OTHER))] == ["r"]
        assert await check(store) == []


@pytest.mark.parametrize("kind", KINDS)
async def test_a_takeover_of_one_worker_leaves_the_others_of_a_batch_alone(
    postgres_url: str, kind: str
) -> None:
    async with open_store(postgres_url) as store, hand(postgres_url) as thief:
        fence = (await claimed(store, "r"))["r"].fence
        kept = (await claimed(store, "kept", worker=OTHER))["kept"].fence
        group = store.group_commit
        group.lanes = group.lanes[:1]  # so that they meet in one batch
        await thief.begin()
        await thief.run(TAKE_AWAY, WORKER)
        async with asyncio.TaskGroup() as tasks, hand(postgres_url) as eyes:
            late = tasks.create_task(store.writer(WORKER, group).commit(KINDS[kind](fence)))
            end = Commit("kept", kept, (a_record("kept"),), Move("succeeded", result=b"1"))
            other = tasks.create_task(store.writer(OTHER, group).commit(end))
            await until(eyes.somebody_waits)
            # Leases are locked before runs, so that no two transactions wait for each other.
            assert len(await thief.run(LOCK_NOW)) == 2
            await thief.commit()
        assert (late.result().fate, other.result().fate) == (Fate.LOST, Fate.DONE)
        assert await store.history(["r"]) == {"r": []}
        assert len((await store.history(["kept"]))["kept"]) == 1


async def test_runs_are_released_after_the_batch_that_is_being_written(postgres_url: str) -> None:
    async with open_store(postgres_url) as store, hand(postgres_url) as blocked:
        fence = (await claimed(store, "r"))["r"].fence
        await store.take_lease(OTHER, LONG)
        await blocked.begin()
        await blocked.write(WORKER, KINDS["a record"](fence))
        async with asyncio.TaskGroup() as tasks, hand(postgres_url) as eyes:
            releasing = tasks.create_task(store.release_others(WORKER, (), LONG))
            await until(eyes.somebody_waits)
            assert await store.claim(wanted(OTHER)) == []
            await blocked.commit()
        assert releasing.result() == {"r": fence}
        assert [run.uid for run in await store.claim(wanted(OTHER))] == ["r"]
        assert len((await store.history(["r"]))["r"]) == 1


@pytest.mark.parametrize("kind", KINDS)
async def test_a_batch_that_waits_while_its_runs_are_released_writes_nothing(
    postgres_url: str, kind: str
) -> None:
    async with open_store(postgres_url) as store, hand(postgres_url) as releasing:
        fence = (await claimed(store, "r"))["r"].fence
        await store.take_lease(OTHER, LONG)
        await releasing.begin()
        await release(releasing.tx, WORKER, {"r": fence}, LONG)
        async with asyncio.TaskGroup() as tasks, hand(postgres_url) as eyes:
            late = tasks.create_task(store.writer(WORKER).commit(KINDS[kind](fence)))
            await until(eyes.somebody_waits)
            await releasing.commit()
        assert late.result().fate is Fate.LOST
        assert await store.history(["r"]) == {"r": []}
        assert await store.renew_lease(WORKER) is not None
        assert await check(store) == []


async def test_a_process_that_stands_still_in_a_transaction_does_not_keep_its_runs(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(pool._SETTINGS, "idle_in_transaction_session_timeout", "100")
    async with open_store(postgres_url) as store, open_store(postgres_url) as renewer:
        fence = (await claimed(store, "r"))["r"].fence
        await store.take_lease(OTHER, LONG)
        has_lease, goes_on = asyncio.Event(), asyncio.Event()

        async def stand_still(tx: Tx) -> None:
            if await tx.leased(WORKER):
                has_lease.set()
            await goes_on.wait()

        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(store.write(stand_still))
            await has_lease.wait()
            assert await renewer.release_others(WORKER, (), LONG) == {"r": fence}
            goes_on.set()


async def test_a_lease_that_nobody_takes_in_the_end_still_writes(postgres_url: str) -> None:
    async with open_store(postgres_url) as store, hand(postgres_url) as thief:
        fence = (await claimed(store, "r"))["r"].fence
        await thief.begin()
        await thief.run(TAKE_AWAY, WORKER)
        async with asyncio.TaskGroup() as tasks, hand(postgres_url) as eyes:
            late = tasks.create_task(store.writer(WORKER).commit(KINDS["an end"](fence)))
            await until(eyes.somebody_waits)
            await thief.roll_back()
        assert late.result().fate is Fate.DONE
        assert (await store.run("r")).state == "succeeded"


async def test_a_lease_is_renewed_while_a_batch_waits(postgres_url: str) -> None:
    async with open_store(postgres_url) as store, hand(postgres_url) as other:
        fence = (await claimed(store, "r"))["r"].fence
        await other.begin()
        await other.run("SELECT 1 FROM onward.onward_run WHERE uid = 'r' FOR UPDATE")
        async with asyncio.TaskGroup() as tasks, hand(postgres_url) as eyes:
            waits = tasks.create_task(store.writer(WORKER).commit(KINDS["an end"](fence)))
            await until(eyes.somebody_waits)
            before = await store.renew_lease(WORKER)
            after = await store.renew_lease(WORKER)
            assert before is not None
            assert after is not None
            assert before < after
            assert not waits.done()
            await other.commit()
        assert waits.result().fate is Fate.DONE


async def test_neither_leases_nor_writes_wait_for_readers_that_are_stuck(
    postgres_url: str,
) -> None:
    async with open_store(postgres_url) as store, hand(postgres_url) as other:
        fence = (await claimed(store, "r"))["r"].fence
        await other.begin()
        await other.run("LOCK TABLE onward.onward_handler IN ACCESS EXCLUSIVE MODE")
        async with asyncio.TaskGroup() as tasks, hand(postgres_url) as eyes:
            read = partial(tx_reads, "handler_row", handler="rows", key="")
            stuck = [tasks.create_task(store.read(read)) for _ in range(20)]
            await until(eyes.somebody_waits)
            async with asyncio.timeout(30):
                assert await store.renew_lease(WORKER) is not None
                assert (await store.start(a_run("new"))).created
                outcome = await store.writer(WORKER).commit(KINDS["a record"](fence))
            assert outcome.fate is Fate.DONE
            assert not any(task.done() for task in stuck)
            await other.commit()


async def tx_reads(name: str, tx: Tx, **given: str) -> int:
    return len(await tx.fetch(name, **given))
