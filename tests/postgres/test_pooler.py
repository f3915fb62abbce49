"""Behind a transaction pooler everything works, without LISTEN and without prepared statements."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from onward.core.lease import Fate
from onward.errors import StoreUnusable
from onward.model.runs import Move
from onward.store import Commit, Store, open_store
from onward.store.invariants import check
from tests.postgres.builders import WORKER, a_message, a_record, a_run, claimed, wanted
from tests.postgres.contents import contents, undisturbed
from tests.postgres.hand import hand, until
from tests.postgres.pooler import Pooler
from tests.postgres.writes import WRITES, prepare


@asynccontextmanager
async def pooled(url: str, *, plainly: bool) -> AsyncIterator[Store]:
    """A store that is told of a pooler: a real one, or none at all."""
    if plainly:
        async with open_store(f"{url}&pgbouncer=true") as store:
            yield store
        return
    async with Pooler(url) as pooler, open_store(f"{pooler.url}?pgbouncer=true") as store:
        yield store
        assert pooler.handed_out > 10


@pytest.mark.parametrize("plainly", [True, False])
async def test_a_run_lives_its_whole_life_behind_a_pooler(empty_url: str, plainly: bool) -> None:
    async with pooled(empty_url, plainly=plainly) as store:
        assert not store.database.capabilities.listen
        await store.start(a_run("parent"))
        fence = (await claimed(store, "parent"))["parent"].fence
        writer = store.writer(WORKER)
        wait = a_record("parent", None, kind="child")
        child = a_run("child", parent="parent")
        park = Commit("parent", fence, (wait,), Move("waiting", seen=0), starts=(child,))
        assert (await writer.commit(park)).fate is Fate.DONE
        [run] = await store.claim(wanted())
        assert await store.renew_lease(WORKER) is not None
        told = a_message("parent", "child", kind="child")
        end = Commit("child", run.fence, move=Move("succeeded", result=b"1"), messages=(told,))
        assert (await writer.commit(end)).fate is Fate.DONE
        [run] = await store.claim(wanted())
        assert [m.message for m in (await store.look([run.uid]))[run.uid]] == ["child"]
        done = Commit("parent", run.fence, (a_record("parent"),), Move("failed", "logic"))
        assert (await writer.commit(done)).fate is Fate.DONE
        assert await store.counts() == {"failed": 1, "succeeded": 1}
        assert await check(store) == []


@pytest.mark.parametrize("name", WRITES)
async def test_every_write_does_behind_a_pooler_what_it_does_without(
    name: str, postgres_url: str, tmp_path: Path
) -> None:
    call = WRITES[name].call
    async with pooled(postgres_url, plainly=False) as store:
        await prepare(store)
        answer = await call(store)
    assert (answer, await contents(postgres_url)) == await undisturbed(call, tmp_path / "other.db")


async def test_many_at_once_behind_a_pooler_do_not_get_each_others_answers(
    empty_url: str,
) -> None:
    async with pooled(empty_url, plainly=False) as store:
        uids = [f"r{number}" for number in range(40)]
        await asyncio.gather(*(store.start(a_run(uid)) for uid in uids))
        await store.take_lease(WORKER)
        calls = [store.run(uid) for uid in uids]
        rows, owned, _ = await asyncio.gather(
            asyncio.gather(*calls), store.claim(wanted()), store.renew_lease(WORKER)
        )
        assert [row.uid for row in rows] == uids
        assert sorted(run.uid for run in owned) == sorted(uids)


async def test_without_hints_from_others_polling_finds_what_happened(empty_url: str) -> None:
    async with pooled(empty_url, plainly=True) as near, pooled(empty_url, plainly=True) as far:
        with near.subscribe({"queue:default"}) as subscription:
            await far.start(a_run("r"))
            assert await subscription.wait(0.05) == set()
            assert await near.counts() == {"ready": 1}
            await near.start(a_run("ours"))
            assert await subscription.wait(5) == {
                "queue:default"
            }  # those of this process are heard


async def test_a_lock_held_for_long_is_given_up_behind_a_pooler_too(empty_url: str) -> None:
    """No setting of the session lasts there, so the statement brings its own."""
    async with pooled(empty_url, plainly=True) as store, hand(empty_url) as stranger:
        fence = (await claimed(store, "r"))["r"].fence
        await stranger.begin()
        await stranger.run("SELECT 1 FROM onward.onward_run WHERE uid = 'r' FOR UPDATE")
        async with asyncio.TaskGroup() as tasks, hand(empty_url) as eyes:
            ours = tasks.create_task(
                store.writer(WORKER).commit(Commit("r", fence, move=Move("succeeded")))
            )
            await until(eyes.somebody_waits)
            await until(eyes.nobody_waits)
            assert not ours.done()
            await stranger.commit()
        assert ours.result().fate is Fate.DONE


async def test_a_pooler_that_nobody_told_us_of_is_named_in_the_error(empty_url: str) -> None:
    async with Pooler(empty_url) as pooler:
        with pytest.raises(StoreUnusable, match=r"Add \?pgbouncer=true to the address"):
            async with open_store(pooler.url):
                raise AssertionError("it opened")
