"""Why a run is not running: what it waits for, what holds it, and the next move for each."""

from __future__ import annotations

from shlex import quote
from typing import TYPE_CHECKING

from onward.core.replay import RecordKind
from onward.core.run import TERMINAL, Reason, RunState
from onward.engine.views import Blocker

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from onward.engine.views import EffectInfo, PendingCall, RunInfo, RunReport

_DECIDED_BY_HUMANS = ("approval", "verdict")


def blockers(report: RunReport) -> list[Blocker]:
    """Return what keeps a run from running; none if it has ended, is running, or is about to."""
    info = report.info
    if info.state in TERMINAL or info.state == RunState.RUNNING:
        return []
    effects = [each for each in report.open_effects if each.waits_for in _DECIDED_BY_HUMANS]
    found = [*_pauses(info), *map(_effect, effects)]
    if report.blocked is not None:
        found.append(Blocker("worker", report.blocked, "Start a worker that takes the run"))
    calls = (call for call in report.waits_for if call.kind != RecordKind.EFFECT)
    return found + [_call(info, call) for call in calls]


def _pauses(info: RunInfo) -> Iterator[Blocker]:
    for holder in info.held_by:
        yield Blocker("paused", f"run {holder} is paused", f"onward runs resume {quote(holder)}")
    if info.state == RunState.PAUSED and info.reason == Reason.DIVERGENCE:
        text = f"the code does not fit the history: {info.error}"
        yield Blocker(
            "divergence", text, f"Deploy code that fits, or: onward runs fork {quote(info.id)}"
        )


def _effect(effect: EffectInfo) -> Blocker:
    kind = str(effect.waits_for)
    text = f"effect {effect.name} is {effect.state} and waits for {kind}"
    return Blocker(kind, text, f"onward effects show {effect.id}")


def _call(info: RunInfo, call: PendingCall) -> Blocker:
    since = f"since {_time(call.since)}"
    until = "" if call.until is None else f", until {_time(call.until)}"
    match call.kind:
        case RecordKind.SIGNAL:
            move = f"onward runs signal {quote(info.id)} {quote(call.name)} VALUE"
        case RecordKind.TIMER if call.until is not None:
            move = f"Wait until {_time(call.until)}"
        case _ if call.run is not None:
            move = f"onward runs show {call.run}"
        case _:
            move = "Wait for it"
    return Blocker(call.kind, f"it waits for {call.kind} {call.name}, {since}{until}", move)


def _time(at: datetime) -> str:
    return f"{at:%Y-%m-%d %H:%M:%S}Z"
