"""Reads of runs, their histories and inboxes, workers and maintenance."""

from __future__ import annotations

from operator import itemgetter
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from onward.core.ids import is_uid, uid7
from onward.core.instant import HOUR, instant_text
from onward.core.run import TERMINAL, RunState
from onward.errors import NotFound
from onward.model.messages import InboxRow
from onward.model.records import RecordRow
from onward.model.run_filter import ANY_RUN
from onward.model.runs import EndState, NotesRow, RunEnd, RunOutcome, RunRow
from onward.model.workers import WorkerRow
from onward.store.abbreviation import UID, beyond, bounds
from onward.store.runs.flows import all_flows, flows_of
from onward.store.runs.listing import count_runs, counts, listed
from onward.store.runs.maintenance import maintenance_due
from onward.store.runs.worker_offer import last_renewal, unserved, why_unserved
from onward.store.writing.text_limits import is_storable

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence

    from onward.core.flow import FlowId
    from onward.core.instant import Instant
    from onward.model.flow import FlowRow
    from onward.model.maintenance import MaintenanceDue
    from onward.model.run_filter import RunQuery
    from onward.model.workers import Renewal, Unserved
    from onward.store.database import Database, Tx

T = TypeVar("T")

_ENDS = {*TERMINAL, RunState.PAUSED}

MAX_PAYLOAD_BYTES = 2**62
"""No limit."""

UNCOMMITTED = HOUR
"""A run that is not there, and is older, was deleted: no caller's transaction is as long."""

MAX_COUNT = 10_000
"""Up to how many runs of a state are counted."""

_as_json = msgspec.json.Encoder().encode


class Reads:
    """The reading half of a store."""

    database: Database
    namespace: str

    # --- runs ------------------------------------------------------------------------------------

    async def run(self, uid: str) -> RunRow:
        """Return a run.

        Raises:
            NotFound: there is none of that uid.
        """
        return RunRow._make(await self._one("run_by_uid", uid=uid))

    async def ids_and_states(self, uids: Iterable[str]) -> dict[str, tuple[str, str]]:
        """Return the ids and states of those runs that are there."""
        wanted = dict.fromkeys(uids)
        rows = await self.read(lambda tx: tx.fetch("ids_and_states", uids=tx.array(wanted)))
        return {row[0]: (row[1], row[2]) for row in rows}

    async def failed_children(self, uid: str) -> list[tuple[str, str]]:
        """Return the children of a run that ended without a result, with the calls they are for."""
        rows = await self.read(lambda tx: tx.fetch("failed_children", uid=uid))
        return sorted((row[0], row[1]) for row in rows)

    async def sent_by_forks(self, uid: str, cut: int) -> list[str]:
        """Return effects that forks below a run sent, for calls of the run from `cut` on."""
        rows = await self.read(lambda tx: tx.fetch("sent_by_forks", uid=uid, cut=cut))
        return [f"{name} ({key})" for name, key in rows]

    async def newest(self, id: str) -> RunRow:  # noqa: A002 - it is the user's word
        """Return the newest run of an id.

        Raises:
            NotFound: no effect has that id.
        """
        return RunRow._make(await self._one("newest_run", id=id))

    async def end(self, uid: str) -> RunEnd:
        """Return the input and the outcome of a run.

        Raises:
            NotFound: there is none of that uid.
        """
        return RunEnd._make(await self._one("run_end", uid=uid))

    async def ends(self, uids: Iterable[str]) -> list[RunEnd]:
        """Return the outcomes of those runs that have ended or are paused."""
        wanted = dict.fromkeys(uids)
        rows = await self.read(lambda tx: tx.fetch("run_ends", uids=tx.array(wanted)))
        return [RunEnd._make(row) for row in rows]

    async def end_states(self, uids: Iterable[str]) -> list[EndState]:
        """Return the states of those runs that have ended or are paused."""
        found = await self.ids_and_states(uids)
        return [EndState(uid, state) for uid, (_, state) in found.items() if state in _ENDS]

    async def gone(self, uids: Iterable[str]) -> list[str]:
        """Return those of some runs that were deleted."""
        wanted = dict.fromkeys(uids)

        async def ask(tx: Tx) -> Sequence[Sequence[Any]]:
            [[now]] = await tx.fetch("clock")
            below = uid7(max(0, now - UNCOMMITTED), 0)
            return await tx.fetch("runs_gone", uids=tx.array(wanted), below=below)

        return [row[0] for row in await self.read(ask)]

    async def not_found(self, target: str) -> NotFound:
        """Return the error that there is no run of this id or uid: it may have been deleted."""
        rows = await self.read(lambda tx: tx.fetch("tombstone", target=target))
        if rows:
            id, finished_at, marked_at, _ = rows[0]  # noqa: A001 - it is the user's word
            ended, deleted = instant_text(finished_at), instant_text(marked_at)
            advice = f"It ended at {ended} and was deleted by retention at {deleted}"
            return NotFound("run", id or target, self.namespace, advice)
        advice = "It may have been deleted by retention" if is_uid(target) else NotFound.advice
        return NotFound("run", target, self.namespace, advice)

    async def outcomes(self, uids: Iterable[str]) -> dict[str, RunOutcome]:
        """Return the errors of runs, what follows them, and the ids of runs that they belong to."""
        wanted = dict.fromkeys(uids)
        rows = await self.read(lambda tx: tx.fetch("outcomes", uids=tx.array(wanted)))
        return {row[0]: RunOutcome._make(row) for row in rows}

    async def notes(self, uid: str) -> list[bytes]:
        """Return the notes of a run."""
        return [row[0] for row in await self.read(lambda tx: tx.fetch("notes", uid=uid))]

    async def all_notes(self, uids: Iterable[str]) -> dict[str, NotesRow]:
        """Return the attributes and notes of runs."""
        found = {uid: NotesRow(None, []) for uid in uids}
        for uid, noted, payload in await self.read(
            lambda tx: tx.fetch("all_notes", uids=tx.array(found))
        ):
            if noted:
                found[uid].notes.append(payload)
            else:
                found[uid] = NotesRow(payload, found[uid].notes)
        return found

    async def counts(self, limit: int = MAX_COUNT) -> dict[str, int]:
        """Return how many runs are in each state that has any, counting up to a limit."""
        return await self.snapshot(lambda tx: counts(tx, limit))

    async def list_runs(
        self, sought: RunQuery = ANY_RUN, *, limit: int = 100, before: str | None = None
    ) -> list[RunRow]:
        """Return runs, newest first; `before` is the uid of the last one of the page before.

        A list may take several statements, between which runs change their state.
        """
        return await self.snapshot(lambda tx: listed(tx, sought, limit, before))

    async def count_started_by_runs(self, sought: RunQuery, limit: int) -> int:
        """Count the matching runs that other runs have started, up to a limit."""
        started = sought._replace(children=True, only_children=True)
        return await self.count_runs(started, limit)

    async def count_runs(self, sought: RunQuery, limit: int) -> int:
        """Count the runs that match, up to a limit."""
        return await self.snapshot(lambda tx: count_runs(tx, sought, limit))

    async def is_discarded(self, uid: str) -> bool:
        """Return whether a run was discarded as a dead letter."""
        rows = await self.read(lambda tx: tx.fetch("is_discarded", uid=uid))
        return bool(rows and rows[0][0])

    async def find_runs(self, beginning: str, *, limit: int = 10) -> list[RunRow]:
        """Return runs whose uid begins like this."""
        within = bounds(beginning, UID)
        if within is None:
            return []
        rows = await self.read(
            lambda tx: tx.fetch("runs_between", low=within.low, high=within.high, limit=limit)
        )
        return [RunRow._make(row) for row in rows]

    async def find_ids(self, beginning: str, *, limit: int = 10) -> list[RunRow]:
        """Return the newest runs of ids that begin like this."""
        if not is_storable(beginning):
            return []
        given = {"beginning": beginning, "beyond": beyond(beginning), "limit": limit}
        rows = await self.read(lambda tx: tx.fetch("runs_beginning", **given))
        return [RunRow._make(row) for row in rows]

    async def now(self) -> Instant:
        """Return the database's time."""
        rows = await self.read(lambda tx: tx.fetch("clock"))
        at: Instant = rows[0][0]
        return at

    async def timers_set_after(self, instant: Instant) -> int:
        """Count the runs that wait for a due time and were parked after an instant."""
        rows = await self.read(lambda tx: tx.fetch("timers_set_after", instant=instant))
        return int(rows[0][0])

    async def children(self, uid: str) -> list[RunRow]:
        """Return the runs that a run has started, oldest first."""
        if not is_storable(uid):
            return []
        rows = await self.read(lambda tx: tx.fetch("list_children", uid=uid))
        return [RunRow._make(row) for row in sorted(rows, key=itemgetter(0))]

    async def unserved(self, limit: int = 100) -> list[Unserved]:
        """Return runs that no worker executes and no live one can take, and why."""
        return await self.snapshot(lambda tx: unserved(tx, limit))

    async def why_unserved(self, run: RunRow) -> str | None:
        """Return why no live worker can take a run; None if one can."""
        return await self.read(lambda tx: why_unserved(tx, run))

    async def last_renewal(self, worker: str) -> Renewal:
        """Return when a worker last renewed its lease, and whether it is alive by that."""
        return await self.read(lambda tx: last_renewal(tx, worker))

    async def flows_of(self, *flows: FlowId) -> list[FlowRow]:
        """Return the rows of queues, workflows and keys, as far as there are any."""
        return await self.read(lambda tx: flows_of(tx, *flows))

    async def all_flows(self) -> list[FlowRow]:
        """Return the rows of all queues and workflows, and of keys for which something was set."""
        return await self.read(all_flows)

    # --- workers ---------------------------------------------------------------------------------

    async def history(self, uids: Iterable[str]) -> dict[str, list[RecordRow]]:
        """Return the histories of runs, each in the order of delivery, open records last."""
        found: dict[str, list[RecordRow]] = {uid: [] for uid in uids}
        for row in await self.read(lambda tx: tx.fetch("history", uids=tx.array(found))):
            record = RecordRow._make(row)
            found[record.run].append(record)
        return found

    async def look(
        self,
        uids: Iterable[str],
        *,
        after: Mapping[str, int] | None = None,
        budget: int = MAX_PAYLOAD_BYTES,
    ) -> dict[str, list[InboxRow]]:
        """Return the inboxes of runs, each in the order of arrival.

        Args:
            uids: The runs.
            after: The number of the last message that is known, by uid; without it, none is.
            budget: How many bytes of signals and of ends of children are read at most. A message
                beyond that comes without its payload; `messages` reads it.
        """
        found: dict[str, list[InboxRow]] = {uid: [] for uid in uids}
        seen = _as_json({uid: (after or {}).get(uid, 0) for uid in found}).decode()
        for row in await self.read(lambda tx: tx.fetch("look", after=seen, budget=budget)):
            message = InboxRow._make(row)
            found[message.run].append(message)
        return found

    async def messages(self, uid: str, seqs: Iterable[int]) -> list[InboxRow]:
        """Return some messages of a run, by their numbers, each once."""
        wanted = list(dict.fromkeys(seqs))

        async def fetch(tx: Tx) -> list[InboxRow]:
            rows = [await tx.fetch("message_at", run=uid, seq=seq) for seq in wanted]
            return [InboxRow._make(row) for each in rows for row in each]

        return await self.read(fetch)

    async def owned(self, worker: str) -> dict[str, int]:
        """Return the runs that are assigned to a worker, with their fences."""
        rows = await self.read(lambda tx: tx.fetch("runs_of_worker", worker=worker))
        return {row[0]: row[1] for row in rows}

    async def next_due(self, since: Instant = 0) -> Instant | None:
        """Return when the next waiting run is due, or a deadline passes, after `since`."""
        rows = await self.read(lambda tx: tx.fetch("next_due", since=since))
        return min((at for at in rows[0] if at is not None), default=None)

    async def maintenance_due(self, worker: str = "") -> MaintenanceDue:
        """Return which maintenance is due, by one cheap read, and whether a worker is to drain."""
        return await self.read(lambda tx: maintenance_due(tx, worker))

    async def workers(self, *, gone: bool = False) -> list[WorkerRow]:
        """Return workers, newest first; with `gone`, also those that have left."""
        rows = await self.read(lambda tx: tx.fetch("list_workers", gone=int(gone)))
        return [WorkerRow._make(row) for row in rows]

    async def workers_to_drain(self) -> set[str]:
        """Return the workers that are to take no more runs and have not left."""
        return {row[0] for row in await self.read(lambda tx: tx.fetch("workers_to_drain"))}

    async def served_queues(self) -> set[str]:
        """Return the queues that live workers serve."""
        rows = await self.read(lambda tx: tx.fetch("live_queues"))
        return {queue for row in rows for queue in row[0].split("\n")}

    # --- any statement ---------------------------------------------------------------------------

    async def read(self, work: Callable[[Tx], Coroutine[Any, Any, T]]) -> T:
        """Run `work`, which only reads."""
        return await self.database.read(work)

    async def snapshot(self, work: Callable[[Tx], Coroutine[Any, Any, T]]) -> T:
        """Run `work`, which only reads, with all its statements seeing one snapshot."""
        return await self.database.snapshot(work)

    async def _one(self, statement: str, **given: str) -> Sequence[Any]:
        """Return the row of a run; a key that no database could store is not found."""
        [name] = given.values()
        rows: Sequence[Sequence[Any]] = ()
        if is_storable(name):
            rows = await self.read(lambda tx: tx.fetch(statement, **given))
        if not rows:
            raise (
                await self.not_found(name)
                if is_storable(name)
                else NotFound("run", name, self.namespace)
            )
        return rows[0]
