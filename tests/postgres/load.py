"""Many clients and runs that write all the time and note what they were promised."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from onward.core.lease import Fate
from onward.errors import Unavailable
from onward.store import Commit
from tests.postgres.builders import WORKER, a_message, a_record, a_run, claimed

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from onward.store import Store

T = TypeVar("T")

RUNS = [f"r{number}" for number in range(30)]
CLIENTS = range(10)


@dataclass
class Load:
    """Fifty writers: thirty runs that record, ten clients that start and ten that send."""

    store: Store
    over: asyncio.Event = field(default_factory=asyncio.Event)
    recorded: Counter[str] = field(default_factory=Counter)
    started: list[str] = field(default_factory=list)
    sent: Counter[str] = field(default_factory=Counter)
    refused: int = 0

    @property
    def writes(self) -> int:
        return self.recorded.total() + len(self.started) + self.sent.total()

    async def more(self, count: int) -> None:
        """Wait until so many more writes were acknowledged."""
        goal = self.writes + count
        async with asyncio.timeout(60):
            while self.writes < goal:  # noqa: ASYNC110 - fifty tasks count here
                await asyncio.sleep(0.005)

    async def insist(self, call: Callable[[], Awaitable[T]]) -> T:
        """Do as a client does that is told that the store is away: ask again."""
        while True:
            try:
                return await call()
            except Unavailable:
                self.refused += 1

    async def record(self, run: str, fence: int) -> None:
        writer = self.store.writer(WORKER)
        while not self.over.is_set():
            commit = Commit(run, fence, (a_record(run, self.recorded[run] + 1),))
            outcome = await self.insist(partial(writer.commit, commit))
            assert outcome.fate is Fate.DONE
            self.recorded[run] += 1

    async def start(self, client: int) -> None:
        for number in range(10**9):
            if self.over.is_set():
                return
            run = a_run(f"{client}-{number}")
            answer = await self.insist(partial(self.store.start, run))
            assert answer.created
            self.started.append(run.uid)

    async def send(self, client: int) -> None:
        run = RUNS[client]
        while not self.over.is_set():
            message = a_message(run, f"{self.sent[run] + 1}")
            await self.insist(partial(self.store.send, message))
            self.sent[run] += 1

    async def check(self) -> None:
        """See that everything that was acknowledged is there, once and in order."""
        histories = await self.store.history(RUNS)
        inboxes = await self.store.look(RUNS)
        for run in RUNS:
            positions = [record.seq for record in histories[run]]
            assert positions == list(range(1, self.recorded[run] + 1))
            names = [message.message for message in inboxes[run]]
            assert names == [str(number + 1) for number in range(self.sent[run])]
        assert (await self.store.counts()) == {"running": len(RUNS), "ready": len(self.started)}


@asynccontextmanager
async def load(store: Store) -> AsyncIterator[Load]:
    """Keep fifty writers busy while the block runs; then see that nothing they wrote is lost."""
    fences = {run.uid: run.fence for run in (await claimed(store, *RUNS)).values()}
    work = Load(store)
    async with asyncio.TaskGroup() as tasks:
        for run in RUNS:
            tasks.create_task(work.record(run, fences[run]))
        for client in CLIENTS:
            tasks.create_task(work.start(client))
            tasks.create_task(work.send(client))
        await work.more(100)
        yield work
        await work.more(100)
        work.over.set()
    await work.check()
