"""Schedules and slots as users see them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from onward.engine.redaction import PayloadText, PayloadValue


@dataclass(frozen=True, slots=True)
class ScheduleInfo:
    """The current settings and state of a schedule.

    Attributes:
        name: Its name.
        workflow: The name of the workflow whose runs it starts.
        arguments: The arguments of its runs, by name.
        cron: Its cron expression, or None.
        every: Its interval, or None.
        zone: The time zone of its cron expression and of the times in run ids.
        overlap: What happens to a slot while a run is open: allow, skip, coalesce or replace.
        catch_up: Which slots get a run if they passed while no worker was running: skip, latest or
            all.
        max_catch_up: With `catch_up="all"`, the maximum number of slots that get a run.
        jitter: How much later than its slot a run may start.
        queue: The queue of its runs.
        state: active, paused or parked. A parked schedule has an error.
        error: Why it is parked.
        next_at: Its next slot; None unless it is active.
        held_at: A slot that is waiting for open runs to end.
        open_runs: How many of its runs are open, up to 100.
        declared: Whether it was declared in code.
        is_missing_in_code: Whether it was declared in code, but is no longer declared by the code
            of any live worker.
        overrides: The fields that were changed with `update`; a deploy does not change them.
        created_at: When it was created.
        updated_at: When it was last changed or last started a run.
    """

    name: str
    workflow: str
    arguments: PayloadValue
    cron: str | None
    every: timedelta | None
    zone: str
    overlap: str
    catch_up: str
    max_catch_up: int
    jitter: timedelta
    queue: str
    state: str
    error: PayloadText | None
    next_at: datetime | None
    held_at: datetime | None
    open_runs: int
    declared: bool
    is_missing_in_code: bool
    overrides: tuple[str, ...]
    created_at: datetime
    updated_at: datetime

    @property
    def paused(self) -> bool:
        """Whether it is paused."""
        return self.state == "paused"


@dataclass(frozen=True, slots=True)
class Slot:
    """A time at which a schedule fires, and its disposition.

    Attributes:
        at: The time, in the time zone of the schedule.
        disposition: started, missed, capped, overlapped, coalesced, paused, backfilled or
            triggered.
        run: The id of its run, or None.
        lateness: The time between the slot and the decision about it.
    """

    at: datetime
    disposition: str
    run: str | None
    lateness: timedelta
