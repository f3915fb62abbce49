"""The report of a run, as `onward runs show` prints it."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from onward.cli.output import time_text
from onward.core.replay import RecordKind

if TYPE_CHECKING:
    from collections.abc import Iterable

    from onward.engine.views import ErrorInfo, HistoryEvent, PendingCall, PendingSignal, RunReport

HISTORY_HEAD = ("", "KIND", "NAME", "STATE", "TRY", "BEGAN", "ENDED", "ERROR")

_TRIED = (RecordKind.STEP, RecordKind.EFFECT)
_EVENT = ("seq", "identity", "kind", "name", "state", "attempt", "opened_at", "closed_at", "error")
_SIGNAL = ("name", "sent_at")
_EFFECT = ("id", "name", "state")


def as_json(report: RunReport) -> dict[str, Any]:
    """Return a report for programs."""
    return asdict(report.info) | {
        "arguments": report.arguments,
        "result": report.result,
        "waits_for": [asdict(call) for call in report.waits_for],
        "blocked": report.blocked,
        "unread_signals": [_some(signal, _SIGNAL) for signal in report.unread_signals],
        "failure": _failure(report.failure),
        "traceback": report.traceback,
        "history": [
            _some(event, _EVENT) | {"failure": _failure(event.error)} for event in report.history
        ],
        "open_effects": [_some(effect, _EFFECT) for effect in report.open_effects],
    }


def as_facts(report: RunReport) -> dict[str, Any]:
    """Return a report for people."""
    info = report.info
    return {
        "run": info.id,
        "uid": None if info.uid == info.id else info.uid,
        info.kind: info.name,
        "state": state_text(info.state, info.reason, info.held_by, info.id),
        "waits for": "\n".join(map(_call_text, report.waits_for)),
        "blocked": report.blocked,
        "not read": "\n".join(map(_signal_text, report.unread_signals)),
        "error": info.error,
        "raised at": _place(report.failure),
        "arguments": report.arguments,
        "result": report.result if info.state == "succeeded" else None,
        "progress": info.progress,
        "attributes": info.attributes,
        "counters": info.counters,
        "queue": info.queue,
        "tags": info.tags,
        "version": info.version,
        "parent": info.parent,
        "follows": info.follows,
        "created": info.created_at,
        "started": info.started_at,
        "finished": info.finished_at,
        "due": info.due,
        "deadline": info.deadline,
    }


def history_rows(history: Iterable[HistoryEvent]) -> list[tuple[Any, ...]]:
    """Return the calls of a run as rows of a table; notes are shown as attributes and counters."""
    names = ("seq", "kind", "name", "state", "attempt", "opened_at", "closed_at", "error")
    calls = (event for event in history if event.kind != RecordKind.NOTE)
    return [tuple(getattr(event, name) for name in names) for event in calls]


def state_text(state: str, reason: str | None, held_by: Iterable[str], run_id: str) -> str:
    """Return the state of a run for people, with the other runs whose pause holds it."""
    others = [source for source in held_by if source != run_id]
    held = [f"held by run {', '.join(others)}"] if others else []
    why = ", ".join(([] if reason is None else [reason]) + held)
    return f"{state} ({why})" if why else state


def _call_text(call: PendingCall) -> str:
    what = call.kind if call.kind == RecordKind.TIMER else f"{call.kind} {call.name}"
    run = "" if call.run is None else f" (run {call.run})"
    word = "tried again at" if call.kind in _TRIED else "until"
    until = "" if call.until is None else f", {word} {time_text(call.until)}"
    return f"{what}{run}, since {time_text(call.since)}{until}"


def _signal_text(signal: PendingSignal) -> str:
    return f"signal {signal.name}, sent {time_text(signal.sent_at)}"


def _place(failure: ErrorInfo | None) -> str | None:
    """Return the line that raised an error, or the first of its causes that has one."""
    if failure is None or failure.where is None:
        return None
    return f"{failure.where}\n{failure.source}" if failure.source else failure.where


def _failure(failure: ErrorInfo | None) -> dict[str, Any] | None:
    return None if failure is None else asdict(failure)


def _some(thing: object, names: Iterable[str]) -> dict[str, Any]:
    return {name: getattr(thing, name) for name in names}
