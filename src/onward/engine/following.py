"""Runs that follow another under its id: retries, forks and continuations."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from onward.core.chain import Link, retry_cut
from onward.core.failure_origin import read_failed_call
from onward.core.replay import Record, RecordKind, RecordState
from onward.core.run import RunState
from onward.errors import BadInput, NotFound
from onward.model.following import Followed, Following
from onward.model.records import NewRecord

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from onward.core.instant import Duration
    from onward.model.following import Continuation
    from onward.model.records import RecordRow
    from onward.model.runs import Move, RunOwner
    from onward.store.store import Store


_WITH_RESULT = (RecordKind.STEP, RecordKind.EFFECT, RecordKind.CHILD, RecordKind.SIGNAL)


async def retry(  # noqa: PLR0913 - each is a thing of its own that a caller decides
    store: Store,
    uid: str,
    *,
    delay: Duration = 0,
    owner: RunOwner | None = None,
    end: Move | None = None,
    force: bool = False,
    new_uid: str | None = None,
) -> Followed:
    """Run again what failed: history is kept up to the call whose error ended the run.

    What was finished in parallel to that call is kept too. If effects were made because of the
    error, they may have undone what is kept: then the answer is `undone`, unless it is forced. So
    it is `forked` if the retry would start a child again that was forked, and has sent effects.

    Args:
        store: Where the run is.
        uid: The run.
        delay: How long to wait before it begins.
        owner: The worker that has the run, if that ends it with this.
        end: How it ends it then.
        force: Retry it also if effects were made because of the error, or would be sent again.
        new_uid: The uid of the new run, if the caller must recognise it after a crash.
    """
    by = (None, None) if owner is None else (owner.worker, owner.fence)
    if (await store.run(uid)).handler is not None:  # what it keeps follows from its effect
        wish = Following(uid, new_uid or store.new_uid(), Link.RETRY, delay_in=delay)
        return await store.follow(wish._replace(worker=by[0], fence=by[1], end=end))
    history = (await store.history([uid]))[uid]
    old = await store.end(uid)
    failed_call = read_failed_call(old.failed_call if end is None else end.failed_call)
    # No call has ended a run that is paused: its whole history is kept.
    is_paused = end is None and old.state == RunState.PAUSED
    named = None if failed_call is None else failed_call.identity
    cut = None if is_paused else retry_cut(_records(history), failed_call=named)
    beside = () if failed_call is None or cut is None else failed_call.beside
    refusal = None if force else await _refusal(store, uid, history, cut, beside)
    if refusal is not None:
        return refusal._replace(state=old.state)
    effects = {row.identity for row in history if row.kind == RecordKind.EFFECT}
    return await store.follow(
        Following(
            uid,
            new_uid or store.new_uid(),
            Link.RETRY,
            cut,
            # A retry finds its effects in the ledger.
            beside=tuple(identity for identity in beside if identity not in effects),
            delay_in=delay,
            worker=by[0],
            fence=by[1],
            end=end,
        )
    )


async def _refusal(
    store: Store, uid: str, history: Sequence[RecordRow], cut: int | None, beside: tuple[str, ...]
) -> Followed | None:
    """Say why a retry must be forced, if it must."""
    if cut is not None:
        since = await _made_since(store, uid, history, cut, beside)
        if since:
            return Followed(None, "undone", why=", ".join(since))
    last = max((row.seq for row in history if row.seq is not None), default=0)
    sent = await store.sent_by_forks(uid, last + 1 if cut is None else cut)
    return Followed(None, "forked", why=", ".join(sent)) if sent else None


async def _made_since(
    store: Store, uid: str, history: Sequence[RecordRow], cut: int, beside: tuple[str, ...] = ()
) -> list[str]:
    """Return the names of effects that a run, or its children, made because of how they ended."""
    stop = next((row for row in history if row.seq == cut and row.kind == RecordKind.CANCEL), None)
    kept = {row.identity for row in history if row.seq is not None and row.seq < cut}
    made = [
        row.name
        for row in history
        if row.kind == RecordKind.EFFECT
        and row.state == RecordState.SUCCEEDED
        and row.seq is not None
        and row.seq > cut
        and row.identity not in beside
        # One that was in flight when the run was cancelled was not made because of that.
        and not (stop is not None and row.opened_at < (stop.closed_at or 0))
    ]
    for child, identity in await store.failed_children(uid):
        if identity not in kept:
            records = (await store.history([child]))[child]
            failed_call = read_failed_call((await store.end(child)).failed_call)
            named, others = (
                (None, ()) if failed_call is None else (failed_call.identity, failed_call.beside)
            )
            at = retry_cut(_records(records), failed_call=named)
            if at is not None:
                made += await _made_since(store, child, records, at, others)
    return made


async def retry_within(
    store: Store, owner: RunOwner, end: Move, delay: Duration, within: Duration | None
) -> Followed:
    """End a run and retry it, unless its first attempt began longer ago than `within`."""
    if within is not None and await _elapsed(store, owner.run) >= within:
        return Followed(None, "late")
    return await retry(store, owner.run, delay=delay, owner=owner, end=end)


async def _elapsed(store: Store, uid: str) -> Duration:
    """Return the time since the first attempt of a run began."""
    row = await store.run(uid)
    with contextlib.suppress(NotFound):  # it may have been pruned
        while row.attempt > 1 and row.follows is not None:
            row = await store.run(row.follows)
    return 0 if row.started_at is None else await store.now() - row.started_at


async def continue_run(store: Store, owner: RunOwner, end: Move, given: Continuation) -> Followed:
    """End a run and continue it as a new one with other arguments and attributes."""
    return await store.follow(
        Following(
            owner.run,
            store.new_uid(),
            Link.CONTINUE,
            0,
            input=given.input,
            args_hash=given.args_hash,
            attributes=given.attributes,
            unheard=given.unheard,
            worker=owner.worker,
            fence=owner.fence,
            end=end,
        )
    )


async def fork(  # noqa: PLR0913 - each is a thing of its own that a caller decides
    store: Store,
    uid: str,
    step: str | None,
    *,
    result: bytes | None = None,
    id: str | None = None,  # noqa: A002 - it is the user's word
    resend: bool = False,
    new_uid: str | None = None,
) -> Followed:
    """Run again from a call on, which has the `result` if one is given.

    It is refused if effects after that call would be sent again, unless `resend` says so.

    Raises:
        NotFound: history has no such call.
        BadInput: a result is given for something that has none, or the record is not of a call.
    """
    wish = Following(uid, new_uid or store.new_uid(), Link.FORK, id=id, resends=resend)
    if step is None:
        return await store.follow(wish)
    row = await find_call(store, uid, step)
    wish = wish._replace(cut=row.seq)
    if result is not None:
        wish = wish._replace(edited=_edited(row, wish.new_uid, result))
    if result is not None or row.kind == RecordKind.EFFECT:
        wish = wish._replace(named=row.identity)  # an effect that is named is to be sent
    return await store.follow(wish)


async def find_call(store: Store, uid: str, step: str) -> RecordRow:
    """Return the call of a run that is meant by its name or identity.

    Raises:
        NotFound: history has no such call.
        BadInput: the record is not of a call.
    """
    history = (await store.history([uid]))[uid]
    if any(each.identity == step and each.kind == RecordKind.CLOCK for each in history):
        raise BadInput(
            f"record {step!r}",
            "is a clock record, not a call",
            "Fork from a call in the history",
        )
    row = _found(history, step)
    if row is None:
        run = await store.run(uid)
        raise NotFound(
            f"step {step!r} in the history of run",
            run.id,
            store.namespace,
            f"Use the name of a step that `onward runs show {run.id}` lists",
        )
    return row


def _found(history: Iterable[RecordRow], step: str) -> RecordRow | None:
    """Return the first closed record of an identity or, failing that, of a name."""
    closed = [row for row in history if row.seq is not None and row.kind != RecordKind.CLOCK]
    for matches in ("identity", "name"):
        for row in closed:
            if getattr(row, matches) == step:
                return row
    return None


def _edited(row: RecordRow, run: str, result: bytes) -> NewRecord:
    if row.kind not in _WITH_RESULT:
        raise BadInput(
            f"{row.kind} {row.name!r}", "has no result", "Fork from a step, or leave out the result"
        )
    return NewRecord(
        run,
        row.identity,
        1,
        row.seq,
        row.kind,
        row.name,
        RecordState.SUCCEEDED,
        row.args_hash,
        row.version,
        # A signal that its wait had taken stays taken.
        message=row.message if row.kind == RecordKind.SIGNAL else None,
        payload=result,
        args=row.args,
    )


def _records(history: Iterable[RecordRow]) -> list[Record]:
    return [
        Record(
            row.identity,
            row.attempt,
            row.seq,
            RecordKind(row.kind),
            row.name,
            RecordState(row.state),
        )
        for row in history
    ]
