"""Deleting old runs: families are marked in one transaction each batch, and deleted in others.

No transaction is long, however large a family is. A marked run cannot be retried or forked, so the
order in which the rows of a family go does not matter. A deleted run whose id a user chose leaves a
tombstone, by which a repeated start is recognised.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from onward.core.chain import Link
from onward.core.ids import uid7
from onward.core.instant import MINUTE
from onward.core.retention import ENDED, RunFacts, decide, families_of, why_kept
from onward.core.run import RunState
from onward.core.value import changed
from onward.model.retention import PruneBatch
from onward.store.pipelines import retention as events

if TYPE_CHECKING:
    from collections.abc import Collection, Container, Iterable, Sequence

    from onward.core.retention import Retention
    from onward.model.retention import Position
    from onward.store.database import Tx
    from onward.store.store import Store

MAX_RUNS = 50
"""How many runs are looked at, marked or deleted in a transaction, apart from their families."""
MAX_ROWS = 500
"""How many rows are deleted in a transaction, unless a single run has more."""

TABLES = {
    "onward_record": ("delete_records", "count_records"),
    "onward_inbox": ("delete_messages", "count_messages"),
    "onward_effect": ("delete_effects", "count_effects"),
    "onward_cause": ("delete_run_causes", "count_run_causes"),
    "onward_run_data": ("delete_run_data", "count_run_data"),
    "onward_run": ("delete_runs", "count_run_rows"),
}
"""The tables that hold rows of a run, each with the statements that delete and count those of runs.

The runs come last. A table that is added here needs these two statements, and nothing else."""

_START = (ENDED[0], "")
_LAST = "g"
"""Sorts after every uid."""


async def prune(
    store: Store, keep: Retention, position: Position | None, *, dry_run: bool = False
) -> PruneBatch:
    """Do a part of the work: delete what is marked, and mark what comes next.

    Args:
        store: Where the runs are.
        keep: How long runs, and settled events and inputs, are kept.
        position: What the part before answered.
        dry_run: Only count what would be deleted.
    """
    if position is not None and position[0] in events.KINDS:
        return await events.prune(store, keep, position, dry_run=dry_run)
    done = await _prune_runs(store, keep, position, dry_run=dry_run)
    if done.position is None and await events.is_due(store, keep):
        return PruneBatch(done.rows, events.START)
    return done


async def _prune_runs(
    store: Store, keep: Retention, position: Position | None, *, dry_run: bool
) -> PruneBatch:
    if dry_run:
        return await store.snapshot(lambda tx: _count(tx, keep, position or _START))
    rows = await _delete(store)
    if sum(rows.values()) >= MAX_ROWS:
        return PruneBatch(rows, position or _START)  # first what is marked
    tops, following = await store.snapshot(lambda tx: _ended(tx, keep, position or _START))
    marked = 0
    if tops:
        found = await store.snapshot(lambda tx: _deletable(tx, tops, keep))
        if found:
            marked = await store.write(lambda tx: _mark(tx, found, keep))
    if following is None and (marked or rows):
        following = (ENDED[-1], _LAST)  # what is marked remains to be deleted
    return PruneBatch(rows, following)


async def drop_expired(store: Store) -> int:
    """Forget the ids of deleted runs whose time is over; return how many."""
    expired = await store.read(lambda tx: tx.fetch("expired_tombstones", limit=MAX_RUNS))
    if not expired:
        return 0

    async def work(tx: Tx) -> int:
        return len(await tx.fetch("drop_expired", uids=tx.array([row[0] for row in expired])))

    return await store.write(work)


async def _ended(tx: Tx, keep: Retention, position: Position) -> tuple[list[str], Position | None]:
    """Return runs without a parent that ended long ago, and where the next ones begin."""
    state, after = RunState(position[0]), position[1]
    length = keep.of(state)
    rows: Sequence[Sequence[Any]] = ()
    tops: list[str] = []
    if length is not None and after != _LAST:
        [[now]] = await tx.fetch("clock")
        # A run is older than its end, unless the clock of the client that started it was ahead.
        below = uid7(max(0, now - length) + MINUTE, 0)
        given = {"state": state, "after": after, "below": below, "limit": MAX_RUNS}
        rows = await tx.fetch("ended_runs", **given)
        # Children are found by the topmost run of their family.
        tops = [uid for uid, at in rows if at + length <= now]
    if len(rows) == MAX_RUNS:
        return tops, (state, rows[-1][0])
    later = ENDED[ENDED.index(state) + 1 :]
    return tops, (later[0], "") if later else None


async def _count(tx: Tx, keep: Retention, position: Position) -> PruneBatch:
    """Count the rows of families that would be deleted, each where it is met first."""
    tops, following = await _ended(tx, keep, position)
    [[now]] = await tx.fetch("clock")
    facts = await family_facts(tx, tops)
    free = {uid for uid, why in decide(facts.values(), keep, now=now).items() if why is None}
    begun = (ENDED.index(RunState(position[0])), position[1])
    met = {
        run.uid
        for run in facts.values()
        if run.uid in free
        and (ENDED.index(run.state), run.uid) <= begun
        and run.parent is None
        and why_kept(run, keep, now=now) is None
    }
    uids = [
        uid
        for family in families_of(facts)
        if not free.isdisjoint(family) and not set(tops).isdisjoint(family)
        if met.isdisjoint(family)
        for uid in family
    ]
    rows = {
        table: int((await tx.fetch(count, uids=tx.array(uids)))[0][0])
        for table, (_, count) in TABLES.items()
    }
    return PruneBatch(rows if uids else {}, following)


async def _deletable(
    tx: Tx, uids: Iterable[str], keep: Retention, locked: Container[str] | None = None
) -> list[str]:
    """Return the runs that may be deleted, of some runs and their families.

    If `locked` is given, families with other runs are left out.
    """
    [[now]] = await tx.fetch("clock")
    facts = list((await family_facts(tx, uids)).values())
    if locked is not None:
        facts = [run if run.uid in locked else changed(run, unsettled=True) for run in facts]
    decided = decide(facts, keep, now=now)
    return sorted(uid for uid, why in decided.items() if why is None)


async def _mark(tx: Tx, uids: Collection[str], keep: Retention) -> int:
    """Mark families, if what made them deletable still holds; return how many runs."""
    # A family may have grown, by a retry or a fork, until its runs were locked.
    rows = await tx.fetch("lock_ended", uids=tx.array(sorted(uids)))
    locked = {row[0] for row in rows}
    still = await _deletable(tx, locked, keep, locked)
    if not still:
        return 0
    return len(await tx.fetch("mark_runs", uids=tx.array(still), ids=keep.ids))


async def _delete(store: Store) -> dict[str, int]:
    """Delete marked runs, as many as one transaction may; return rows by table."""
    found = await store.read(lambda tx: tx.fetch("marked_runs", limit=MAX_RUNS))
    uids: list[str] = []
    size = 0
    for uid, rows in found:
        if size >= MAX_ROWS:
            break
        uids.append(uid)
        size += rows + 2
    return await store.write(lambda tx: _delete_runs(tx, uids)) if uids else {}


async def _delete_runs(tx: Tx, uids: Iterable[str]) -> dict[str, int]:
    marked = await tx.fetch("lock_marked", uids=tx.array(sorted(uids)))
    given = {"uids": tx.array([row[0] for row in marked])}
    rows = {table: len(await tx.fetch(delete, **given)) for table, (delete, _) in TABLES.items()}
    await tx.fetch("keep_tombstones", **given)
    await tx.fetch("drop_tombstones", **given)
    return {table: count for table, count in rows.items() if count}


async def family_facts(tx: Tx, uids: Iterable[str]) -> dict[str, RunFacts]:
    """Return what is known of runs, and of all that need them, or that they need or follow."""
    facts: dict[str, RunFacts] = {}
    wanted, asked = set(uids), set[str]()
    while wanted:
        asked |= wanted
        found = [_facts(row) for row in await tx.fetch("retention_facts", uids=tx.array(wanted))]
        facts |= {run.uid: run for run in found}
        near = {run.parent for run in found} | {run.follows for run in found}
        near |= {row[0] for row in await tx.fetch("runs_in_need", uids=tx.array(wanted))}
        wanted = {uid for uid in near if uid is not None and uid not in asked}
    return facts


def _facts(row: Sequence[Any]) -> RunFacts:
    uid, id, state, finished_at, parent, bound, follows, link, unsettled, until = row  # noqa: A001
    return RunFacts(
        uid,
        id,
        RunState(state),
        finished_at,
        parent,
        bool(bound),
        follows,
        None if link is None else Link(link),
        bool(unsettled),
        until,
    )
