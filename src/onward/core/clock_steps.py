"""Steps of the database's clock, and what they add to waits on record.

A clock that is set forward makes a wait on record end early by that much, although the time has not
passed. So a worker that sees a step records it, and waits that began before it last longer by the
new time. A step back takes away again what steps forward have added, the newest first; it does not
shorten any wait below what was asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from onward.core.instant import SECOND
from onward.core.value import Value

if TYPE_CHECKING:
    from collections.abc import Iterable

    from onward.core.instant import Duration, Instant


STEP: Duration = 2 * SECOND
"""A change of the database's clock that counts as a step."""


class ClockStep(Value):
    """Waits that began at `began_by` or before last `step` longer."""

    began_by: Instant
    step: Duration


class SeenStep(Value):
    """A step as a worker saw it.

    `before` is the last time that the database gave before the step, and `at` the first one after
    it. The clock was set at some moment between the two.
    """

    before: Instant
    at: Instant
    step: Duration

    @property
    def left_out(self) -> tuple[Instant, Instant]:
        """The times that the clock certainly left out; none of them if the first is the later."""
        return self.at - self.step, self.before + self.step


def to_record(seen: SeenStep, recorded: Duration, in_force: Iterable[ClockStep]) -> list[ClockStep]:
    """Return what to record of a step.

    Args:
        seen: The step.
        recorded: What other workers have recorded since this one last looked.
        in_force: What steps forward have added so far, the newest first.
    """
    missing = seen.step - recorded
    if missing >= STEP:
        return [ClockStep(seen.at - missing, missing)]
    if missing > -STEP or seen.step > 0:
        return []  # a worker that stood still sees less of a step forward than others do
    taken = []
    for each in in_force:
        part = min(each.step, -missing)
        if part > 0:
            taken.append(ClockStep(each.began_by, -part))
            missing += part
    return taken
