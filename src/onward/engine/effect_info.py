"""Rows of the ledger as users see them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from onward.core.effect import EffectState, settled
from onward.core.run import TERMINAL
from onward.engine import effects
from onward.engine.display import shown_failure, shown_time, shown_time_or_none, shown_value
from onward.engine.effect_views import EffectAttemptInfo, EffectChoice, EffectInfo
from onward.model.effects import read_attempts
from onward.store.runs import ledger

if TYPE_CHECKING:
    from collections.abc import Iterable

    from onward.model.effects import EffectRow
    from onward.store.store import Store

_SETTLED_AS = {
    "applied": EffectState.APPLIED,
    "not_applied": EffectState.FAILED,
    "skip": EffectState.SKIPPED,
    "reject": EffectState.FAILED,
}
"""The state of an effect that a verdict has settled."""


async def effect_infos(store: Store, rows: Iterable[EffectRow]) -> list[EffectInfo]:
    """Return effects, with the ids and states of their runs."""
    shown = list(rows)
    runs = await store.ids_and_states(row.run for row in shown)
    # A run may be gone while its effect still awaits a verdict.
    return [_info(row, *runs.get(row.run, (row.run, ""))) for row in shown]


async def effect_info(store: Store, row: EffectRow) -> EffectInfo:
    """Return an effect, with the id and state of its run."""
    [info] = await effect_infos(store, [row])
    return info


def _info(row: EffectRow, run_id: str, run_state: str) -> EffectInfo:
    return EffectInfo(
        row.key,
        run_id,
        row.run,
        run_state,
        row.name,
        row.state,
        shown_value(row.args),
        row.attempt,
        row.tries,
        row.asks,
        row.state == "planned" and not row.approved,
        bool(row.reconciler),
        _why(row),
        shown_value(row.result),
        shown_time_or_none(row.start_by),
        shown_time_or_none(row.settle_until),
        shown_time_or_none(row.known_until),
        shown_time_or_none(row.due),
        row.verdict,
        row.decided_by,
        row.decided_why,
        shown_time_or_none(row.decided_at),
        row.version,
        shown_time(row.created_at),
        shown_time(row.updated_at),
        _waits_for(row, run_state),
        row.returns,
        _settled_by(row),
        row.reconciler or None,
        _attempts(row),
        row.title,
    )


async def effect_choices(store: Store, row: EffectRow) -> list[EffectChoice]:
    """Return the possible verdicts for an effect, and when each becomes possible."""
    now, is_dropped = await store.now(), await ledger.is_dropped(store, row)
    return [
        EffectChoice(choice.verdict, shown_time_or_none(choice.since))
        for choice in effects.choices(row, now=now, is_dropped=is_dropped)
    ]


def _attempts(row: EffectRow) -> tuple[EffectAttemptInfo, ...]:
    try:
        kept = read_attempts(row.attempts)
    except (TypeError, ValueError):  # a damaged row: the rest of it can still be shown
        return ()
    return tuple(
        EffectAttemptInfo(
            each.kind,
            each.number,
            shown_time(each.began),
            shown_time_or_none(each.ended),
            each.outcome,
            each.error,
        )
        for each in kept
    )


def effect_wait_text(info: EffectInfo) -> str:
    """Return what an effect waits for, as the end of a sentence."""
    return _WAIT_TEXTS.get(str(info.waits_for), "nothing")


_WAIT_TEXTS = {
    "approval": "approval",
    "verdict": "a verdict",
    "reconciler": "its reconciler",
    "reply": "a reply",
    "send": "its first send",
    "next send": "its next send",
}


def _waits_for(row: EffectRow, run_state: str) -> str | None:
    if run_state in TERMINAL and row.state in ("in_flight", "needs_reconcile"):
        return "verdict"  # its run neither sends it nor asks about it any more
    match row.state:
        case "planned":
            return "send" if row.approved else "approval"
        case "in_flight":
            return "reply"
        case "needs_reconcile":
            return "reconciler" if row.reconciler else "next send"
        case "indeterminate":
            return "verdict"
        case "failed" if row.due is not None:
            return "next send"
    return None


def _settled_by(row: EffectRow) -> str | None:
    if not settled(effects.as_effect(row)) or row.state == EffectState.WITHDRAWN:
        return None
    # What is sent again after a verdict is settled by others, even at the same time.
    is_last = row.decided_at == row.updated_at
    if is_last and row.verdict is not None and _SETTLED_AS.get(row.verdict) == row.state:
        return "operator"
    return "reconciler" if row.asks else "handler"


def _why(row: EffectRow) -> str | None:
    if row.error is None or row.result is not None:  # with a result, nothing is uncertain any more
        return None
    return shown_failure(row.error, lambda failure: f"{failure.type}: {failure.message}")
