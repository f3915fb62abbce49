"""A worker as the suite drives it: it claims and commits when told, and remembers nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from onward.core.run import MAX_CRASHES, TOGETHER
from onward.model.commits import NOTHING_ATTACHED
from onward.store import Commit, Wanted
from tests.conformance.suite.samples import NAME, QUEUE, a_run

if TYPE_CHECKING:
    from onward.core.instant import Instant
    from onward.model.claims import ClaimNotes
    from onward.model.messages import NewMessage
    from onward.model.records import NewRecord
    from onward.model.runs import ClaimedRun, Move, NewRun
    from onward.store import Attachments, CommitOutcome, Store


@dataclass(frozen=True)
class Worker:
    """A worker's name, and the store that it works on."""

    store: Store
    name: str

    async def claim(
        self,
        limit: int = 10,
        *,
        queues: tuple[str, ...] = (QUEUE,),
        names: tuple[str, ...] = (NAME,),
        version: str | None = None,
        tags: tuple[str, ...] = (),
        suspects: int = 1,
        limited: bool = False,
        max_bytes: int | None = None,
        notes: ClaimNotes | None = None,
    ) -> list[ClaimedRun]:
        """Claim what there is of the suite's usual runs, or of others."""
        rooms = tuple((crashes, suspects) for crashes in (MAX_CRASHES, *TOGETHER))
        return await self.store.claim(
            Wanted(self.name, queues, names, limit, version, tags, rooms, limited, max_bytes), notes
        )

    async def adopt(self, limit: int = 10, *, suspects: int = 1) -> list[ClaimedRun]:
        """Claim twice: one claim may end a lease that ran out, and only the next see its runs."""
        first = await self.claim(limit, suspects=suspects)
        return first or await self.claim(limit, suspects=suspects)

    async def given(self, *runs: NewRun) -> list[ClaimedRun]:
        """Start runs and claim them, in the order given."""
        for run in runs:
            assert (await self.store.start(run)).created
        claimed = {run.uid: run for run in await self.claim(len(runs))}
        assert set(claimed) == {run.uid for run in runs}, "other runs were there to be claimed"
        return [claimed[run.uid] for run in runs]

    async def owning(self, *ids: str) -> list[ClaimedRun]:
        """Start plain runs of these ids and claim them."""
        return await self.given(*map(a_run, ids))

    async def commit(
        self,
        run: ClaimedRun,
        *records: NewRecord,
        move: Move | None = None,
        messages: tuple[NewMessage, ...] = (),
        starts: tuple[NewRun, ...] = (),
        attached: Attachments = NOTHING_ATTACHED,
    ) -> CommitOutcome:
        """Commit for a run under the fence with which it was claimed."""
        writer = self.store.writer(self.name)
        return await writer.commit(
            Commit(run.uid, run.fence, records, move, messages, starts, attached)
        )

    async def renew(self) -> Instant | None:
        """Prolong the lease."""
        return await self.store.renew_lease(self.name)

    async def leave(self) -> None:
        """Give the lease up."""
        await self.store.drop_lease(self.name)
