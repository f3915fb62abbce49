"""A reply that is lost costs time only: the statement is sent again and finds its own result."""

import asyncio
from pathlib import Path

import pytest

from onward.errors import Unavailable
from onward.model.commits import Commit
from onward.model.records import NewRecord
from onward.store import open_store
from onward.store.invariants import check
from onward.store.postgres import pool
from onward.testing.proxy import LossyProxy
from tests.postgres.builders import WORKER, a_run, claimed, wanted
from tests.postgres.contents import contents, undisturbed
from tests.postgres.hand import STATEMENTS
from tests.postgres.writes import WRITES, prepare


@pytest.mark.parametrize("lost", ["request", "reply"])
@pytest.mark.parametrize("name", WRITES)
async def test_a_write_whose_request_or_reply_is_lost_is_made_once(
    name: str, lost: str, postgres_url: str, tmp_path: Path
) -> None:
    write = WRITES[name]
    answer, rows = await undisturbed(write.call, tmp_path / "other.db")
    async with LossyProxy(postgres_url) as proxy, open_store(proxy.url) as store:
        await prepare(store)
        arm = proxy.drop_request if lost == "request" else proxy.drop_reply_after_commit
        fault = arm(write.sql.encode())
        found = await write.call(store)
        assert fault.happened.is_set()
        carried_out = lost == "reply" and write.again is not None
        assert found == (write.again if carried_out else answer)
        assert await contents(postgres_url) == rows
        assert await check(store) == []


async def test_a_reply_that_is_lost_again_and_again_costs_no_more(postgres_url: str) -> None:
    write = WRITES["end of a consumer"]
    async with LossyProxy(postgres_url) as proxy, open_store(proxy.url) as store:
        await prepare(store)
        for _ in range(4):
            proxy.drop_reply_after_commit(write.sql.encode())
        assert await write.call(store) == await write.call(store) == "done"
        assert await check(store) == []


async def test_a_commit_whose_reply_was_lost_is_told_with_the_time_it_was_written_at(
    postgres_url: str,
) -> None:
    async with LossyProxy(postgres_url) as proxy, open_store(proxy.url) as store:
        run = (await claimed(store, "r"))["r"]
        fault = proxy.drop_reply_after_commit(STATEMENTS["commit_records"].sql.encode())
        record = NewRecord(run.uid, ":a#1", 1, 1, "step", "a", "succeeded")
        outcome = await store.writer(WORKER).commit(Commit(run.uid, run.fence, (record,)))

        assert fault.happened.is_set()
        [row] = (await store.history([run.uid]))[run.uid]
        assert row.closed_at == outcome.at


async def test_runs_whose_claim_was_not_answered_come_back_through_the_audit(
    postgres_url: str,
) -> None:
    async with LossyProxy(postgres_url) as proxy, open_store(proxy.url) as store:
        known = await claimed(store, "known")
        for uid in ("a", "b", "c"):
            await store.start(a_run(uid))
        proxy.drop_reply_after_commit(STATEMENTS["claim"].sql.encode())
        assert await store.claim(wanted()) == []
        assert set(await store.owned(WORKER)) == {"known", "a", "b", "c"}
        assert sorted(await store.audit(WORKER, known)) == ["a", "b", "c"]
        again = await store.claim(wanted())
        assert sorted((run.uid, run.fence, run.crashes) for run in again) == [
            ("a", 3, 0), ("b", 3, 0), ("c", 3, 0),  # an audit raises the fence too
        ]  # fmt: skip
        assert await store.audit(WORKER, {"known", "a", "b", "c"}) == []


async def test_a_batch_of_many_whose_reply_is_lost_answers_each_right(postgres_url: str) -> None:
    async with LossyProxy(postgres_url) as proxy, open_store(proxy.url) as store:
        proxy.drop_reply_after_commit(STATEMENTS["start"].sql.encode(), skip=1)
        starts = [store.start(a_run(f"r{number}")) for number in range(50)]
        starts += [store.start(a_run(f"again {number}", id="id of r1")) for number in range(5)]
        answers = await asyncio.gather(*starts)
        assert [answer.created for answer in answers] == [True] * 50 + [False] * 5
        assert {answer.uid for answer in answers[50:]} == {"r1"}
        assert await store.counts() == {"ready": 50}


async def test_a_network_that_swallows_everything_is_told_in_bounded_time(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody waits for longer than the patience and one command, and it heals by itself."""
    monkeypatch.setattr(pool, "COMMAND_SECONDS", 0.3)
    monkeypatch.setattr(pool, "CONNECT_SECONDS", 0.3)
    async with LossyProxy(postgres_url) as proxy, open_store(proxy.url) as store:
        await prepare(store)
        proxy.freeze()
        with monkeypatch.context() as meanwhile:
            meanwhile.setattr(pool, "PATIENCE_SECONDS", 0.5)
            calls = [store.counts(), *(write.call(store) for write in WRITES.values())]
            async with asyncio.timeout(60):
                answers = await asyncio.gather(*calls, return_exceptions=True)
        proxy.thaw()
        assert {type(answer) for answer in answers} == {Unavailable}
        assert (await store.start(a_run("after"))).created
