"""The times that `App.worker` takes, checked."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, TypedDict

from onward.core.instant import SECOND, duration, show
from onward.errors import BadInput
from onward.runtime.definition import Limits
from onward.sdk.functions import time_limit

if TYPE_CHECKING:
    from onward.core.instant import Duration, DurationLike
    from onward.core.retry import Retry


class WorkerTimes(TypedDict):
    """The times of a worker, as its options have them."""

    lease: Duration
    drain: Duration
    stall: Duration
    stall_limit: Duration


def worker_times(
    *, lease: DurationLike, drain: DurationLike, stall: DurationLike, limit: DurationLike
) -> WorkerTimes:
    """Return the times of a worker.

    Raises:
        BadInput: one is no duration, or too short.
    """
    times = WorkerTimes(
        lease=duration(lease),
        drain=duration(drain),
        stall=duration(stall),
        stall_limit=duration(limit),
    )
    _check("lease", times["lease"], SECOND)
    _check("stall", times["stall"], SECOND)
    _check("stall_limit", times["stall_limit"], times["stall"])
    return times


def _check(name: str, given: Duration, least: Duration) -> None:
    if given < least:
        raise BadInput(
            f"{name}={show(given)!r}", f"is less than {show(least)}", "Choose a longer duration"
        )


def step_limits(retry: Retry | None, timeout: DurationLike | None) -> Limits:
    """Return the limits of steps that have none of their own."""
    limits = Limits() if retry is None else Limits(retry)
    return limits if timeout is None else replace(limits, timeout=time_limit(timeout))
