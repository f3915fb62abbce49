"""How one run follows another: it is retried, continued, forked or replaced.

The end of the old run and the new run with all that it begins with are one transaction, so that at
every moment exactly one run has the id.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from onward.core.beginning import Beginning, beginning_of, read_beginning
from onward.core.chain import Carried, Link, carried, is_same_start, origin
from onward.core.chain import follow as decide
from onward.core.decision import Moved, Refused
from onward.core.run import TERMINAL, Reason, RunState, RunStatus
from onward.core.value import changed
from onward.model.following import Followed, Following
from onward.model.runs import RunRow
from onward.store.hints import queue_subject, run_subject
from onward.store.runs.stopping import bound_children, end_children, keep_end
from onward.store.runs.withdrawing import withdraw

if TYPE_CHECKING:
    from onward.core.decision import Decision
    from onward.model.records import NewRecord
    from onward.store.database import Tx


MAX_NAMED = 3
"""How many effects an error names that a fork would send again."""


async def follow(tx: Tx, wish: Following) -> tuple[Followed, set[str]]:
    """Start a run that follows another, and return the hints to publish."""
    is_leased = wish.worker is None or await tx.leased(wish.worker)
    children = await bound_children(tx, wish.old) if wish.id is None else []
    # The parent too: a pause of the parent when this commits also holds the new run.
    await tx.lock([wish.old, *children, *await _parent_of(tx, wish.old)])
    made = await _run(tx, wish.new_uid)
    if made is not None:
        return Followed(made.uid, "made", made.state), set()
    old = await _run(tx, wish.old)
    if old is None:
        return Followed(None, "absent"), set()
    if wish.id == old.id:
        wish = wish._replace(id=None)
    refusal = await _refusal(tx, wish, old, is_leased=is_leased)
    if refusal is not None:
        return refusal, set()
    if wish.id is None:
        await _end(tx, wish, old)
    followed, subjects = await _begin(tx, wish, old)
    if followed.fate == "made" and wish.id is None:
        if wish.link == Link.CONTINUE:
            await tx.fetch("move_children", old=old.uid, new_uid=wish.new_uid)
        else:
            subjects |= await end_children(tx, old.uid)
    return followed, subjects


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
        return await _taken(tx, old.id)
    if old.state in TERMINAL and await tx.fetch("is_marked", uid=old.uid):
        why = "it is being deleted, because it ended long ago; start a new run"
        return Followed(None, "refused", old.state, why)
    decision = _decide(wish, old)
    if not isinstance(decision, Moved):
        return Followed(None, "refused", old.state, decision.why)
    if wish.edited is not None and not 1 <= (wish.cut or 0) <= await _last(tx, old.uid) + 1:
        why = f"it has no position {wish.cut} that could be edited"
        return Followed(None, "refused", old.state, why)
    sent = await _sent_again(tx, wish) if wish.link == Link.FORK and not wish.resends else ""
    return Followed(None, "resends", old.state, sent) if sent else None


async def _sent_again(tx: Tx, wish: Following) -> str:
    """Return the effects that a fork would send again although they may have been applied."""
    cut = await _last(tx, wish.old) + 1 if wish.cut is None else wish.cut
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


async def _begin(tx: Tx, wish: Following, old: RunRow) -> tuple[Followed, set[str]]:
    """Create the new run, with what it takes over from the old one."""
    last = await _last(tx, old.uid)
    # Records that are written to the old history from now on are not copied.
    cut = last + 1 if wish.cut is None else max(0, wish.cut)
    link, takes = Link(wish.link), carried(Link(wish.link))
    copied = cut if wish.edited is not None else min(last, max(0, cut - 1))
    both = {"old": old.uid, "new_uid": wish.new_uid}
    same_start = int(wish.id is None and is_same_start(link))
    rows = await tx.fetch(
        "follow_run",
        id=wish.id,
        link=link,
        delay_in=wish.delay_in,
        keeps_deadline=int(Carried.DEADLINE in takes),
        attempt=old.attempt + 1 if link is Link.RETRY else 1,
        origin=origin(link, old.uid, old.origin),
        same_start=same_start,
        seq=copied,
        **both,
    )
    if not rows:  # nothing was written: beside a run that another has started just now
        made = await _run(tx, wish.new_uid)
        if made is None:
            return await _taken(tx, wish.id or old.id), set()
        return Followed(made.uid, "made", made.state), set()
    state, queue, chain = rows[0]
    await tx.fetch(
        "follow_data",
        input=wish.input,
        args_hash=wish.args_hash,
        attributes=wish.attributes,
        keeps_attributes=int(Carried.ATTRIBUTES in takes),
        same_start=same_start,
        delay_in=wish.delay_in,
        beginning=await _beginning(tx, wish, old, copied),
        **both,
    )
    await tx.fetch("copy_records", cut=cut, **both)
    if wish.beside:
        await tx.fetch("keep_aside", beside=tx.array(wish.beside), cut=cut, **both)
    if link is Link.RETRY:
        await tx.fetch("copy_aside", **both)
    if wish.edited is not None:
        await tx.fetch("edit_record", **_edited(wish.edited, wish.new_uid, cut))
    await tx.fetch("copy_messages", signals=_signals(link), chain=chain, **both)
    for seq in wish.unheard:
        await tx.fetch("copy_message", seq=seq, chain=chain, **both)
    return Followed(wish.new_uid, "made", state), {queue_subject(queue), run_subject(old.uid)}


async def _beginning(tx: Tx, wish: Following, old: RunRow, copied: int) -> str | None:
    """Return the start time and seed that the new run's code sees, if not its own."""
    [[text]] = await tx.fetch("run_beginning", uid=old.uid)
    own = Beginning(None, old.scheduled_at, ((0, old.uid),))
    first = own if text is None else read_beginning(text)
    if first.started_at is None:
        first = changed(first, started_at=old.started_at)  # None: nothing of it was ever run
    begins = beginning_of(Link(wish.link), first, wish.new_uid, copied)
    return None if begins is None else begins.encoded()


def _edited(record: NewRecord, run: str, seq: int) -> dict[str, object]:
    return record._replace(run=run, seq=seq)._asdict()


def _signals(link: Link) -> str:
    """Return which signals a run takes over beside those of copied records."""
    if Carried.SIGNALS not in carried(link):
        return "none"
    return "unread" if link is Link.CONTINUE else "all"


async def _taken(tx: Tx, run_id: str) -> Followed:
    rows = await tx.fetch("newest_run", id=run_id)
    newest = RunRow._make(rows[0])
    return Followed(newest.uid, "taken", newest.state)


async def _run(tx: Tx, uid: str) -> RunRow | None:
    rows = await tx.fetch("run_by_uid", uid=uid)
    return RunRow._make(rows[0]) if rows else None


async def _parent_of(tx: Tx, uid: str) -> list[str]:
    run = await _run(tx, uid)
    return [] if run is None or run.parent is None or not run.cancel_with_parent else [run.parent]


async def _last(tx: Tx, run: str) -> int:
    return int((await tx.fetch("last_position", run=run))[0][0])
