"""The ledger of effects, as its readers and operators see it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from onward.core.inbox import MessageKind
from onward.store.abbreviation import EFFECT, bounds
from onward.store.hints import queue_subject, run_subject
from onward.store.rows import EffectRow, Message
from onward.store.runs.messages import stirring
from onward.store.runs.owning import check_owner

if TYPE_CHECKING:
    from collections.abc import Callable

    from onward.core.instant import Duration, Instant
    from onward.store.rows import Owner
    from onward.store.store import Store


class Ruling(NamedTuple):
    """What an operator's word makes of a row, and who said it and why."""

    state: str
    attempt: int
    asks: int
    approved: int
    due: Instant | None
    result: bytes | None
    verdict: str
    decided_by: str
    decided_why: str


async def effect(store: Store, key: str) -> EffectRow | None:
    """Return a row of the ledger."""
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
    rows = await store.read(lambda tx: tx.fetch("list_effects", limit=limit, after=after))
    return [EffectRow._make(row) for row in rows]


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
    store: Store, key: str, rule: Callable[[EffectRow, Instant], Ruling]
) -> EffectRow | None:
    """Let `rule` decide about a row, and tell the run of it; None if the row is not there.

    Whatever `rule` raises undoes everything. If the row changes meanwhile, it is asked again.
    """

    async def work(tx: Tx) -> tuple[EffectRow | None, set[str]]:
        while True:
            rows = await tx.fetch("ledger_row", key=key)
            if not rows:
                return None, set()
            row = EffectRow._make(rows[0])
            [[now]] = await tx.fetch("clock")
            ruling = rule(row, now)._asdict()
            if await tx.fetch("judge_effect", key=key, version=row.version, **ruling):
                break
        # The effect before the run: in that order every commit locks them, too.
        kind, told = MessageKind.VERDICT, f"verdict {key} {row.version + 1}"
        [sent] = await tx.send([Message(row.run, told, kind, key, None, stirring(kind), 1)])
        subjects = {run_subject(row.run)}
        if sent.fate == "delivered":
            subjects.add(queue_subject(sent.queue))
        return row, subjects

    found, subjects = await store.write(work)
    store.database.tell(subjects)
    return None if found is None else await effect(store, key)


async def take_turn(store: Store, owner: Owner, key: str, interval: Duration) -> Duration:
    """Return how long to wait before something of a limited rate may be done for a run.

    Raises:
        LeaseLost: the run is not the owner's any more.
    """

    async def work(tx: Tx) -> int:
        await check_owner(tx, owner)
        rows = await tx.fetch("take_turn", key=key, interval=interval)
        return int(rows[0][0])

    return max(0, await store.write(work))


if TYPE_CHECKING:
    from onward.store.database import Tx
