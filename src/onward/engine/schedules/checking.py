"""Checks of what is asked of a schedule, before it is stored."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, TypeVar

from onward.codec import MAX_ID_BYTES, check_id
from onward.core.instant import DAY, SECOND, show
from onward.core.slot import CatchUp, Overlap, Rules
from onward.engine.schedules.cron import zone_of
from onward.engine.schedules.timing import CronTiming
from onward.errors import BadInput

if TYPE_CHECKING:
    from onward.model.schedules import ScheduleSpec

MAX_JITTER = DAY
_ID_END = 40
"""Room for the time of a slot in the id of its run."""

E = TypeVar("E", bound=StrEnum)


def check_spec(spec: ScheduleSpec) -> ScheduleSpec:
    """Return what a user asks for, if it can be done.

    Raises:
        BadInput: it cannot; the message names the field and what to write instead.
    """
    check_id(spec.name, "the schedule name")
    if len(spec.name.encode()) > MAX_ID_BYTES - _ID_END:
        fact = f"is longer than {MAX_ID_BYTES - _ID_END} bytes, so run ids would be too long"
        raise BadInput("the schedule name", fact, "Use a shorter name.")
    zone_of(spec.zone)
    overlap = _word("overlap", spec.overlap, Overlap)
    Rules(_word("catch_up", spec.catch_up, CatchUp), overlap, spec.cap)
    if spec.jitter > MAX_JITTER:
        raise BadInput(f"jitter {show(spec.jitter)}", "is longer than a day", 'Try "5m".')
    if (spec.cron is None) == (spec.every is None):
        fact = "has neither cron= nor every=" if spec.cron is None else "has both cron= and every="
        raise BadInput(f"schedule {spec.name!r}", fact, "Pass one of them.")
    if spec.every is not None and spec.every < SECOND:
        advice = 'Try "1s", or loop in a workflow.'
        raise BadInput(f"interval {show(spec.every)}", "is shorter than a second", advice)
    if spec.cron is not None and next(CronTiming(spec.cron, spec.zone).after(0), None) is None:
        advice = "Check its day and its month."
        raise BadInput(f"cron {spec.cron!r}", "never fires", advice)
    return spec


def _word(what: str, given: str, words: type[E]) -> E:
    try:
        return words(given)
    except ValueError:
        known = ", ".join(words)
        raise BadInput(f"{what}={given!r}", f"is not one of {known}", "Use one of them.") from None
