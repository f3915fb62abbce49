"""Checks of what is asked of a schedule, before it is stored."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, TypeVar

import msgspec

from onward.codec import MAX_ID_BYTES, check_id
from onward.codec.names import check_name
from onward.core.instant import DAY, MAX_DURATION, SECOND, show
from onward.core.run import RunKind
from onward.core.slot import CatchUp, Overlap, Rules
from onward.engine.schedules.cron import zone_of
from onward.engine.schedules.timing import CronTiming
from onward.engine.starting import check_run_options
from onward.errors import BadInput
from onward.model.runs import NewRun

if TYPE_CHECKING:
    from onward.model.schedules import ScheduleSpec

MAX_JITTER = DAY
MAX_SLOTS = 10_000
"""How many future slots one call may ask for."""
_ID_END = 40
"""Room for the time of a slot in the id of its run."""

E = TypeVar("E", bound=StrEnum)


class _RunOptions(msgspec.Struct, forbid_unknown_fields=True):
    """What a schedule may say of its runs."""

    queue: str = "default"
    priority: int = 0
    flow_key: str | None = None
    tags: str = ""
    deadline_in: int | None = None
    retry: str | None = None


def check_spec(spec: ScheduleSpec) -> ScheduleSpec:
    """Return what a user asks for, if it can be done.

    Raises:
        BadInput: it cannot; the message names the field and what to write instead.
    """
    check_id(spec.name, "the schedule name")
    if len(spec.name.encode()) > MAX_ID_BYTES - _ID_END:
        fact = f"is longer than {MAX_ID_BYTES - _ID_END} bytes, so run ids would be too long"
        raise BadInput("the schedule name", fact, "Use a shorter name.")
    _check_runs(spec)
    zone_of(spec.zone)
    overlap = _word("overlap", spec.overlap, Overlap)
    Rules(_word("catch_up", spec.catch_up, CatchUp), overlap, spec.cap)
    if not 0 <= spec.jitter <= MAX_JITTER:
        fact = "is negative, or longer than a day"
        raise BadInput(f"jitter {show(spec.jitter)}", fact, 'Try "5m".')
    if (spec.cron is None) == (spec.every is None):
        fact = "has neither cron= nor every=" if spec.cron is None else "has both cron= and every="
        raise BadInput(f"schedule {spec.name!r}", fact, "Pass one of them.")
    if spec.every is not None and spec.every < SECOND:
        advice = 'Try "1s", or loop in a workflow.'
        raise BadInput(f"interval {show(spec.every)}", "is shorter than a second", advice)
    if spec.every is not None and spec.every > MAX_DURATION:
        raise BadInput(
            f"interval {show(spec.every)}",
            "is longer than a thousand years",
            "Use a shorter interval",
        )
    if spec.cron is not None and next(CronTiming(spec.cron, spec.zone).after(0), None) is None:
        advice = "Check its day and its month."
        raise BadInput(f"cron {spec.cron!r}", "never fires", advice)
    return spec


def check_count(count: int) -> None:
    """Refuse to compute too many slots, which would take long.

    Raises:
        BadInput: there are too many.
    """
    if not 0 <= count <= MAX_SLOTS:
        fact = f"is not between 0 and {MAX_SLOTS:,}"
        raise BadInput(f"the number of slots ({count})", fact, "Use a number in this range")


def _check_runs(spec: ScheduleSpec) -> None:
    """Refuse runs that a client could not start itself.

    Raises:
        BadInput: their workflow, or one of their options, is not valid.
    """
    check_name(spec.workflow.removeprefix(f"{RunKind.PRODUCER} "), "the workflow")
    try:
        options = msgspec.json.decode(spec.options, type=_RunOptions)
    except (msgspec.DecodeError, RecursionError) as error:
        fact = f"are not valid ({error})"
        raise BadInput(
            f"the options of schedule {spec.name!r}", fact, "Check the client."
        ) from error
    check_run_options(NewRun("", "", "", b"", "", **msgspec.structs.asdict(options)))


def _word(what: str, given: str, words: type[E]) -> E:
    try:
        return words(given)
    except ValueError:
        known = ", ".join(words)
        raise BadInput(f"{what}={given!r}", f"is not one of {known}", "Use one of them.") from None
