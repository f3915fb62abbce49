"""Bodies that are kept in memory while their runs wait, so that most need no replay."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from onward.model.runs import ClaimedRun
    from onward.runtime.execution.execution import Execution


class BodyCache:
    """At most `most` executions of runs that wait; the one that waited longest makes room."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._kept: OrderedDict[str, Execution] = OrderedDict()

    def keep(self, execution: Execution) -> None:
        """Keep the body of a run that has just parked."""
        old = self._kept.pop(execution.uid, None)
        if old is not None and old is not execution:
            old.forget()  # the run was ours again before we heard that it had left
        self._kept[execution.uid] = execution
        while len(self._kept) > self._most:
            _, coldest = self._kept.popitem(last=False)
            coldest.forget()

    def take(self, run: ClaimedRun) -> Execution | None:
        """Return the body of a run that only waited since we had it; any other is of no use."""
        kept = self._kept.pop(run.uid, None)
        if kept is not None and kept.fence + 1 != run.fence:
            kept.forget()
            return None
        return kept

    def __iter__(self) -> Iterator[Execution]:
        return iter(list(self._kept.values()))

    def clear(self) -> None:
        """Keep none."""
        while self._kept:
            self._kept.popitem()[1].forget()
