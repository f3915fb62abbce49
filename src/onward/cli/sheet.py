"""A run on one page: what it was given, how it stands, what it did, what holds it up."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from onward.cli.effects import waits_for
from onward.codec import decode, read_error
from onward.engine.payloads import unpack
from onward.errors import Undecodable
from onward.sdk.run import whole_info

if TYPE_CHECKING:
    from onward.cli.command import Desk
    from onward.store.rows import RecordRow, RunRow

HISTORY_HEAD = ("", "KIND", "NAME", "STATE", "TRY", "BEGAN", "ENDED", "ERROR")


async def sheet(desk: Desk, row: RunRow) -> dict[str, Any]:
    """Return all that is known of a run, for programs."""
    info = await whole_info(desk.store, row)
    end = await desk.store.end(row.uid)
    history = (await desk.store.history([row.uid]))[row.uid]
    effects = await desk.app.effects.of(row.id) if row.newest else []
    return info._asdict() | {
        "arguments": _data(end.input),
        "result": _data(end.result),
        "history": [_record(record) for record in history],
        "open_effects": [
            {"id": effect.id, "name": effect.name, "state": effect.state}
            for effect in effects
            if waits_for(effect) is not None
        ],
    }


def facts(known: dict[str, Any]) -> dict[str, Any]:
    """Return what people want to know of a run."""
    reason = "" if known["reason"] is None else f" ({known['reason']})"
    plain = {
        "run": known["id"],
        "uid": None if known["uid"] == known["id"] else known["uid"],
        "workflow": known["name"],
        "state": known["state"] + reason,
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


def history_row(record: dict[str, Any]) -> tuple[Any, ...]:
    """Return a record as a row for people."""
    names = ("seq", "kind", "name", "state", "attempt", "opened_at", "closed_at", "error")
    return tuple(record[name] for name in names)


def _record(record: RecordRow) -> dict[str, Any]:
    return {
        "seq": record.seq,
        "identity": record.identity,
        "kind": record.kind,
        "name": record.name,
        "state": record.state,
        "attempt": record.attempt,
        "opened_at": _time(record.opened_at),
        "closed_at": _time(record.closed_at),
        "error": None if record.error is None else _error(record.error),
    }


def _error(kept: bytes) -> str:
    failure = read_error(unpack(kept))
    return f"{failure.type}: {failure.message}"


def _data(kept: bytes | None) -> Any:
    """Return stored data, or why it cannot be shown."""
    if kept is None:
        return None
    try:
        return decode(unpack(kept))
    except Undecodable as error:
        return str(error)


def _time(instant: int | None) -> datetime | None:
    return None if instant is None else datetime.fromtimestamp(instant / 1_000_000, UTC)
