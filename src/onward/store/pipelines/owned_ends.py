"""The end of a handler's run by its owner, if the run has not succeeded."""

from __future__ import annotations

from typing import TYPE_CHECKING

from onward.core.lease import Fate, Row, Write, fate
from onward.core.run import TERMINAL, RunState
from onward.model.following import Followed
from onward.store.hints import queue_subject, run_subject
from onward.store.pipelines.ending import settle
from onward.store.runs.followers import find_run
from onward.store.runs.stopping import keep_end
from onward.store.runs.withdrawing import withdraw

if TYPE_CHECKING:
    from onward.core.instant import Duration
    from onward.model.runs import Move, RunOwner, RunRow
    from onward.store.database import Tx
    from onward.store.store import Store


class _NotEndedError(Exception):
    """The run cannot be ended so: nothing may be written."""

    def __init__(self, answer: Followed) -> None:
        self.answer = answer


async def end_handler(
    store: Store, owner: RunOwner, end: Move, code: str, retry_in: Duration | None
) -> Followed:
    """End a handler's run that did not succeed, with what follows from that.

    The fate is `made` if a run follows it, `ended` if none does, `lost` or `busy`.
    """

    async def work(tx: Tx) -> tuple[Followed, set[str]]:
        return await _end(tx, owner, end, code, retry_in)

    try:
        followed, subjects = await store.write(work)
    except _NotEndedError as refusal:
        return refusal.answer
    store.database.publish(subjects)
    return followed


async def _end(
    tx: Tx, owner: RunOwner, end: Move, code: str, retry_in: Duration | None
) -> tuple[Followed, set[str]]:
    is_leased = await tx.leased(owner.worker)
    await withdraw(tx, owner.run)  # effects are locked before runs, as commits do
    await tx.lock([owner.run])
    run = await find_run(tx, owner.run)
    before = await _ended_before(tx, run, owner, end)
    if before is not None:
        return before, set()
    row = None if run is None else Row(RunState(run.state), run.fence, run.inbox, run.worker)
    answer = fate(
        row, Write(owner.fence, moves=True, seen=end.seen, worker=owner.worker), leased=is_leased
    )
    if run is None or answer is not Fate.DONE or run.worker != owner.worker:
        raise _NotEndedError(Followed(None, "busy" if answer is Fate.BUSY else "lost"))
    how = {"state": end.state, "reason": end.reason, "phase": end.phase, "seq": end.seq}
    types = {"error_type": end.error_type, "failed_step": end.failed_step}
    await tx.fetch("end_owned_run", uid=run.uid, **how, **types)
    if end.has_data:
        kept = {"result": end.result, "error": end.error, "progress": end.progress}
        await keep_end(tx, run.uid, failed_call=end.failed_call, **kept)
    followed, subjects = await settle(tx, run, end.state, end.reason, code=code, retry_in=retry_in)
    subjects |= {run_subject(run.uid), queue_subject(run.queue)}
    return followed or Followed(None, "ended", end.state), subjects


async def _ended_before(tx: Tx, run: RunRow | None, owner: RunOwner, end: Move) -> Followed | None:
    """Return the answer to an earlier try whose reply was lost."""
    if run is None or run.state not in TERMINAL:
        return None
    if (run.state, run.reason, run.fence) != (end.state, end.reason, owner.fence):
        return None
    if run.newest:
        return Followed(None, "ended", run.state)
    rows = await tx.fetch("newest_run", id=run.id)
    return Followed(rows[0][0], "made", rows[0][10])
