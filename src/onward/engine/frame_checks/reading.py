"""The facts that a server reads of the database before it checks what a worker wants to write."""

from __future__ import annotations

from typing import TYPE_CHECKING

from onward.engine.frame_checks.known import (
    NO_FACTS,
    FrameFacts,
    HeldRun,
    KnownEffect,
    KnownEvent,
)
from onward.store import frame_facts

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from onward.engine.frame_checks.known import NeededFacts
    from onward.model.workers import LostWorker
    from onward.store.store import Store


async def read_facts(store: Store, held: HeldRun, needed: NeededFacts) -> FrameFacts:
    """Return the facts that the check of a commit needs."""
    if not needed:
        return NO_FACTS
    events: dict[str, KnownEvent] = {}
    effects: dict[str, KnownEffect] = {}
    if needed.events and held.handler is not None:
        rows = await frame_facts.event_deliveries(
            store, held.handler, held.handler_key, needed.events
        )
        events = {event: KnownEvent(*row) for event, row in rows.items()}
    if needed.effects:
        approvals = await frame_facts.effect_approvals(store, needed.effects)
        effects = {key: KnownEffect(*row) for key, row in approvals.items()}
    return FrameFacts(events, effects)


async def children_among(store: Store, run: str, uids: Collection[str]) -> frozenset[str]:
    """Return those of some runs that a run may dismiss: its children."""
    return await frame_facts.children_among(store, run, uids)


async def held_runs(store: Store, worker: str, held: Mapping[str, int]) -> list[HeldRun]:
    """Return those of some runs, given with their fences, that no other worker has claimed."""
    rows = [HeldRun(*row) for row in await frame_facts.held_runs(store, worker, list(held))]
    return [run for run in rows if run.fence == held[run.uid]]


async def worker_before(
    store: Store, before: LostWorker | None, queues: Collection[str]
) -> LostWorker | None:
    """Return the worker whose place one takes, with those of its runs that this one could have had.

    A crash that was counted for such a run is taken back, and nothing shows that the worker had it.
    """
    if before is None or not before.held:
        return before
    possible = await frame_facts.runs_in_queues(store, list(before.held), queues)
    return before._replace(held={uid: before.held[uid] for uid in possible})
