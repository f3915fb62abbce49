"""Open runs with their histories, for a replay that writes nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from onward.core.effect import effect_key
from onward.core.replay import RecordKind
from onward.engine.display import shown_value
from onward.engine.loading import read_each
from onward.model.records import RecordRow
from onward.model.runs import ClaimedRun
from onward.store.runs import ledger

if TYPE_CHECKING:
    from onward.store.store import Store


MAX_RUNS = 2**62
"""All of them."""


class OpenRun(NamedTuple):
    """An open run as its next claim would return it, and its history or why that is unreadable."""

    run: ClaimedRun
    history: Sequence[RecordRow]
    failure: Exception | None


async def begun_runs(store: Store, *, name: str | None, limit: int | None) -> list[str]:
    """Return the uids of open runs that have begun, newest first."""
    most = MAX_RUNS if limit is None else limit
    rows = await store.read(lambda tx: tx.fetch("begun_runs", name=name, limit=most))
    return [row[0] for row in rows]


async def open_runs(store: Store, uids: Sequence[str]) -> list[OpenRun]:
    """Return those of these runs that are open, with their histories."""
    rows = await store.read(lambda tx: tx.fetch("open_runs", uids=tx.array(uids)))
    runs = [ClaimedRun._make((*row, 0, 0, None)) for row in rows]
    found, failed = await read_each(store.history, [run.uid for run in runs])
    return [OpenRun(run, found.get(run.uid, ()), failed.get(run.uid)) for run in runs]


async def recorded_arguments(store: Store, uid: str, identity: str) -> Any:
    """Return the arguments of a recorded call, from wherever they are stored; None: nowhere."""
    run = await store.run(uid)
    records = [row for row in (await store.history([uid]))[uid] if row.identity == identity]
    kept = next((row.args for row in records if row.args is not None), None)
    if kept is None and any(row.kind == RecordKind.EFFECT for row in records):
        effect = await ledger.effect(store, effect_key(run.origin or uid, identity))
        kept = None if effect is None else effect.args
    if kept is None:
        for child in await store.children(uid):
            if child.parent_identity == identity:
                kept = (await store.end(child.uid)).input
    return shown_value(kept)
