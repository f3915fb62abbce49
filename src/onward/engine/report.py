"""Everything that is known of one run, and what holds it up."""

from __future__ import annotations

from typing import TYPE_CHECKING

from onward.core.inbox import MessageKind
from onward.core.replay import RecordKind, RecordState
from onward.core.run import TERMINAL, RunState
from onward.engine.display import shown_time, shown_time_or_none, shown_traceback, shown_value
from onward.engine.effect_info import effect_infos
from onward.engine.flows import flows_in_force, restrictions
from onward.engine.info import error_info, events, whole_info
from onward.engine.loading import INBOX_BYTES
from onward.engine.views import Blocker, PendingCall, PendingSignal, RunReport
from onward.store.runs import ledger

if TYPE_CHECKING:
    from collections.abc import Iterable

    from onward.model.records import RecordRow
    from onward.model.runs import RunRow
    from onward.model.workers import Renewal
    from onward.store.store import Store

_ELSEWHERE = (RecordKind.CHILD, RecordKind.STEP)


async def report(store: Store, row: RunRow) -> RunReport:
    """Return everything that is known of a run."""
    end = await store.end(row.uid)
    history = (await store.history([row.uid]))[row.uid]
    effects = await effect_infos(store, await ledger.effects_of(store, row.uid))
    is_over = row.state in TERMINAL
    renewal = await _renewal(store, row)
    gone = None if renewal is None or renewal.is_alive else renewal.why_gone
    unserved = await store.why_unserved(row) if gone or await _is_due(store, row) else None
    rest = "; another worker will continue the run" if unserved is None else f", and {unserved}"
    error = end.error or (None if is_over else _last_error(history))
    return RunReport(
        await whole_info(store, row),
        shown_value(end.input),
        shown_value(end.result),
        () if is_over else tuple(_waits(history)),
        unserved if gone is None else gone + rest,
        tuple(await pending_signals(store, row.uid, history)),
        tuple(await events(store, row, history)),
        tuple(effect for effect in effects if row.newest and effect.waits_for is not None),
        None if error is None else error_info(error),
        None if error is None else shown_traceback(error),
        None if renewal is None else shown_time_or_none(renewal.at),
        is_taken_over=gone is not None and unserved is None,
        held_back=tuple(await held_back(store, row)),
    )


async def held_back(store: Store, row: RunRow) -> list[Blocker]:
    """Return the limits, rates and pauses that keep a ready run from being claimed."""
    flows = await flows_in_force(store, row) if row.state == RunState.READY else []
    if not flows:
        return []
    return [Blocker(*each) for each in restrictions(row, flows, await store.now())]


async def _renewal(store: Store, row: RunRow) -> Renewal | None:
    """Return when the worker of a running run last renewed its lease."""
    if row.state != RunState.RUNNING or row.worker is None:
        return None
    return await store.last_renewal(row.worker)


def _last_error(history: Iterable[RecordRow]) -> bytes | None:
    """Return the error of the newest failed attempt that another one follows."""
    failed = [record for record in history if record.seq is None and _is_tried_again(record)]
    newest = max(failed, key=lambda record: record.closed_at or record.opened_at, default=None)
    return None if newest is None else newest.error


async def _is_due(store: Store, row: RunRow) -> bool:
    """Return whether a worker could take a run now."""
    if row.state not in (RunState.READY, RunState.WAITING) or row.due is None:
        return False
    return row.due <= await store.now()


async def pending_signals(
    store: Store, uid: str, history: Iterable[RecordRow]
) -> list[PendingSignal]:
    """Return signals that were delivered to a run, and that no call has taken."""
    taken = {record.message for record in history}
    return [
        PendingSignal(message.name, shown_value(message.payload), shown_time(message.sent_at))
        for message in (await store.look([uid], budget=INBOX_BYTES))[uid]
        if message.kind == MessageKind.SIGNAL and message.seq not in taken
    ]


def _waits(history: Iterable[RecordRow]) -> Iterable[PendingCall]:
    """Return the calls that are not over."""
    newest: dict[str, RecordRow] = {}
    for record in sorted(history, key=lambda record: record.attempt):
        newest[record.identity] = record
    for record in newest.values():
        if record.seq is None and (record.state == RecordState.OPEN or _is_tried_again(record)):
            yield PendingCall(
                record.kind,
                record.name,
                shown_time(record.opened_at),
                shown_time_or_none(record.due),
                _elsewhere(record),
            )


def _is_tried_again(record: RecordRow) -> bool:
    return record.state == RecordState.FAILED and record.due is not None


def _elsewhere(record: RecordRow) -> str | None:
    """Return the uid of the run that does what a call waits for, if another does."""
    if record.kind not in _ELSEWHERE or record.payload is None:
        return None
    kept = shown_value(record.payload)
    uid = kept.get("uid") if isinstance(kept, dict) else None
    return None if uid is None else str(uid)
