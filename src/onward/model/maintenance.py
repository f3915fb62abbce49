"""What there is to do beside claiming runs."""

from __future__ import annotations

from typing import NamedTuple

from onward.core.instant import Instant


class MaintenanceDue(NamedTuple):
    """What there is to do beside claiming runs.

    `at` is the database's time. `latest_step` is the number of the latest step of its clock on
    record. `outbox`: callers wrote messages or events in transactions of their own. `limited`:
    there are runs with a flow key that could be claimed. `overdue`: a deadline has passed.
    `schedules`: one has a slot without a disposition. `draining`: the worker that asks is to take
    no more runs, and to leave.
    """

    at: Instant
    latest_step: int
    outbox: bool
    limited: bool
    overdue: bool
    schedules: bool = False
    draining: bool = False
