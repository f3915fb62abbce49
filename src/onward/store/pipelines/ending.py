"""What follows when a run of a handler ends and has not succeeded.

The end of the run, the fate of its events, the block of its handler and the run that follows it
are one transaction; `core.handler` decides.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from onward.core.chain import Link
from onward.core.decision import Refused
from onward.core.delivery import MAX_RELEASES, DeliveryState, Ending, RetryStart, retry_start
from onward.core.digest import digest
from onward.core.effect import EffectState
from onward.core.handler import Sequel, sequel, sequel_of_verdict
from onward.core.ids import RANDOM_BITS, uid7
from onward.core.run import Reason, RunState
from onward.model.following import Followed, Following
from onward.store.hints import PIPELINES
from onward.store.pipelines.operating import skip_unwanted
from onward.store.pipelines.publishing import lock_handlers
from onward.store.pipelines.writing import note_ended
from onward.store.runs.followers import begin

if TYPE_CHECKING:
    from onward.core.instant import Duration
    from onward.model.runs import RunRow
    from onward.store.database import Tx


class HandlerRun(NamedTuple):
    """Which handler, and which key of it, a run is of."""

    handler: str
    key: str
    lane: str


async def settle(
    tx: Tx,
    run: RunRow,
    state: str,
    reason: str | None,
    *,
    code: str | None = None,
    retry_in: Duration | None = None,
) -> tuple[Followed | None, set[str]]:
    """Do what follows from the end of a run, whose row says that already.

    Args:
        tx: The transaction, which has the run locked.
        run: The run, as it was.
        state: The state in which it has ended.
        reason: The reason for that.
        code: The code that it ran.
        retry_in: The failure was transient: after how long it is tried again.

    Returns:
        The run that follows it, if one does, and the hints to publish.
    """
    of = await handler_of(tx, run.uid)
    if of is None:
        return None, set()
    await lock_handlers(tx, (), [(of.handler, of.key)])
    effect = await effect_of(tx, run.uid)
    why = None if reason is None else Reason(reason)
    then = sequel(RunState(state), why, effect, will_retry=retry_in is not None)
    return await _carry_out(tx, run, of, then, code, retry_in or 0)


async def settle_verdict(tx: Tx, run: RunRow, effect: EffectState) -> set[str]:
    """Do what follows from a verdict on the effect of a run that has ended.

    Nothing does, unless the run blocks its handler because of that effect.
    """
    of = await handler_of(tx, run.uid)
    if of is None or not run.newest:
        return set()
    await lock_handlers(tx, (), [(of.handler, of.key)])
    then = sequel_of_verdict(effect)
    if then.blocks or not await _free(tx, run.uid, of):
        return set()
    _, subjects = await _carry_out(tx, run, of, then, None, 0)
    return subjects


async def _carry_out(
    tx: Tx, run: RunRow, of: HandlerRun, then: Sequel, code: str | None, delay: Duration
) -> tuple[Followed | None, set[str]]:
    if then.events is Ending.RELEASE:
        await release(tx, run.uid, at_fault=then.at_fault)
    if then.blocks:
        given = {"handler": of.handler, "key": of.key, "run": run.uid, "code": code}
        await tx.fetch("block_handler", **given)
    if then.start is None:
        return None, {PIPELINES}
    new_uid = await _follower_uid(tx, run.uid)
    wish = Following(run.uid, new_uid, Link.RETRY, delay_in=delay)
    wish = wish._replace(cut=await cut_of(tx, run.uid, then.start))
    await tx.fetch("be_followed", uid=run.uid)
    followed, subjects = await begin(tx, wish, run)
    await hand_over(tx, run.uid, new_uid, then.start)
    return followed, subjects | {PIPELINES}


async def _follower_uid(tx: Tx, uid: str) -> str:
    """Return the uid of the run that follows another: a transaction may be run again."""
    [[now]] = await tx.fetch("clock")
    return uid7(now, int(digest("follower", uid), 16) % (1 << RANDOM_BITS))


# --- runs that follow -----------------------------------------------------------------------------


async def start_of_retry(tx: Tx, run: RunRow, of: HandlerRun) -> RetryStart | Refused:
    """Return where a retry of a handler's run begins, which is locked, or why there can be none."""
    await lock_handlers(tx, (), [(of.handler, of.key)])
    for uid, how in await tx.fetch("lane_holders", lane=of.lane):
        if uid != run.uid and how == "open":
            return Refused(
                f"run {uid} of its pipeline is open; retry this run when that one has ended"
            )
        if uid != run.uid:
            return Refused(f"its pipeline is blocked by run {uid}; retry that run")
    return retry_start(await effect_of(tx, run.uid))


async def cut_of(tx: Tx, uid: str, start: RetryStart) -> int | None:
    """Return the position before which the retry of a handler's run copies the history."""
    if start is RetryStart.FRESH:
        return 0
    [[position]] = await tx.fetch("position_of_next", run=uid)
    return None if position is None else int(position)


async def hand_over(tx: Tx, old: str, new: str, start: RetryStart) -> None:
    """Let a run have what the run has reserved that it follows, or give that back."""
    if start is RetryStart.FRESH:
        await release(tx, old, at_fault=False)
    else:
        await tx.fetch("hand_over_deliveries", old=old, new_uid=new)
        await tx.fetch("hand_over_causes", old=old, new_uid=new)
    of = await handler_of(tx, old)
    if of is not None:
        await _free(tx, old, of)


async def _free(tx: Tx, run: str, of: HandlerRun) -> bool:
    """Free a handler that is blocked by a run; return whether it was."""
    given = {"handler": of.handler, "key": of.key}
    return bool(await tx.fetch("free_handler", run=run, **given))


# --- events ---------------------------------------------------------------------------------------


async def release(tx: Tx, run: str, *, at_fault: bool) -> None:
    """Release the events that a run has reserved; set those aside that were at fault too often."""
    rows = await tx.fetch("release_deliveries", run=run, fault=int(at_fault), max=MAX_RELEASES)
    pending = Counter((row[0], row[1]) for row in rows if row[4] == DeliveryState.PENDING)
    for (handler, key), count in sorted(pending.items()):
        await tx.fetch("raise_handler", handler=handler, key=key, count=count)
    skipped = [row for row in rows if row[4] == DeliveryState.SKIPPED]
    for handler in sorted({row[0] for row in skipped}):
        ended = [(row[2], row[3]) for row in skipped if row[0] == handler]
        await note_ended(tx, handler, ended, DeliveryState.SKIPPED)
    await skip_unwanted(tx, [row[3] for row in rows if row[4] == DeliveryState.PENDING])


async def effect_of(tx: Tx, run: str) -> EffectState | None:
    """Return the state of the effect that a handler's run, or one that it retries, has chosen."""
    rows = await tx.fetch("effect_of_handler_run", run=run)
    return EffectState(rows[0][0]) if rows else None


async def handler_of(tx: Tx, run: str) -> HandlerRun | None:
    """Return which handler a run is of; None for a workflow."""
    rows = await tx.fetch("handler_of_run", run=run)
    return HandlerRun._make(rows[0]) if rows and rows[0][0] is not None else None
