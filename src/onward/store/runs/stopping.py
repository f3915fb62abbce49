"""Ending runs from outside: at once, or by a message that their deadline has passed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from onward.core.run import TERMINAL, Reason, RunState
from onward.model.ends import child_end, to_children, to_overdue, to_parent
from onward.model.runs import RunRow
from onward.model.stopping import ForcedEnd, Stopped
from onward.store.hints import queue_subject, run_subject
from onward.store.pipelines.ending import settle
from onward.store.runs.withdrawing import withdraw

if TYPE_CHECKING:
    from collections.abc import Iterable

    from onward.model.messages import NewMessage, SentMessage
    from onward.model.runs import Move, RunOwner
    from onward.store.database import Tx


TIME_IS_UP = ForcedEnd(
    RunState.TIMED_OUT, Reason.DEADLINE, unstarted_only=True, error_type=Reason.DEADLINE
)


async def stop(
    tx: Tx, target: str, how: ForcedEnd, *, by_uid: bool = False
) -> tuple[Stopped, set[str]]:
    """End the newest run of an id, or a run by its uid; return the subjects to publish.

    A run that is over and followed stands for the one that follows it.
    """
    uid = await newest_of(tx, target, by_uid=by_uid)
    while uid is not None:
        stopped, subjects = await _stop(tx, uid, how)
        tip = await newest_of(tx, uid, by_uid=True) if stopped.fate == "over" else uid
        if tip == uid:
            return stopped, subjects
        uid = tip
    return Stopped(None, "absent"), set()


async def give_up(
    tx: Tx, by: RunOwner, move: Move, code: str | None = None
) -> tuple[bool, set[str]]:
    """End a run under the claim of a worker, and return whether that claim still holds."""
    claim = {"uid": by.run, "worker": by.worker, "fence": by.fence}
    if not (await tx.leased(by.worker) and await tx.fetch("is_owned", **claim)):
        return False, set()
    how = ForcedEnd(
        move.state,
        move.reason,
        move.error,
        error_type=move.error_type,
        failed_step=move.failed_step,
        code=code,
    )
    _, subjects = await _stop(tx, by.run, how)
    return True, subjects


async def overdue(tx: Tx, limit: int) -> tuple[int, set[str]]:
    """End or notify runs past their deadline; return how many, and the hints to publish."""
    seen = await tx.fetch("overdue_runs", limit=limit)
    if not seen:
        return 0, set()
    held = {row[0] for row in seen}
    await tx.lock(held | {row[2] for row in seen if row[2] is not None})
    # Some may have ended, or received the message, before they were locked.
    due = [row for row in await tx.fetch("overdue_runs", limit=limit) if row[0] in held]
    subjects: set[str] = set()
    for uid, fence, _ in due:
        if fence == 0:
            subjects |= (await _stop(tx, uid, TIME_IS_UP))[1]
    sent = await tx.send([to_overdue(uid) for uid, fence, _ in due if fence > 0])
    return len(due), subjects | subjects_of(sent)


async def end_children(tx: Tx, parent: str) -> set[str]:
    """Cancel the open children that end with a run, and return the hints to publish."""
    return subjects_of(await tx.send(to_children(await bound_children(tx, parent))))


async def bound_children(tx: Tx, parent: str) -> list[str]:
    """Return the open children that end with a run."""
    return sorted(row[0] for row in await tx.fetch("bound_children", uid=parent))


def subjects_of(answers: Iterable[SentMessage]) -> set[str]:
    """Return the subjects of hints about messages that were delivered."""
    subjects: set[str] = set()
    for sent in answers:
        if sent.fate == "delivered" and sent.uid is not None:
            subjects |= {run_subject(sent.uid), queue_subject(sent.queue)}
    return subjects


async def newest_of(tx: Tx, target: str, *, by_uid: bool) -> str | None:
    """Return the newest run of an id, or of the id of a uid."""
    rows = await tx.fetch("target_seen", target=target, by_uid=int(by_uid))
    if not rows:
        return None
    uid, run_id, is_newest = rows[0][:3]
    if not is_newest:
        uid = RunRow._make((await tx.fetch("newest_run", id=run_id))[0]).uid
    return str(uid)


async def _stop(tx: Tx, uid: str, how: ForcedEnd) -> tuple[Stopped, set[str]]:
    """End one run, unless it has ended; send its end to its parent and cancel its children."""
    run = RunRow._make((await tx.fetch("run_by_uid", uid=uid))[0])
    family = [uid, *await bound_children(tx, uid)]
    if not how.unstarted_only:  # effects are locked before runs, as commits do
        await withdraw(tx, uid)
    await tx.lock(family if run.parent is None else [*family, run.parent])
    given = {"state": how.state, "reason": how.reason, "error_type": how.error_type}
    given |= {"failed_step": how.failed_step}
    if not await tx.fetch("stop_run", uid=uid, unstarted_only=int(how.unstarted_only), **given):
        run = RunRow._make((await tx.fetch("run_by_uid", uid=uid))[0])
        return Stopped(uid, "over" if run.state in TERMINAL else "started", run.queue), set()
    if how.error is not None:
        await keep_end(tx, uid, error=how.error)
    await withdraw(tx, uid)  # what was planned before the run was locked
    subjects = {run_subject(uid), queue_subject(run.queue)}
    if run.handler is not None:
        subjects |= (await settle(tx, run, how.state, how.reason, code=how.code))[1]
    sent = await tx.send(_end_message(run, how))
    subjects |= subjects_of(sent) | await end_children(tx, uid)
    return Stopped(uid, "stopped", run.queue), subjects


async def keep_end(
    tx: Tx,
    uid: str,
    *,
    result: bytes | None = None,
    error: bytes | None = None,
    failed_call: str | None = None,
    progress: bytes | None = None,
) -> None:
    """Store the result or error of a run."""
    given = {"result": result, "error": error, "failed_call": failed_call, "progress": progress}
    await tx.fetch("keep_end", uid=uid, lost=b"", **given)


def _end_message(run: RunRow, how: ForcedEnd) -> list[NewMessage]:
    if run.parent is None or run.parent_identity is None:
        return []
    end = child_end(how.state, how.reason, None, how.error)
    return [to_parent(run.parent, run.parent_identity, end)]
