"""What a server reads before it checks what a remote worker wants to write."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from onward.store.store import Store


async def event_deliveries(
    store: Store, handler: str, key: str, events: Collection[str]
) -> dict[str, tuple[int, int]]:
    """Return how often events were made pending for a handler, and how often replayed."""
    rows = await store.read(
        lambda tx: tx.fetch("event_deliveries", handler=handler, key=key, events=tx.array(events))
    )
    return {event: (attempt, replays) for event, attempt, replays in rows}


async def effect_approvals(
    store: Store, keys: Collection[str]
) -> dict[str, tuple[int, int, tuple[str, bytes, str] | None]]:
    """Return the version of effects, and whether each is approved.

    The last value is the title, the arguments and their hash if an operator has approved them, and
    the next version would replace them.
    """
    rows = await store.read(lambda tx: tx.fetch("effect_approvals", keys=tx.array(keys)))
    return {
        key: (version, approved, (title, args, args_hash) if is_fixed else None)
        for key, version, approved, is_fixed, title, args, args_hash in rows
    }


async def children_among(store: Store, run: str, uids: Collection[str]) -> frozenset[str]:
    """Return those of some runs that a run has started, or an earlier attempt of it."""
    rows = await store.read(lambda tx: tx.fetch("children_among", run=run, uids=tx.array(uids)))
    return frozenset(row[0] for row in rows)


async def held_runs(store: Store, worker: str, uids: Collection[str]) -> Sequence[Sequence[Any]]:
    """Return what checks need to know of runs of a worker: the first fields of a `HeldRun`."""
    return await store.read(lambda tx: tx.fetch("held_runs", worker=worker, uids=tx.array(uids)))


async def runs_in_queues(
    store: Store, uids: Collection[str], queues: Collection[str]
) -> frozenset[str]:
    """Return those of some runs that are in one of these queues."""
    rows = await store.read(
        lambda tx: tx.fetch("runs_in_queues", uids=tx.array(uids), queues=tx.array(queues))
    )
    return frozenset(row[0] for row in rows)
