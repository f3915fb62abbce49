"""Pausing a run together with every run that works for it, and letting them go on.

Both walk the tree once, top down: a run is locked before its children are read. Every
transaction that starts, retries or continues a child locks its parent too, and copies from there
what holds it. So there is no child that the walk misses and that does not know of the pause.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from onward.core.inbox import MessageKind
from onward.core.run import TERMINAL, Reason, RunState
from onward.model.messages import NewMessage, wakes_for
from onward.model.runs import RunRow
from onward.model.stopping import PauseAnswer
from onward.store.hints import queue_subject, run_subject
from onward.store.runs.stopping import newest_of, subjects_of

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from onward.store.database import Tx

_OPERATOR = f",{Reason.OPERATOR},"


async def pause(tx: Tx, target: str, message: str) -> tuple[PauseAnswer, set[str]]:
    """Pause a run and all runs that work for it; return the hints to publish.

    Owners of running ones are sent a message of this id.
    """
    top = await _open_run(tx, target)
    if isinstance(top, PauseAnswer):
        return top, set()
    [[is_stopping]] = await tx.fetch("is_stopping", uid=top.uid)
    if is_stopping:  # it cleans up, and so do all below it
        return PauseAnswer(top.uid, "stopping"), set()
    uids = tx.array([top.uid, *await _lock_below(tx, top.uid)])
    held = await tx.fetch("hold_runs", uids=uids, source=top.uid)
    sent = await tx.send(_to_owners(held, MessageKind.PAUSE, message, top.uid))
    return PauseAnswer(top.uid, "done"), {run_subject(top.uid)} | subjects_of(sent)


async def resume(tx: Tx, target: str, message: str) -> tuple[PauseAnswer, set[str]]:
    """Resume a run, and all runs that only its pause held; return the hints to publish.

    The run itself is also tried again if it is paused for a reason that a resume ends.
    """
    top = await _open_run(tx, target)
    if isinstance(top, PauseAnswer):
        return top, set()
    uids = tx.array([top.uid, *await _lock_below(tx, top.uid)])
    left = await tx.fetch("unhold_runs", uids=uids, source=top.uid)
    freed = await tx.fetch("free_runs", uids=uids)
    messages = _to_owners(left, MessageKind.RESUME, message, top.uid)
    if top.state == RunState.PAUSED and top.reason != Reason.OPERATOR:
        kind = MessageKind.RESUME
        wakes = wakes_for(kind).replace(_OPERATOR, "")
        messages.append(NewMessage(top.uid, message, kind, top.uid, None, wakes, 1))
    subjects = {run_subject(top.uid)} | subjects_of(await tx.send(messages))
    return PauseAnswer(top.uid, "done"), subjects | {queue_subject(row[0]) for row in freed}


async def _open_run(tx: Tx, target: str) -> RunRow | PauseAnswer:
    """Lock the newest run that a uid or an id means, unless it has ended."""
    uid = await newest_of(tx, target, by_uid=False)
    while uid is not None:
        await tx.lock([uid])
        row = RunRow._make((await tx.fetch("run_by_uid", uid=uid))[0])
        if row.newest:
            return PauseAnswer(uid, "over") if row.state in TERMINAL else row
        uid = await newest_of(tx, uid, by_uid=True)
    return PauseAnswer(None, "absent")


async def _lock_below(tx: Tx, top: str) -> list[str]:
    """Lock and return the open runs that are cancelled with a run, which is locked."""
    found: list[str] = []
    parents = [top]
    while parents:
        locked: set[str] = set()
        # One may have been followed or cancelled in the meantime: read until all are locked.
        while (level := await _children(tx, parents)) - locked:
            await tx.lock(level - locked)
            locked |= level
        parents = sorted(level)
        found += parents
    return found


async def _children(tx: Tx, parents: list[str]) -> set[str]:
    return {row[0] for row in await tx.fetch("bound_below", uids=tx.array(parents))}


def _to_owners(
    rows: Sequence[Sequence[Any]], kind: MessageKind, message: str, source: str
) -> list[NewMessage]:
    """Return messages to the owners of running runs; for the others their rows suffice."""
    running = (uid for uid, state in rows if state == RunState.RUNNING)
    return [NewMessage(uid, message, kind, source, by_uid=1) for uid in running]
