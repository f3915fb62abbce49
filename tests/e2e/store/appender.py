"""A process that adds records to the runs of its queue until it is told to stop, or is killed.

    python -m tests.e2e.store.appender URL NOTES QUEUE

It notes `RUN SEQ` for each record that was acknowledged, and stops when there is a file NOTES.stop.
"""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from onward.core.instant import SECOND
from onward.core.lease import Fate
from onward.core.run import rooms_beside
from onward.model.runs import Move
from onward.store import Commit, Store, Wanted, open_store
from tests.e2e.store.notes import Notes
from tests.postgres.builders import a_record

if TYPE_CHECKING:
    from onward.model.runs import ClaimedRun

RUNS_EACH = 5


def is_there(file: str) -> bool:
    return Path(file).exists()


async def append(store: Store, worker: str, run: ClaimedRun, notes: Notes, stop: str) -> None:
    writer = store.writer(worker)
    await writer.commit(Commit(run.uid, run.fence, move=Move("running")))  # it got on: no suspect
    seq = len((await store.history([run.uid]))[run.uid])
    while not is_there(stop):
        seq += 1
        outcome = await writer.commit(Commit(run.uid, run.fence, (a_record(run.uid, seq),)))
        assert outcome.fate is Fate.DONE, (run, outcome)
        notes.add(run.uid, seq)


async def main(url: str, file: str, queue: str) -> None:
    worker = f"{queue}-{os.getpid()}"
    with Notes(Path(file)) as notes:
        async with open_store(url) as store, asyncio.TaskGroup() as tasks:
            await store.take_lease(worker, 3600 * SECOND)
            wanted = Wanted(
                worker, (queue,), ("hello",), RUNS_EACH, suspects=rooms_beside((), RUNS_EACH)
            )
            found = 0
            while found < RUNS_EACH:
                for run in await store.claim(wanted):
                    found += 1
                    tasks.create_task(append(store, worker, run, notes, f"{file}.stop"))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
