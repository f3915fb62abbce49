"""Schedules and slots as rows, and a change of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from onward.core.instant import Duration, Instant
from onward.model.runs import NewRun


class ScheduleSpec(NamedTuple):
    """What a user asks for: when to start which runs.

    `options` are those of its runs, as JSON. `cap` bounds how many late slots are started.
    """

    name: str
    workflow: str
    input: bytes
    args_hash: str
    options: str
    cron: str | None
    every: Duration | None
    zone: str
    overlap: str
    catch_up: str
    cap: int
    jitter: Duration


class NewSchedule(NamedTuple):
    """A schedule to be created; see the migration for its columns."""

    spec: ScheduleSpec
    anchor: Instant
    decided_to: Instant
    look_at: Instant
    declared: str = ""


class ScheduleRow(NamedTuple):
    """A schedule as it stands; see the migration for its columns."""

    name: str
    workflow: str
    input: bytes
    args_hash: str
    options: str
    cron: str | None
    every: Duration | None
    zone: str
    overlap: str
    catch_up: str
    cap: int
    jitter: Duration
    anchor: Instant
    state: str
    error: str | None
    decided_to: Instant
    look_at: Instant | None
    held: Instant | None
    declared: str
    overrides: str
    version: int
    created_at: Instant
    updated_at: Instant

    @property
    def spec(self) -> ScheduleSpec:
        """What was asked for."""
        return ScheduleSpec._make(self[: len(ScheduleSpec._fields)])


class SlotRow(NamedTuple):
    """One slot, or `slots` neighbours with one disposition from `at` to `until`."""

    at: Instant
    until: Instant
    slots: int
    disposition: str
    run: str | None
    timing: str
    decided_at: Instant


class SlotStart(NamedTuple):
    """The run of a slot."""

    at: Instant
    run: NewRun


class ScheduleChange(NamedTuple):
    """A change of a schedule, with the slots that it decides and the runs that it starts.

    It is made if the schedule still has the version of `row`. `has_open_run` is what the decision
    assumes; if it is wrong by now, nothing is written. None: it does not matter. `undone_after` is
    set when the clock was set back: dispositions of later slots are removed, except for their runs.
    """

    row: ScheduleRow
    slots: Sequence[SlotRow] = ()
    starts: Sequence[SlotStart] = ()
    has_open_run: bool | None = None
    undone_after: Instant | None = None


class SeenSchedule(NamedTuple):
    """A schedule, the database's time at which it was read, and its open runs (the first few)."""

    at: Instant
    row: ScheduleRow
    open_runs: tuple[str, ...]
