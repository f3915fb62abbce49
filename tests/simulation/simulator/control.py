"""What clients have asked of runs as a whole, and what must follow from it.

A run that was paused begins nothing new, and neither do its children, the parts of its maps and the
steps that it sent elsewhere. What was under way comes to its end. A run that was to stop before it
was claimed begins nothing until its body has heard of that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from onward.core.instant import SECOND
from onward.core.replay import CANCEL_IDENTITY

if TYPE_CHECKING:
    from collections.abc import Iterator

    from onward.core.instant import Duration
    from onward.runtime.attempts.attempt import Attempt
    from tests.simulation.simulator.process import Process
    from tests.simulation.simulator.rules import RunSeen, View

PAUSE_WITHIN: Duration = 8 * SECOND
"""How long after a pause was acknowledged workers may not have heard of it.

Where all hints are lost they hear of it with a poll, and each question takes up to a second.
"""


class Control:
    """Remembers who was paused, and since when."""

    def __init__(self) -> None:
        self.is_time_torn = False
        """Whether a clock was put forward so far that leases ran out at once."""
        self._paused: dict[str, int] = {}
        self._disturbed = -1
        self._workers: dict[str, Process] = {}
        self._begun: dict[tuple[str, str, int], Process] = {}
        self.processes: dict[str, Process] = {}
        """The processes of workers that servers write for, by worker id."""
        self._claimed_to_stop: dict[str, int] = {}
        """The fences under which runs were claimed that were to stop by then."""

    def paused(self, run_id: str, now: int) -> None:
        """Take note that a run was paused; `now` never jumps."""
        self._paused[run_id] = now

    def let_go(self, run_id: str) -> None:
        """Take note that a run is to go on, or to stop."""
        self._paused.pop(run_id, None)

    def disturbed(self, now: int) -> None:
        """Take note that a worker or the database stood still until now."""
        self._disturbed = now

    @property
    def has_trouble(self) -> bool:
        """Whether any process ever stood still, or died."""
        return self._disturbed >= 0 or any(each.is_dead for each in self._workers.values())

    def step_begins(self, process: Process, step: Attempt, view: View, now: int) -> Iterator[str]:
        """Yield what is wrong with a step that begins now."""
        place = step.run.uid, step.identity, step.number
        before = self._begun.get(place)
        self._begun[place] = process
        is_lost = process.has_stood_still  # it may have lost the run without knowing
        is_drained = before is not None and before.is_drained(now)
        if before is not None and self._is_well(before) and not (is_lost or is_drained):
            yield f"{process.name} began {place} again, though {before.name} is well"
        run = view.runs[step.run.uid]
        is_heard = (run.uid, CANCEL_IDENTITY, 1) in view.records
        is_owned = run.worker == process.worker  # or it does not know yet that it has lost the run
        if is_owned and self._claimed_to_stop.get(run.uid) == run.fence and not is_heard:
            yield f"{process.name} began a step of {run.id}, which was to stop when it was claimed"
        family = list(_ancestors(run, view))
        if any(_is_stopping(each, view) for each in family):
            return
        for each in family:
            since = self._paused.get(each.id)
            if since is not None and self._disturbed < since and now - since > PAUSE_WITHIN:
                seconds = (now - since) / SECOND
                yield f"{process.name} began a step of {run.id} {seconds} s after {each.id} paused"

    def transaction(self, process: Process, before: View, after: View) -> Iterator[str]:
        """Yield the crashes that were counted though no process crashed."""
        for worker in after.leases.keys() - before.leases.keys():
            self._workers[worker] = self.processes.get(worker, process)
        for uid, old in before.runs.items():
            owner = None if old.worker is None else self._workers.get(old.worker)
            if owner is not None and after.runs[uid].crashes > old.crashes and self._is_well(owner):
                yield f"{process.name} counted a crash of {old.id}, but {owner.name} is well"
            new = after.runs[uid]
            is_claimed = new.state == "running" and new.fence > old.fence
            if is_claimed and _is_stopping(new, after) and uid not in after.spoiled:
                self._claimed_to_stop[uid] = new.fence

    def _is_well(self, process: Process) -> bool:
        """Say whether no process could consider this one dead, and it has not left."""
        is_out = process.is_dead or process.has_stood_still or process.has_left
        return not (is_out or self.is_time_torn)


def _ancestors(run: RunSeen, view: View) -> Iterator[RunSeen]:
    """Yield a run and those above it with which it would be cancelled."""
    seen = set()
    at: RunSeen | None = run
    while at is not None and at.uid not in seen:
        seen.add(at.uid)
        yield at
        at = view.runs.get(at.parent) if at.parent is not None and at.cancel_with_parent else None


def _is_stopping(run: RunSeen, view: View) -> bool:
    """Say whether a run was to stop: then it cleans up, paused or not."""
    return any(uid == run.uid and row[1] == "cancel" for (uid, _), row in view.inbox.items())
