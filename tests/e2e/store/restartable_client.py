"""A process that starts, tells, claims and ends a few runs, and notes each answer it got.

    python -m tests.e2e.store.restartable_client URL NOTES

It may be run again after it was killed anywhere: everything in it can be repeated.
"""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

from onward.core.instant import SECOND
from onward.core.lease import Fate
from onward.core.run import rooms_beside
from onward.model.runs import Move
from onward.store import Commit, Store, open_store
from tests.e2e.store.notes import Notes
from tests.postgres.builders import a_message, a_record, a_run, wanted

RUNS = ["r0", "r1", "r2"]


async def run_client(url: str, notes: Notes) -> None:
    """Do everything that is still to be done."""
    async with open_store(url) as store:
        notes.add("opened")
        for uid in RUNS:
            answer = await store.start(a_run(uid))
            assert answer.created
            notes.add("started", uid)
            sent = await store.send(a_message(uid))
            assert sent.fate in {"delivered", "duplicate", "ended"}, sent
            notes.add("sent", uid)
        await _work(store, f"worker-{os.getpid()}", notes)


async def _work(store: Store, worker: str, notes: Notes) -> None:
    # Short, for a dead worker's lease is ended by one that has renewed its own for as long.
    length = SECOND // 4
    assert await store.take_lease(worker, length) is not None
    notes.add("leased")
    writer = store.writer(worker)
    while set(await store.counts()) != {"succeeded"}:
        assert await store.renew_lease(worker, length) is not None
        for run in await store.claim(wanted(worker, suspects=rooms_beside((), 9))):
            notes.add("claimed", run.uid)
            record = Commit(run.uid, run.fence, (a_record(run.uid),))
            assert (await writer.commit(record)).fate is Fate.DONE
            notes.add("recorded", run.uid)
            assert await store.renew_lease(worker, length) is not None
            end = Commit(run.uid, run.fence, move=Move("succeeded", seq=1, result=b"1"))
            assert (await writer.commit(end)).fate is Fate.DONE
            notes.add("ended", run.uid)


def main(url: str, file: str) -> None:
    with Notes(Path(file)) as notes:
        asyncio.run(run_client(url, notes))


if __name__ == "__main__":
    main(*sys.argv[1:])
