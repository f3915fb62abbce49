"""How one run follows another: it is retried, continued, forked or replaced.

The end of the old run and the new run with all that it begins with are one transaction, so that at
every moment exactly one run has the id.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from onward.core.chain import Link
from onward.core.chain import follow as decide
from onward.core.decision import Moved, Refused
from onward.core.run import TERMINAL, Reason, RunState, RunStatus
from onward.model.following import Followed, Following
from onward.store.hints import PIPELINES
from onward.store.pipelines.ending import cut_of, hand_over, handler_of, start_of_retry
from onward.store.runs.followers import begin, find_run, last_position, taken
from onward.store.runs.stopping import bound_children, end_children, keep_end
from onward.store.runs.withdrawing import withdraw

if TYPE_CHECKING:
    from onward.core.decision import Decision
    from onward.core.delivery import RetryStart
    from onward.model.runs import RunRow
    from onward.store.database import Tx


MAX_NAMED = 3
"""How many effects an error names that a fork would send again."""


async def follow(tx: Tx, wish: Following) -> tuple[Followed, set[str]]:
    """Start a run that follows another, and return the hints to publish."""
    is_leased = wish.worker is None or await tx.leased(wish.worker)
    children = await bound_children(tx, wish.old) if wish.id is None else []
    # The parent too: a pause of the parent when this commits also holds the new run.
    await tx.lock([wish.old, *children, *await _parent_of(tx, wish.old)])
    made = await find_run(tx, wish.new_uid)
    if made is not None:
        return Followed(made.uid, "made", made.state), set()
    old = await find_run(tx, wish.old)
    if old is None:
        return Followed(None, "absent"), set()
    if wish.link != Link.RETRY and old.handler is not None:
        why = "it is a run of a pipeline; replay its events instead"
        return Followed(None, "refused", old.state, why), set()
    if wish.id == old.id:
        wish = wish._replace(id=None)
    refusal = await _refusal(tx, wish, old, is_leased=is_leased)
    if refusal is not None:
        return refusal, set()
    start = await _retry_of_handler(tx, old)
    if isinstance(start, Followed):
        return start, set()
    if start is not None:
        wish = wish._replace(cut=await cut_of(tx, old.uid, start), beside=())
    if wish.id is None:
        await _end(tx, wish, old)
    followed, subjects = await begin(tx, wish, old)
    if followed.fate == "made" and wish.id is None:
        subjects |= await _take_over(tx, wish, start)
    return followed, subjects


async def _take_over(tx: Tx, wish: Following, start: RetryStart | None) -> set[str]:
    """Let the new run have what belonged to the old one: its children, or its events."""
    if wish.link == Link.CONTINUE:
        await tx.fetch("move_children", old=wish.old, new_uid=wish.new_uid)
        return set()
    subjects = await end_children(tx, wish.old)
    if start is not None:
        await hand_over(tx, wish.old, wish.new_uid, start)
        subjects.add(PIPELINES)
    return subjects


async def _retry_of_handler(tx: Tx, old: RunRow) -> RetryStart | Followed | None:
    """Return where the retry of a handler's run begins, or why it is refused; None: it is none."""
    of = None if old.handler is None else await handler_of(tx, old.uid)
    if of is None:
        return None
    start = await start_of_retry(tx, old, of)
    if isinstance(start, Refused):
        return Followed(None, "refused", old.state, start.why)
    return start


async def _refusal(tx: Tx, wish: Following, old: RunRow, *, is_leased: bool) -> Followed | None:
    if wish.worker is not None:
        owns = old.state == RunState.RUNNING and (old.worker, old.fence) == (
            wish.worker,
            wish.fence,
        )
        if not is_leased or not owns:
            return Followed(None, "lost")
        if wish.end is not None and wish.end.seen not in (None, old.inbox):
            return Followed(None, "busy", old.state)
    if wish.id is None and not old.newest:
        return await taken(tx, old.id)
    if old.state in TERMINAL and await tx.fetch("is_marked", uid=old.uid):
        why = "it is being deleted, because it ended long ago; start a new run"
        return Followed(None, "refused", old.state, why)
    decision = _decide(wish, old)
    if not isinstance(decision, Moved):
        return Followed(None, "refused", old.state, decision.why)
    if wish.edited is not None and not 1 <= (wish.cut or 0) <= await last_position(tx, old.uid) + 1:
        why = f"its history has no position {wish.cut} to edit"
        return Followed(None, "refused", old.state, why)
    sent = await _sent_again(tx, wish) if wish.link == Link.FORK and not wish.resends else ""
    return Followed(None, "resends", old.state, sent) if sent else None


async def _sent_again(tx: Tx, wish: Following) -> str:
    """Return the effects that a fork would send again although they may have been applied."""
    cut = await last_position(tx, wish.old) + 1 if wish.cut is None else wish.cut
    given = {"old": wish.old, "cut": cut, "named": wish.named, "limit": MAX_NAMED + 1}
    sent = [f"{name} ({key})" for name, key in await tx.fetch("sent_after", **given)]
    return ", ".join([*sent[:MAX_NAMED], *["and others"][: len(sent) - MAX_NAMED]])


def _decide(wish: Following, old: RunRow) -> Decision[RunStatus]:
    link = Link(wish.link)
    run = RunStatus(
        RunState(old.state), Reason(old.reason) if old.reason else None, fence=old.fence
    )
    if wish.id is not None:  # beside the old run, which goes on as it is
        return Moved(run) if link is Link.FORK else Refused("only a fork may have another id")
    if wish.end is not None and link is not Link.CONTINUE:
        run = RunStatus(RunState(wish.end.state))
    return decide(run, link, now=old.updated_at)


async def _end(tx: Tx, wish: Following, old: RunRow) -> None:
    """End the old run; it is no longer the newest of its id."""
    end = wish.end
    await withdraw(tx, old.uid)  # a retry that makes the call again takes it over
    if old.state in TERMINAL:
        await tx.fetch("be_followed", uid=old.uid)
    elif end is None:  # it was paused, and fails for that reason
        given = {"state": RunState.FAILED, "reason": old.reason, "phase": None, "seq": 0}
        await tx.fetch("end_followed", uid=old.uid, **given)
    else:
        given = {"state": end.state, "reason": end.reason, "phase": end.phase, "seq": end.seq}
        await tx.fetch("end_followed", uid=old.uid, **given)
        if end.has_data:
            kept = {"result": end.result, "error": end.error, "progress": end.progress}
            await keep_end(tx, old.uid, failed_call=end.failed_call, **kept)


async def _parent_of(tx: Tx, uid: str) -> list[str]:
    run = await find_run(tx, uid)
    return [] if run is None or run.parent is None or not run.cancel_with_parent else [run.parent]
