"""Schedules and their slots as the command line shows them."""

from __future__ import annotations

from dataclasses import asdict
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from onward.core.instant import duration, show
from onward.core.slot import CatchUp

if TYPE_CHECKING:
    from onward.engine.schedules.views import ScheduleInfo, Slot

HEAD = ("NAME", "WORKFLOW", "WHEN", "ZONE", "STATE", "NEXT", "OPEN", "NOTE")
SLOT_HEAD = ("SLOT", "DISPOSITION", "RUN", "LATE")


def as_json(info: ScheduleInfo) -> dict[str, Any]:
    """Return a schedule for programs."""
    times = {"next_at": iso_or_none(info.next_at), "held_at": iso_or_none(info.held_at)}
    every = None if info.every is None else show(duration(info.every))
    return asdict(info) | times | {"every": every, "jitter": show(duration(info.jitter))}


def row_of(info: ScheduleInfo) -> tuple[Any, ...]:
    """Return a schedule as a row of a table."""
    return (
        info.name,
        info.workflow,
        _when(info),
        info.zone,
        info.state,
        iso_or_none(info.next_at),
        info.open_runs or None,
        _note(info),
    )


def _when(info: ScheduleInfo) -> str:
    return info.cron or f"every {show(duration(info.every or 0))}"


def _note(info: ScheduleInfo) -> str | None:
    if info.error is not None:
        return info.error
    if info.held_at is not None:
        return f"slot {iso(info.held_at)} is waiting for open runs to end"
    return "no longer declared" if info.is_missing_in_code else None


def standing(info: ScheduleInfo) -> str:
    """Return the state of a schedule in words."""
    return info.state if info.next_at is None else f"{info.state}, next at {iso(info.next_at)}"


def facts_of(info: ScheduleInfo, coming: list[datetime]) -> dict[str, Any]:
    """Return what there is to know of a schedule."""
    return {
        "schedule": info.name,
        "state": info.state,
        "error": info.error,
        "workflow": info.workflow,
        "arguments": info.arguments,
        "queue": info.queue,
        "when": f"{_when(info)} ({info.zone})",
        "overlap": info.overlap,
        "catch-up": _catch_up(info),
        "jitter": show(duration(info.jitter)) if info.jitter else None,
        "declared": _declared(info),
        "changed by hand": ", ".join(info.overrides) if info.declared else None,
        "open runs": info.open_runs or None,
        "held": iso_or_none(info.held_at),
        "next": "\n".join(iso(at) for at in coming) if info.state == "active" else None,
        "created": info.created_at,
    }


def _declared(info: ScheduleInfo) -> str | None:
    if info.is_missing_in_code:
        return "no longer: no live worker declares it in its code"
    return "in code" if info.declared else None


def _catch_up(info: ScheduleInfo) -> str:
    is_all = info.catch_up == CatchUp.ALL
    return f"all, at most {info.max_catch_up:,}" if is_all else info.catch_up


def slot_row(slot: Slot) -> tuple[Any, ...]:
    """Return a slot as a row of a table."""
    return iso(slot.at), slot.disposition, slot.run, _late(slot.lateness)


def slot_json(slot: Slot) -> dict[str, Any]:
    """Return a slot for programs."""
    return asdict(slot) | {"at": iso(slot.at), "lateness": slot.lateness.total_seconds()}


def _late(lateness: timedelta) -> str:
    unit = timedelta(seconds=1) if lateness > timedelta(seconds=10) else timedelta(milliseconds=1)
    return show(duration(max(timedelta(0), lateness // unit * unit)))


def iso(at: datetime) -> str:
    """Return a time as its schedule has it, in its zone."""
    return at.isoformat(timespec="auto" if at.microsecond else "seconds")


def iso_or_none(at: datetime | None) -> str | None:
    """Return a time, if there is one."""
    return None if at is None else iso(at)
