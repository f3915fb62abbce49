"""A run on one page: what it was given, how it stands, what it did, what holds it up."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from onward.cli.effects import waits_for
from onward.cli.output import time_text
from onward.core.inbox import MessageKind
from onward.core.replay import RecordKind, RecordState
from onward.core.run import TERMINAL, RunState
from onward.sdk.display import shown_failure, shown_time_or_none, shown_value
from onward.sdk.run import whole_info

if TYPE_CHECKING:
    from collections.abc import Iterable

    from onward.cli.command import Desk
    from onward.codec import Failure
    from onward.model.messages import InboxRow
    from onward.model.records import RecordRow
    from onward.model.runs import RunRow

HISTORY_HEAD = ("", "KIND", "NAME", "STATE", "TRY", "BEGAN", "ENDED", "ERROR")
NOTE = RecordKind.NOTE.value
"""The kind of records that add up to attributes and counters, which are shown apart."""

_ELSEWHERE = (RecordKind.CHILD, RecordKind.STEP)
_TRIED = (RecordKind.STEP, RecordKind.EFFECT)
_OURS = "onward."


async def sheet(desk: Desk, row: RunRow) -> dict[str, Any]:
    """Return all that is known of a run, for programs."""
    info = await whole_info(desk.store, row)
    end = await desk.store.end(row.uid)
    history = (await desk.store.history([row.uid]))[row.uid]
    inbox = (await desk.store.look([row.uid], budget=0))[row.uid]
    effects = await desk.app.effects.of(row.id) if row.newest else []
    return info._asdict() | {
        "arguments": shown_value(end.input),
        "result": shown_value(end.result),
        "waits_for": [] if row.state in TERMINAL else _waits(history),
        "blocked": await _blocked(desk, row),
        "unread_signals": _unread(inbox, history),
        "history": [_record(record) for record in history],
        "open_effects": [
            {"id": effect.id, "name": effect.name, "state": effect.state}
            for effect in effects
            if waits_for(effect) is not None
        ],
    }


def facts(known: dict[str, Any]) -> dict[str, Any]:
    """Return what people want to know of a run."""
    plain = {
        "run": known["id"],
        "uid": None if known["uid"] == known["id"] else known["uid"],
        known["kind"]: known["name"],
        "state": state_text(known["state"], known["reason"], known["held_by"], known["id"]),
        "waits for": "\n".join(map(_wait_text, known["waits_for"])),
        "blocked": known["blocked"],
        "not read": "\n".join(map(_signal_text, known["unread_signals"])),
        "error": known["error"],
        "arguments": known["arguments"],
        "result": known["result"] if known["state"] == "succeeded" else None,
    }
    same = ("progress", "attributes", "counters", "queue", "tags", "version", "parent", "follows")
    times = {"created_at": "created", "started_at": "started", "finished_at": "finished"}
    times |= {"due": "due", "deadline": "deadline"}
    return (
        plain
        | {name: known[name] for name in same}
        | {word: known[name] for name, word in times.items()}
    )


def state_text(state: str, reason: str | None, held_by: Iterable[str], run_id: str) -> str:
    """Return the state of a run for people, with the other runs whose pause holds it."""
    others = [source for source in held_by if source != run_id]
    held = [f"held by run {', '.join(others)}"] if others else []
    why = ", ".join(([] if reason is None else [reason]) + held)
    return f"{state} ({why})" if why else state


def history_row(record: dict[str, Any]) -> tuple[Any, ...]:
    """Return a record as a row for people."""
    names = ("seq", "kind", "name", "state", "attempt", "opened_at", "closed_at", "error")
    return tuple(record[name] for name in names)


# --- what holds it up -----------------------------------------------------------------------------


def _waits(history: Iterable[RecordRow]) -> list[dict[str, Any]]:
    """Return the calls that are not over: whoever looks wants to know which, and until when."""
    newest: dict[str, RecordRow] = {}
    for record in sorted(history, key=lambda record: record.attempt):
        newest[record.identity] = record
    return [
        {
            "kind": record.kind,
            "name": record.name,
            "since": shown_time_or_none(record.opened_at),
            "until": shown_time_or_none(record.due),
            "run": _elsewhere(record),
        }
        for record in newest.values()
        if record.seq is None and (record.state == RecordState.OPEN or _is_tried_again(record))
    ]


def _is_tried_again(record: RecordRow) -> bool:
    return record.state == RecordState.FAILED and record.due is not None


def _elsewhere(record: RecordRow) -> str | None:
    """Return the run that does what a call waits for, if another does."""
    if record.kind not in _ELSEWHERE or record.payload is None:
        return None
    kept = shown_value(record.payload)
    uid = kept.get("uid") if isinstance(kept, dict) else None
    return None if uid is None else str(uid)


async def _blocked(desk: Desk, row: RunRow) -> str | None:
    """Return why nobody takes a run that could go on."""
    if row.state not in (RunState.READY, RunState.WAITING) or row.due is None:
        return None
    if row.due > await desk.store.now():
        return None
    return await desk.store.why_unserved(row)


def _unread(inbox: Iterable[InboxRow], history: Iterable[RecordRow]) -> list[dict[str, Any]]:
    """Return signals that have come, and that no call has taken."""
    taken = {record.message for record in history}
    return [
        {"name": message.name, "sent_at": shown_time_or_none(message.sent_at)}
        for message in inbox
        if message.kind == MessageKind.SIGNAL and message.seq not in taken
    ]


def _wait_text(wait: dict[str, Any]) -> str:
    what = wait["kind"] if wait["kind"] == RecordKind.TIMER else f"{wait['kind']} {wait['name']}"
    run = "" if wait["run"] is None else f" (run {wait['run']})"
    word = "tried again at" if wait["kind"] in _TRIED else "until"
    until = "" if wait["until"] is None else f", {word} {time_text(wait['until'])}"
    return f"{what}{run}, since {time_text(wait['since'])}{until}"


def _signal_text(signal: dict[str, Any]) -> str:
    return f"signal {signal['name']}, sent {time_text(signal['sent_at'])}"


# --- what it did ----------------------------------------------------------------------------------


def _record(record: RecordRow) -> dict[str, Any]:
    return {
        "seq": record.seq,
        "identity": record.identity,
        "kind": record.kind,
        "name": record.name,
        "state": record.state,
        "attempt": record.attempt,
        "opened_at": shown_time_or_none(record.opened_at),
        "closed_at": shown_time_or_none(record.closed_at),
        "error": None if record.error is None else _error(record.error),
    }


def _error(kept: bytes) -> str:
    return shown_failure(kept, _failure_text)


def _failure_text(failure: Failure) -> str:
    if failure.name is not None and failure.name.startswith(_OURS):
        return failure.message  # it says all, also what is to be done
    return f"{failure.type.removeprefix('onward.errors.')}: {failure.message}"
