"""Starting a run that replaces another under the same id."""

from __future__ import annotations

from typing import TYPE_CHECKING

from onward.core.chain import Link
from onward.model.runs import Started, found_run
from onward.store.hints import queue_subject
from onward.store.runs.fencing import check_owner
from onward.store.writing.text_limits import check_run

if TYPE_CHECKING:
    from collections.abc import Sequence

    from onward.model.runs import NewRun, RunOwner
    from onward.store.database import Tx
    from onward.store.store import Store


async def replace(store: Store, old: str, run: NewRun, owner: RunOwner | None = None) -> Started:
    """Start `run` to replace the run `old`, unless another run has replaced it already.

    Raises:
        LeaseLost: an owner does this for a run that it does not have any more.
    """
    follower = run._replace(follows=old, link=Link.REPLACE)
    check_run(follower)

    async def work(tx: Tx) -> Started:
        await check_owner(tx, owner, [old])
        return await _replace(tx, old, follower)

    started = await store.write(work)
    store.database.publish([queue_subject(run.queue)])
    return started


async def _replace(tx: Tx, old: str, run: NewRun) -> Started:
    if run.parent is not None:  # what holds the parent holds this run, too
        await tx.lock([old, run.parent])
    await tx.fetch("free_id", id=run.id)
    made: Sequence[Sequence[str]] = ()
    if not await tx.fetch("run_by_uid", uid=old):  # it was deleted, because it ended long ago
        run = run._replace(follows=None, link=None)
        made = await tx.fetch("insert_run", **run._asdict())
    elif await tx.fetch("retire_run", uid=old):
        made = await tx.fetch("insert_run", **run._asdict())
    if made:
        await tx.fetch("insert_run_data", **run._asdict())
        return Started(run.uid, True, run.name, run.args_hash, made[0][0])  # noqa: FBT003
    [found] = await tx.fetch("started_run", uid=run.uid, id=run.id)
    return found_run(run.uid, *found)
