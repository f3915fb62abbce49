"""Batches with commits that write to pipelines: one transaction of several statements."""

from __future__ import annotations

from typing import TYPE_CHECKING

from onward.core.lease import Fate, Row, Write, fate
from onward.core.run import RunState
from onward.store.pipelines.writing import attach, examine
from onward.store.postgres import batch

if TYPE_CHECKING:
    from collections.abc import Container, Iterable

    from onward.model.commits import Commit
    from onward.store.database import Written
    from onward.store.postgres.transaction import PostgresTx
    from onward.store.writing.batch import Batch


def has_pipelines(writes: Batch) -> bool:
    """Return whether a commit of a batch writes to pipelines."""
    return any(
        not commit.is_plain and commit.attached.pipeline is not None
        for commit in writes.runs.values()
    )


async def write(tx: PostgresTx, writes: Batch) -> Written:
    """Write a batch of owners' commits, in a transaction, and return the fate of each."""
    commits = list(writes.runs.values())
    effects = sorted({effect.key for c in commits for effect in c.attached.effects})
    if effects:
        await tx.fetch("lock_effects", keys=effects)
    workers = sorted(set(writes.workers.values()))
    leased = {row[0] for row in await tx.fetch("leased_workers", workers=workers)}
    await tx.lock(_changed_runs(commits))
    attached = [commit for commit in commits if commit.attached.pipeline is not None]
    uids = tx.array(commit.run for commit in attached)
    rows = {
        uid: Row(RunState(state), *rest)
        for uid, state, *rest in await tx.fetch("run_fences", uids=uids)
    }
    fates = {
        commit.run: _fate(commit, rows.get(commit.run), writes.workers[commit.run], leased)
        for commit in attached
    }
    own = [
        commit
        for commit in attached
        if fates[commit.run] is Fate.DONE and rows[commit.run].state is RunState.RUNNING
    ]
    seen = await examine(tx, own)
    written = await batch.write(tx, writes.without(seen.refused))
    await attach(
        tx,
        [
            commit
            for commit in own
            if commit.run not in seen.repeated and written.fates.get(commit.run) is Fate.DONE
        ],
    )
    written.fates.update(dict.fromkeys(seen.refused, Fate.BUSY))
    return written


def _fate(commit: Commit, row: Row | None, worker: str, leased: Container[str]) -> Fate:
    wanted = Write(commit.fence, commit.move is not None, commit.seen, worker)
    return fate(row, wanted, leased=worker in leased)


def _changed_runs(commits: Iterable[Commit]) -> set[str]:
    """Return the runs that the batch locks: all at once, so that none waits for another."""
    runs = set()
    for commit in commits:
        attached = commit.attached
        if commit.move or commit.starts or attached.effects or attached.pipeline:
            runs.add(commit.run)
        runs.update(message.target for message in commit.messages)
    return runs
