"""Reads and decisions of operators on the effect ledger."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from onward.core.effect import EffectState
from onward.core.inbox import MessageKind
from onward.core.run import TERMINAL
from onward.model.effects import EffectRow, Ruling
from onward.model.messages import NewMessage, wakes_for
from onward.model.runs import RunRow
from onward.store.abbreviation import EFFECT, bounds
from onward.store.hints import queue_subject, run_subject
from onward.store.pipelines.ending import settle_verdict
from onward.store.runs.fencing import check_owner
from onward.store.runs.withdrawing import withdraw

if TYPE_CHECKING:
    from collections.abc import Callable

    from onward.core.instant import Instant
    from onward.model.runs import RunOwner
    from onward.store.database import Tx
    from onward.store.store import Store

_LAST = chr(0x10FFFF)
"""Sorts after every uid."""


async def effect(store: Store, key: str) -> EffectRow | None:
    rows = await store.read(lambda tx: tx.fetch("ledger_row", key=key))
    return EffectRow._make(rows[0]) if rows else None


async def open_effects(store: Store, *, limit: int = 100, after: str = "") -> list[EffectRow]:
    """Return effects that are not settled; `after` is the last key of the page before."""
    rows = await store.read(lambda tx: tx.fetch("open_effects", limit=limit, after=after))
    return [EffectRow._make(row) for row in rows]


async def effects_of(store: Store, run: str) -> list[EffectRow]:
    """Return the effects of a run."""
    rows = await store.read(lambda tx: tx.fetch("effects_of_run", run=run))
    return [EffectRow._make(row) for row in rows]


async def all_effects(store: Store, *, limit: int = 100, after: str = "") -> list[EffectRow]:
    """Return effects, those of the newest runs first; `after` is the last key of a page."""

    async def fetch(tx: Tx) -> list[EffectRow]:
        run = _LAST
        if after:
            rows = await tx.fetch("run_of_effect", key=after)
            if not rows:
                return []
            run = rows[0][0]
        rows = await tx.fetch("list_effects", run=run, key=after, limit=limit)
        return [EffectRow._make(row) for row in rows]

    return await store.read(fetch)


async def effects_beginning(store: Store, beginning: str, limit: int) -> list[EffectRow]:
    """Return effects whose keys begin like this."""
    within = bounds(beginning, EFFECT)
    if within is None:
        return []
    rows = await store.read(
        lambda tx: tx.fetch("effects_between", low=within.low, high=within.high, limit=limit)
    )
    return [EffectRow._make(row) for row in rows]


async def judge(
    store: Store, key: str, rule: Callable[[EffectRow, Instant, bool], Ruling]
) -> EffectRow | None:
    """Let `rule` decide about a row, and send the run a message; None if there is no such row.

    The rule is given the row, the time, and whether its run drops it. Whatever it raises undoes
    everything. If the row changes meanwhile, or its run is cancelled, the rule is asked again.
    """

    async def work(tx: Tx) -> tuple[EffectRow | None, set[str]]:
        while True:
            rows = await tx.fetch("ledger_row", key=key)
            if not rows:
                return None, set()
            row = EffectRow._make(rows[0])
            [[now]] = await tx.fetch("clock")
            was_dropped = await _is_dropped(tx, row)
            ruling = rule(row, now, was_dropped)._asdict()
            if await tx.fetch("judge_effect", key=key, version=row.version, **ruling):
                break
        await tx.lock([row.run])
        if await _is_dropped(tx, row) and not was_dropped:
            raise _CancelledMeanwhileError
        # The effect before the run: commits lock them in the same order.
        kind, message = MessageKind.VERDICT, f"verdict {key} {row.version + 1}"
        [sent] = await tx.send([NewMessage(row.run, message, kind, key, None, wakes_for(kind), 1)])
        subjects = {run_subject(row.run)}
        if sent.fate == "delivered":
            subjects.add(queue_subject(sent.queue))
        run = RunRow._make((await tx.fetch("run_by_uid", uid=row.run))[0])
        if run.handler is not None and run.state in TERMINAL:
            subjects |= await settle_verdict(tx, run, EffectState(ruling["state"]))
        return row, subjects

    while True:
        with suppress(_CancelledMeanwhileError):
            found, subjects = await store.write(work)
            break
    store.database.publish(subjects)
    return None if found is None else await effect(store, key)


class _CancelledMeanwhileError(Exception):
    """A run was cancelled while an operator decided about one of its effects."""


async def is_dropped(store: Store, row: EffectRow) -> bool:
    """Return whether the run of an effect has ended, or was cancelled after it made the call.

    What the run calls after that belongs to its cleanup.
    """
    return await store.read(lambda tx: _is_dropped(tx, row))


async def _is_dropped(tx: Tx, row: EffectRow) -> bool:
    [[state, was_asked_before]] = await tx.fetch("is_dropped", uid=row.run, key=row.key)
    return state in TERMINAL or bool(was_asked_before)


async def withdraw_own(tx: Tx, owner: RunOwner) -> None:
    """Withdraw what a run planned and never sent.

    Raises:
        LeaseLost: the run is not the owner's any more.
    """
    await withdraw(tx, owner.run)  # effects are locked before runs, as commits do
    await check_owner(tx, owner)
