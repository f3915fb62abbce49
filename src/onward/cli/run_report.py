"""The report of a run, as `onward runs show` prints it."""

from __future__ import annotations

import json
from dataclasses import asdict
from shlex import quote
from typing import TYPE_CHECKING, Any

from onward.cli.output import time_text
from onward.core.chain import Link
from onward.core.instant import SECOND, show
from onward.core.replay import RecordKind
from onward.core.run import Reason, RunState
from onward.engine.why import next_of_divergence

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from datetime import timedelta

    from onward.engine.views import (
        ErrorInfo,
        HistoryEvent,
        PendingCall,
        PendingSignal,
        RunInfo,
        RunReport,
    )

MAX_ERROR = 60
HISTORY_HEAD = ("", "KIND", "NAME", "STATE", "TRY", "BEGAN", "TOOK", "ARGUMENTS", "ERROR")
MAX_ARGUMENTS = 60

_FOLLOWS = {
    Link.RETRY: "retry of",
    Link.FORK: "fork of",
    Link.CONTINUE: "continuation of",
    Link.REPLACE: "in place of",
}
_FOLLOWED = {
    Link.RETRY: "retried as",
    Link.FORK: "forked as",
    Link.CONTINUE: "continued as",
    Link.REPLACE: "replaced by",
}
_TRIED = (RecordKind.STEP, RecordKind.EFFECT)
_EVENT = (
    "seq",
    "identity",
    "kind",
    "name",
    "state",
    "attempt",
    "arguments",
    "opened_at",
    "closed_at",
    "error",
)
_SIGNAL = ("name", "sent_at")
_EFFECT = ("id", "name", "state")


def as_json(report: RunReport) -> dict[str, Any]:
    """Return a report for programs."""
    return asdict(report.info) | {
        "arguments": report.arguments,
        "result": report.result,
        "waits_for": [asdict(call) for call in report.waits_for],
        "blocked": report.blocked,
        "held_back": [asdict(blocker) for blocker in report.held_back],
        "renewed_at": report.renewed_at,
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
        "state": state_text(info),
        "phase": info.phase,
        "worker": _worker(report),
        "waits for": "\n".join(map(_call_text, report.waits_for)),
        "blocked": "\n".join(_blocked(report)),
        "not read": "\n".join(map(_signal_text, report.unread_signals)),
        "error": info.error,
        "failed in": info.failed_step,
        "raised at": _place(report.failure),
        "discarded": _discard(info),
        "arguments": report.arguments,
        "result": report.result if info.state == "succeeded" else None,
        "progress": info.progress,
        "attributes": info.attributes,
        "counters": info.counters,
        "queue": info.queue,
        "tags": info.tags,
        "version": info.version,
        "parent": info.parent_id or info.parent,
        "follows": _follows(info),
        "created": info.created_at,
        "started": info.started_at,
        "finished": info.finished_at,
        "due": info.due,
        "deadline": info.deadline,
    }


def history_rows(history: Iterable[HistoryEvent]) -> list[tuple[Any, ...]]:
    """Return the calls of a run as rows of a table; notes are shown as attributes and counters."""
    return [
        (
            event.seq,
            event.kind,
            event.name,
            event.state,
            event.attempt,
            event.opened_at,
            _took(event.took),
            _arguments(event.arguments),
            event.error,
        )
        for event in history
        if event.kind != RecordKind.NOTE
    ]


def _took(took: timedelta | None) -> str | None:
    """Return how long a call took, to three digits or so."""
    if took is None:
        return None
    seconds = took.total_seconds()
    if seconds < 0.9995:
        return f"{seconds * 1000:.3g}ms"
    return f"{seconds:.3g}s" if seconds < 99.95 else show(round(seconds) * SECOND)


def _arguments(arguments: Any) -> str | None:
    if not arguments:
        return None
    text = json.dumps(arguments, ensure_ascii=False)
    return text if len(text) <= MAX_ARGUMENTS else f"{text[:MAX_ARGUMENTS]}…"


def state_text(info: RunInfo, blocked: str | None = None) -> str:
    """Return the state of a run for people, with runs whose pause holds it, or that replaced it."""
    others = [source for source in info.held_by if source != info.id]
    noun = "run" if len(others) == 1 else "runs"
    held = [f"held by {noun} {', '.join(others)}"] if others else []
    reason = blocked or info.reason
    marks = ["discarded"] if info.discarded is not None else []
    why = ", ".join(([] if reason is None else [reason]) + held + marks)
    state = f"{info.state} ({why})" if why else info.state
    if info.followed_by is None or info.followed_link is None:
        return state
    return f"{state}, {_FOLLOWED[Link(info.followed_link)]} {info.followed_by}"


def _blocked(report: RunReport) -> Iterator[str]:
    """Return why no worker executes a run that could continue."""
    if report.blocked is not None:
        yield report.blocked
    yield from (str(blocker) for blocker in report.held_back)


def _worker(report: RunReport) -> str | None:
    """Return the worker that has a run, and when it last said that it is alive."""
    if report.info.worker is None or report.renewed_at is None:
        return report.info.worker
    return f"{report.info.worker}, renewed its lease at {time_text(report.renewed_at)}"


def _discard(info: RunInfo) -> str | None:
    given = info.discarded
    if given is None:
        return None
    reason = f": {given.reason}" if given.reason else ""
    return f"by {given.by}, {time_text(given.at)}{reason}"


def next_move(info: RunInfo) -> str | None:
    """Return what lets a run go on that has failed or is paused: a command, or advice."""
    if info.followed_by is not None or info.discarded is not None:
        return None
    if info.state == RunState.FAILED:
        return f"onward runs retry {quote(info.id)}"
    paused_for = info.reason if info.state == RunState.PAUSED else None
    if paused_for == Reason.DIVERGENCE:
        return next_of_divergence(info)
    return f"onward runs resume {quote(info.id)}" if paused_for == Reason.OPERATOR else None


def first_line(error: str | None) -> str | None:
    """Return the beginning of an error, as a cell of a table has room for it."""
    if not error:
        return None
    line = error.partition("\n")[0]
    return line if len(line) <= MAX_ERROR else f"{line[: MAX_ERROR - 1]}…"


def _follows(info: RunInfo) -> str | None:
    """Return which run this one follows; that has the same id, unless this is a fork beside it."""
    if info.follows is None or info.link is None:
        return None
    other = "" if info.follows_id in (None, info.id) else f" ({info.follows_id})"
    return f"{_FOLLOWS[Link(info.link)]} {info.follows}{other}"


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
