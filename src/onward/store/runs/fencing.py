"""The check of writes that a worker makes for a run outside of the commits of that run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from onward.core.lease import Fate, Row, Write, fate
from onward.core.run import RunState
from onward.errors import LeaseLost
from onward.model.runs import RunRow

if TYPE_CHECKING:
    from collections.abc import Iterable

    from onward.model.runs import RunOwner
    from onward.store.database import Tx


async def check_owner(tx: Tx, owner: RunOwner | None, others: Iterable[str] = ()) -> None:
    """Check that an owner has its run, and lock the run and others until the transaction ends.

    Raises:
        LeaseLost: the run is not the owner's any more.
    """
    if owner is None:
        return
    leased = await tx.leased(owner.worker)
    await tx.lock([owner.run, *others])
    rows = await tx.fetch("run_by_uid", uid=owner.run)
    run = RunRow._make(rows[0]) if rows else None
    row = None if run is None else Row(RunState(run.state), run.fence, run.inbox, run.worker)
    if fate(row, Write(owner.fence, worker=owner.worker), leased=leased) is not Fate.DONE:
        raise LeaseLost(owner.run)
