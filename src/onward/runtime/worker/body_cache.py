"""Bodies that stay in memory while their runs wait, so that they need no replay."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from onward.model.runs import ClaimedRun
    from onward.runtime.execution.execution import Execution


class BodyCache:
    """Up to `maximum` executions of runs that wait; the one that waited longest is evicted."""

    def __init__(self, maximum: int) -> None:
        self._maximum = maximum
        self._kept: OrderedDict[str, Execution] = OrderedDict()

    def keep(self, execution: Execution) -> None:
        """Keep the body of a run that has just parked."""
        old = self._kept.pop(execution.uid, None)
        if old is not None and old is not execution:
            old.forget()  # the run was claimed again before its parking was answered
        self._kept[execution.uid] = execution
        while len(self._kept) > self._maximum:
            _, coldest = self._kept.popitem(last=False)
            coldest.forget()

    def take(self, run: ClaimedRun) -> Execution | None:
        """Return the body of a run, if no other worker has had the run since."""
        kept = self._kept.pop(run.uid, None)
        if kept is not None and kept.fence + 1 != run.fence:
            kept.forget()
            return None
        return kept

    def __iter__(self) -> Iterator[Execution]:
        return iter(list(self._kept.values()))

    def clear(self) -> None:
        """Evict all."""
        while self._kept:
            self._kept.popitem()[1].forget()
