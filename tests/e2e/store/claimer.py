"""A process with two claimers that takes runs, gives some back, leaves some behind, ends the rest.

    python -m tests.e2e.store.claimer URL NOTES NAME COUNT

It ends when so many runs are over. It notes `here` at first, then `claim UID FENCE TIME` once it
has a run, and `end UID FENCE TIME` before it lets go of it. The time is the system's monotonic
clock, which all processes share.
"""

from __future__ import annotations

import asyncio
import random
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from onward.core.instant import SECOND
from onward.core.lease import Fate
from onward.core.run import rooms_beside
from onward.model.runs import Move
from onward.store import Commit, Store, Wanted, open_store
from tests.e2e.store.notes import Notes

if TYPE_CHECKING:
    from onward.model.runs import ClaimedRun

BATCH = 7
LEAVES = 0.05  # how often a claimer goes away with runs in its name
GIVES_BACK = 0.2


class Claimer:
    """One worker after the other, under names that are never used twice."""

    def __init__(self, store: Store, notes: Notes, name: str) -> None:
        self._store = store
        self._notes = notes
        self._name = name
        self._randomness = random.Random(name)
        self._generation = 0

    @property
    def worker(self) -> str:
        return f"{self._name}.{self._generation}"

    async def work(self, count: int) -> None:
        """Claim until so many runs are over."""
        await self._store.take_lease(self.worker, 3600 * SECOND)
        while True:
            wanted = Wanted(
                self.worker, ("default",), ("hello",), BATCH, suspects=rooms_beside((), BATCH)
            )
            runs = await self._store.claim(wanted)
            for run in runs:
                self._note("claim", run)
            if not runs and await self._store.counts() == {"succeeded": count}:
                return
            if runs and self._randomness.random() < LEAVES:
                await self._leave(runs)
            else:
                await asyncio.gather(*map(self._let_go, runs))

    async def _leave(self, runs: list[ClaimedRun]) -> None:
        for run in runs:
            self._note("end", run)
        await self._store.drop_lease(self.worker)
        self._generation += 1
        await self._store.take_lease(self.worker, 3600 * SECOND)

    async def _let_go(self, run: ClaimedRun) -> None:
        state = "ready" if self._randomness.random() < GIVES_BACK else "succeeded"
        self._note("end", run)
        commit = Commit(run.uid, run.fence, move=Move(state))
        outcome = await self._store.writer(self.worker).commit(commit)
        assert outcome.fate is Fate.DONE, (run, outcome)

    def _note(self, word: str, run: ClaimedRun) -> None:
        self._notes.add(word, run.uid, run.fence, time.monotonic_ns())


async def main(url: str, file: str, name: str, count: str) -> None:
    with Notes(Path(file)) as notes:
        async with open_store(url) as store, asyncio.TaskGroup() as tasks:
            notes.add("here")
            for half in "ab":
                tasks.create_task(Claimer(store, notes, name + half).work(int(count)))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
