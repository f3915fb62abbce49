"""Rows of runs and their histories as users see them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from onward.codec import read_error
from onward.core.effect.keys import effect_key
from onward.core.hold import read_sources
from onward.core.replay import RecordKind
from onward.core.run import Reason, RunKind, RunState
from onward.engine.display import (
    shown_error,
    shown_notes,
    shown_time,
    shown_time_or_none,
    shown_value,
    unreadable_text,
)
from onward.engine.ends import why_ended
from onward.engine.payloads import unpack
from onward.engine.views import (
    Discard,
    DivergedAt,
    ErrorInfo,
    HistoryEvent,
    RunInfo,
    UnservedRun,
)
from onward.errors import NotFound
from onward.model.runs import RunOutcome
from onward.store.runs import ledger

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from onward.codec import Failure
    from onward.model.effects import EffectRow
    from onward.model.records import RecordRow
    from onward.model.runs import RunRow
    from onward.store.store import Store


async def infos_of(store: Store, rows: Sequence[RunRow]) -> list[RunInfo]:
    """Return runs with their errors, and with the runs that they belong to."""
    ids = {row.uid: row.id for row in rows}
    for source in {source for row in rows for source in read_sources(row.held_by)}:
        if source not in ids:
            try:
                ids[source] = (await store.run(source)).id
            except NotFound:
                ids[source] = source
    outcomes = await store.outcomes(row.uid for row in rows)
    return [_info(row, ids, outcomes.get(row.uid, RunOutcome(row.uid))) for row in rows]


async def whole_info(store: Store, row: RunRow) -> RunInfo:
    """Return a run with all that has to be looked up for it."""
    end = await store.end(row.uid)
    noted = shown_notes(await store.notes(row.uid), end.attributes)
    [info] = await infos_of(store, [row])
    return replace(
        info,
        progress=shown_value(end.progress),
        attributes=noted.attributes,
        counters=noted.counters,
    )


async def unserved(store: Store) -> list[UnservedRun]:
    """Return runs that could continue, but that no live worker can take, and why."""
    found = await store.unserved()
    infos = await infos_of(store, [each.run for each in found])
    return [UnservedRun(info, each.why) for info, each in zip(infos, found, strict=True)]


async def history(store: Store, uid: str) -> list[HistoryEvent]:
    """Return what a run did, in order; what is open comes last."""
    return await events(store, await store.run(uid), (await store.history([uid]))[uid])


async def events(store: Store, run: RunRow, rows: Iterable[RecordRow]) -> list[HistoryEvent]:
    """Return records with their values decoded; effects with how often the ledger says they went.

    The record of an effect is written once, however often that is sent.
    """
    shown = []
    for row in rows:
        key = effect_key(run.origin or run.uid, row.identity)
        effect = await ledger.effect(store, key) if row.kind == RecordKind.EFFECT else None
        shown.append(_event(row, effect))
    return shown


def _event(row: RecordRow, effect: EffectRow | None) -> HistoryEvent:
    return HistoryEvent(
        row.seq,
        row.identity,
        row.kind,
        row.name,
        row.state,
        row.attempt if effect is None else effect.attempt,
        row.version,
        shown_value(row.payload),
        None if row.error is None else error_info(row.error),
        shown_time_or_none(row.due),
        row.message,
        row.args_hash,
        shown_time(row.opened_at),
        shown_time_or_none(row.closed_at),
        shown_value(row.args if effect is None else effect.args),
    )


def error_info(kept: bytes) -> ErrorInfo:
    """Return a stored error with the line that raised it and its causes."""
    try:
        return _error(read_error(unpack(kept)))
    except Exception as error:  # noqa: BLE001 - a damaged row may fail in any way
        text = unreadable_text(error)
        return ErrorInfo("", text, "", text)


def _error(failure: Failure) -> ErrorInfo:
    place = failure.place
    led_to_it = (failure.cause or failure.context, *failure.members)
    return ErrorInfo(
        failure.type,
        failure.message,
        failure.traceback,
        failure.text,
        None if place is None else place.where,
        None if place is None else place.source,
        failure.notes,
        tuple(_error(each) for each in led_to_it if each is not None),
    )


def _info(row: RunRow, ids: Mapping[str, str], outcome: RunOutcome) -> RunInfo:
    return RunInfo(
        row.id,
        row.uid,
        row.name if row.kind == RunKind.WORKFLOW else row.name.removeprefix(f"{row.kind} "),
        row.state,
        row.reason,
        row.phase,
        row.attempt,
        row.queue,
        tuple(row.tags.split()),
        row.parent,
        shown_time(row.created_at),
        shown_time_or_none(row.started_at),
        shown_time_or_none(row.finished_at),
        shown_time_or_none(row.due),
        error=shown_error(outcome.error) or why_ended(row.state, row.reason),
        kind=row.kind,
        priority=row.priority,
        version=row.version,
        root=row.root,
        follows=row.follows,
        link=row.link,
        scheduled_at=shown_time(row.scheduled_at),
        deadline=shown_time_or_none(row.deadline),
        held_by=tuple(ids[source] for source in read_sources(row.held_by)),
        worker=row.worker,
        crashes=row.crashes,
        parent_id=outcome.parent_id,
        follows_id=outcome.follows_id,
        followed_by=outcome.follower,
        followed_link=outcome.follower_link,
        error_type=outcome.error_type or None,
        failed_step=outcome.failed_step or None,
        discarded=_discard(outcome),
        diverged_at=_diverged_at(row, outcome),
    )


def _diverged_at(row: RunRow, outcome: RunOutcome) -> DivergedAt | None:
    if row.state != RunState.PAUSED or row.reason != Reason.DIVERGENCE or outcome.error is None:
        return None
    try:
        data = read_error(unpack(outcome.error)).data
        if data["step"] is None and not data.get("is_about_arguments"):
            return None
        return DivergedAt(data["step"], data["needs_result"])
    except Exception:  # noqa: BLE001 - a damaged row may fail in any way
        return None


def _discard(outcome: RunOutcome) -> Discard | None:
    if outcome.discarded_at is None:
        return None
    at = shown_time(outcome.discarded_at)
    return Discard(at, outcome.discarded_by or "", outcome.discarded_why or "")
