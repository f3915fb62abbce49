"""The run that follows another: its row, with the part of history and inbox that it begins with."""

from __future__ import annotations

from typing import TYPE_CHECKING

from onward.core.beginning import Beginning, beginning_of, read_beginning
from onward.core.chain import Carried, Link, carried, is_same_start, origin
from onward.core.value import changed
from onward.model.following import Followed
from onward.model.runs import RunRow
from onward.store.hints import queue_subject, run_subject

if TYPE_CHECKING:
    from onward.model.following import Following
    from onward.model.records import NewRecord
    from onward.store.database import Tx


async def begin(tx: Tx, wish: Following, old: RunRow) -> tuple[Followed, set[str]]:
    """Create the new run, with what it takes over from the old one."""
    last = await last_position(tx, old.uid)
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
        made = await find_run(tx, wish.new_uid)
        if made is None:
            return await taken(tx, wish.id or old.id), set()
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


async def taken(tx: Tx, run_id: str) -> Followed:
    """Return the answer that another run has the id."""
    rows = await tx.fetch("newest_run", id=run_id)
    newest = RunRow._make(rows[0])
    return Followed(newest.uid, "taken", newest.state)


async def find_run(tx: Tx, uid: str) -> RunRow | None:
    """Return a run, if it is there."""
    rows = await tx.fetch("run_by_uid", uid=uid)
    return RunRow._make(rows[0]) if rows else None


async def last_position(tx: Tx, run: str) -> int:
    """Return the position of the last call in a history."""
    return int((await tx.fetch("last_position", run=run))[0][0])
