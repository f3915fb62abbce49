"""A process killed at a failpoint: what it was told is there, the rest is whole or absent."""

import asyncio
from pathlib import Path

import pytest

from onward.store import open_store
from onward.store.invariants import check
from onward.telemetry.failpoints import VARIABLE
from tests.e2e.store.conftest import Spawn
from tests.e2e.store.notes import Notes, read
from tests.e2e.store.restartable_client import RUNS, run_client

ONCE = [
    f"{name}.{side}@1"
    for name in ("claim", "migrate", "renew", "send", "start")
    for side in ("before", "after")
]
# Every write is a commit: those of starts, messages, claims, records and ends among them.
COMMITS = [f"commit.{side}@{hit}" for side in ("before", "after") for hit in (1, 2, 7, 8, 9)]


@pytest.mark.parametrize("point", [*ONCE, *COMMITS])
async def test_a_process_killed_at(point: str, url: str, spawn: Spawn, tmp_path: Path) -> None:
    name, hit = point.split("@")
    file = tmp_path / "notes"
    killed = spawn(
        "tests.e2e.store.restartable_client", url, file, **{VARIABLE: f"{name}=kill@{hit}"}
    )
    assert await asyncio.to_thread(killed.wait, 30) == -9
    await everything_noted_is_there(url, list(read(file)))
    with Notes(tmp_path / "again") as notes:
        await run_client(url, notes)
    await everything_is_done_once(url)


async def everything_noted_is_there(url: str, notes: list[list[str]]) -> None:
    async with open_store(url) as store:
        assert await check(store) == []
        for word, *uids in notes:
            for uid in uids:
                run, history = await store.run(uid), (await store.history([uid]))[uid]
                if word == "sent":
                    assert [m.seq for m in (await store.look([uid]))[uid]] == [1]
                elif word == "claimed":
                    assert run.fence > 0
                elif word == "recorded":
                    assert [record.seq for record in history] == [1]
                elif word == "ended":
                    assert run.state == "succeeded"
        for end in await store.ends(RUNS):
            assert (end.state, end.result) == ("succeeded", b"1")


async def everything_is_done_once(url: str) -> None:
    async with open_store(url) as store:
        assert await store.counts() == {"succeeded": len(RUNS)}
        histories, inboxes = await store.history(RUNS), await store.look(RUNS)
        for uid in RUNS:
            assert [record.seq for record in histories[uid]] == [1]
            assert [message.seq for message in inboxes[uid]] == [1]
        assert await check(store) == []
