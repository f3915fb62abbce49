"""Inputs, read for users: lists, counts, and what happened because of one."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from onward.core.delivery import DeliveryState
from onward.core.effect import EffectState
from onward.core.ids import uid7
from onward.engine.display import shown_time
from onward.engine.effect_info import effect_infos
from onward.engine.pipelines.events import event_infos
from onward.engine.pipelines.views import InputCounts, InputInfo, InputReport, SkippedInput
from onward.errors import BadInput
from onward.store.pipelines.inputs import (
    InputQuery,
    count_inputs,
    effects_of_input,
    events_of_input,
    input_row,
    inputs_of_runs,
    list_inputs,
    mark_skipped,
    skip_caused,
)
from onward.store.pipelines.overview import deliveries_of

if TYPE_CHECKING:
    from onward.core.instant import Duration, Instant
    from onward.engine.effect_views import EffectInfo
    from onward.engine.pipeline_engine import InputFilter
    from onward.engine.pipelines.views import EventInfo
    from onward.model.effects import EffectRow
    from onward.store.database import Tx
    from onward.store.pipelines.inputs import InputRow
    from onward.store.pipelines.overview import DeliveryOverview, EventOverview
    from onward.store.store import Store

STATES = ("pending", "done", "skipped", "stale")


async def filtered_inputs(store: Store, wanted: InputFilter) -> list[InputInfo]:
    """Return inputs, the newest first; the state `stale` means pending for too long.

    Raises:
        BadInput: there is no such state.
    """
    if wanted.state is not None and wanted.state not in STATES:
        advice = f"Use one of {', '.join(STATES)}"
        raise BadInput(f"state {wanted.state!r}", "is not a valid input state", advice)
    now = await store.now()
    is_stale = wanted.state == "stale"
    query = InputQuery(
        wanted.pipeline,
        "pending" if is_stale else wanted.state,
        wanted.source,
        wanted.text,
        now - wanted.stale_after if is_stale else None,
        wanted.limit,
    )
    rows = await store.read(lambda tx: list_inputs(tx, query))
    return [_info(row, now, wanted.stale_after) for row in rows]


async def counted_inputs(
    store: Store, pipeline: str | None, stale_after: Duration
) -> list[InputCounts]:
    """Return how many inputs of each kind are in each state."""
    before = uid7(max(0, await store.now() - stale_after), 0)
    return [
        InputCounts(
            row.pipeline,
            row.source,
            row.type,
            row.pending,
            row.registered - row.skipped - row.pending,
            row.skipped,
            row.stale,
        )
        for row in await store.snapshot(lambda tx: count_inputs(tx, pipeline, before))
    ]


class _Caused(NamedTuple):
    """What an input has caused, as it is stored."""

    row: InputRow
    events: list[EventOverview]
    deliveries: dict[str, list[DeliveryOverview]]
    effects: list[EffectRow]
    inputs: dict[str, list[str]]


async def report(store: Store, uid: str, stale_after: Duration) -> InputReport:
    """Return what happened because of an input.

    Raises:
        NotFound: there is none.
    """

    async def look(tx: Tx) -> _Caused:
        row = await input_row(tx, uid)
        events = await events_of_input(tx, uid)
        effects = await effects_of_input(tx, uid)
        inputs = await inputs_of_runs(tx, [effect.run for effect in effects])
        return _Caused(row, events, await deliveries_of(tx, events), effects, inputs)

    found = await store.snapshot(look)
    shown = event_infos(found.events, found.deliveries)
    effects = await effect_infos(store, found.effects)
    return InputReport(
        _info(found.row, await store.now(), stale_after),
        tuple(shown),
        tuple(effects),
        tuple(_notes(found.row, shown, effects)),
        {row.key: tuple(found.inputs.get(row.run, ())) for row in found.effects},
    )


def _info(row: InputRow, now: Instant, stale_after: Duration) -> InputInfo:
    is_stale = row.state == "pending" and row.created_at < now - stale_after
    return InputInfo(
        row.uid,
        row.pipeline,
        row.source,
        row.type,
        row.external,
        row.title,
        row.state,
        is_stale,
        shown_time(row.created_at),
    )


def _notes(row: InputRow, events: list[EventInfo], effects: list[EffectInfo]) -> list[str]:
    """Return what a skip of the input did not undo."""
    if row.skipped_at is None:
        return []
    at = shown_time(row.skipped_at)
    notes = [f"skipped at {at:%Y-%m-%d %H:%M:%S}Z by {row.skipped_by}: {row.skipped_why}"]
    for effect in effects:
        what = effect.title or effect.name
        if effect.state == EffectState.APPLIED:
            when = "before" if effect.updated_at <= at else "after"
            notes.append(f"{what!r} was applied {when} the skip (run {effect.run})")
        elif effect.waits_for is not None:
            notes.append(f"{what!r} may have happened: run {effect.run} is completing")
    consumed = sum(
        delivery.state == DeliveryState.CONSUMED
        for event in events
        for delivery in event.deliveries
    )
    if consumed:
        verb = "event was" if consumed == 1 else "events were"
        notes.append(f"{consumed} {verb} consumed")
    return notes


async def skip_input(store: Store, uid: str, reason: str, by: str) -> SkippedInput:
    """Start nothing more because of an input; what has passed its effect completes.

    Raises:
        NotFound: there is none.
    """
    await store.write(lambda tx: mark_skipped(tx, uid, reason, by))
    done, subjects = await store.write(lambda tx: skip_caused(tx, uid, reason, by))
    store.database.publish(subjects)
    return SkippedInput(done.skipped, done.cancelled, done.completing, done.done)
