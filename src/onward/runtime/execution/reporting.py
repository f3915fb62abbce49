"""Reports to the observer: runs that a worker claims, and how they leave it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from onward.codec import decode_error, read_error
from onward.core.effect import EffectState
from onward.core.replay import RecordKind
from onward.core.run import Reason, RunState
from onward.engine.payloads import unpack
from onward.runtime.body.calls import StepCall
from onward.runtime.body.children import ChildCall
from onward.runtime.body.divergence import place_of
from onward.runtime.body.effects import EffectCall
from onward.telemetry.events import emit
from onward.telemetry.scope import RunScope

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from onward.core.instant import Duration, Instant
    from onward.core.replay import Record
    from onward.model.effects import EffectWrite
    from onward.model.messages import InboxRow
    from onward.model.runs import ClaimedRun, Move
    from onward.runtime.body.body import Body
    from onward.telemetry.observer import Observer

ABANDONED = frozenset({EffectState.IN_FLIGHT, EffectState.NEEDS_RECONCILE})
"""The uncertain states that are reported when a run ends; `indeterminate` was reported before."""

MAX_NAMED = 10
"""How many calls that the code no longer makes are named in a report."""


def scope_of(run: ClaimedRun, worker: str) -> RunScope:
    """Return the scope of a run for logs, the same for all of its claims by a worker."""
    return RunScope(run.id, run.uid, run.name, worker, run.queue, run.created_at)


def report_claimed(observer: Observer, scope: RunScope, run: ClaimedRun) -> None:
    """Report that a worker claimed a run."""
    observer.run_claimed(scope, trace=run.trace, lag=_lag(run))


def _lag(run: ClaimedRun) -> Duration | None:
    # For a later claim it is unknown when the run could have been claimed.
    if run.fence > 1 or run.started_at is None:
        return None
    return max(0, run.started_at - run.scheduled_at)


def report_left(observer: Observer, scope: RunScope, move: Move | None, at: Instant) -> None:
    """Report that a run left its worker; without a move, others decide its state."""
    if move is None:
        observer.run_left(scope, None)
        return
    reason = None if move.reason is None else Reason(move.reason)
    error = None if move.error is None else decode_error(unpack(move.error))
    observer.run_left(scope, RunState(move.state), reason, at=at, error=error)


def report_unread(scope: RunScope, unread: Sequence[Record]) -> bool:
    """Report recorded calls that the code did not make again, except marks of changes."""
    marks = (record.identity for record in unread if record.kind is not RecordKind.PATCH)
    missed = list(dict.fromkeys(marks))
    if missed:
        named = ", ".join(missed[:MAX_NAMED])
        emit("run.unread", scope, unread_count=len(missed), unread=named)
    return bool(missed)


def report_unread_signals(scope: RunScope, signals: Iterable[InboxRow]) -> None:
    """Report signals that were delivered to a run and that it did not take before it ended."""
    names = [row.name for row in signals]
    if names:
        named = ", ".join(list(dict.fromkeys(names))[:MAX_NAMED])
        emit("run.unread_signals", scope, unread_count=len(names), signals=named)


def report_unawaited(scope: RunScope, body: Body, fn: Callable[..., Any]) -> None:
    """Report calls that a body has begun and that it did not wait for when it returned."""
    kinds = StepCall | EffectCall | ChildCall
    calls = [call for call in body.calls.values() if isinstance(call, kinds)]
    names = dict.fromkeys(call.name for call in calls if not call.only_listens)
    if names:
        where = ", ".join(filter(None, dict.fromkeys(body.origins()))) or str(place_of(fn))
        emit("run.unawaited", scope, calls=", ".join(names), where=where)


def report_effect(observer: Observer, scope: RunScope, row: EffectWrite, at: Instant) -> None:
    """Report that an effect needs an operator, whatever else its run can still do."""
    if row.state == EffectState.PLANNED:
        reason, message = Reason.APPROVAL, f"effect {row.name!r} is waiting for approval"
    else:
        reason, message = Reason.RECONCILIATION, f"the outcome of effect {row.name!r} is unknown"
        if row.error is not None:
            why = read_error(unpack(row.error))
            message += f": {why.type}: {why.message}"
    observer.effect_waits(scope, row.name, row.key, reason, at=at, message=message)


def report_abandoned(observer: Observer, scope: RunScope, name: str, key: str, at: Instant) -> None:
    """Report that the outcome of an effect is unknown and its run no longer waits for it."""
    message = f"the outcome of effect {name!r} is unknown, and its run no longer waits for it"
    observer.effect_waits(scope, name, key, Reason.RECONCILIATION, at=at, message=message)


def report_crasher(observer: Observer, run: ClaimedRun, worker: str, at: Instant) -> None:
    """Report that a run was ended because workers crashed with it."""
    scope = scope_of(run, worker)
    report_claimed(observer, scope, run)
    message = f"{run.crashes} workers in a row crashed while executing the run"
    observer.run_left(scope, RunState.FAILED, Reason.CRASHED, at=at, message=message)
