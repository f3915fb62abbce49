"""Two owners that each think they are the first to write a row: one is, and the other is told."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from onward.core.lease import Fate
from onward.model.effects import EffectWrite
from onward.model.runs import NewRun
from onward.store import Attachments, Commit, Wanted, open_store
from onward.store.invariants import check

if TYPE_CHECKING:
    from onward.store.store import Store

ROUNDS = 60


async def owner(store: Store, worker: str, count: int) -> list[tuple[str, int]]:
    """Return runs that a worker owns, with their fences."""
    await store.take_lease(worker)
    for number in range(count):
        uid = f"{worker}-{number:03}"
        await store.start(NewRun(uid, uid, worker, b"json:1", "h"))
    claimed = await store.claim(Wanted(worker, ("default",), (worker,), limit=count))
    return [(run.uid, run.fence) for run in claimed]


def an_effect(run: str, number: int) -> Attachments:
    row = EffectWrite(f"key-{number}", run, ":e#1", "e", "", b"json:1", "h", "in_flight", 1, 1)
    return Attachments(effects=(row,))


async def test_of_two_first_writers_of_an_effect_one_is_told_to_look_again(
    postgres_url: str,
) -> None:
    async with open_store(postgres_url) as one, open_store(postgres_url) as other:
        mine, theirs = await owner(one, "one", ROUNDS), await owner(other, "other", ROUNDS)

        for number, (a, b) in enumerate(zip(mine, theirs, strict=True)):
            outcomes = await asyncio.gather(
                one.writer("one").commit(Commit(*a, attached=an_effect(a[0], number))),
                other.writer("other").commit(Commit(*b, attached=an_effect(b[0], number))),
            )
            assert sorted(outcome.fate for outcome in outcomes) == [Fate.BUSY, Fate.DONE]
        assert await check(one) == []
