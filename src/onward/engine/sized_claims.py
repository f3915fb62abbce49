"""Claims that take no more runs than a reply can hold, judged by the size of the last ones."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

from onward.core.run import rooms_after
from onward.errors import Unavailable
from onward.model.workers import ClaimAnswer

if TYPE_CHECKING:
    from collections.abc import Callable

    from onward.model.claims import Wanted
    from onward.model.runs import ClaimedRun

FIRST_RUNS = 64
"""How many runs are claimed while their size is unknown."""

ROW_BYTES = 500
"""About the size of a claimed run without its payloads."""


class ClaimRuns(Protocol):
    """Claims runs in the database."""

    async def __call__(self, wanted: Wanted, repeated: Callable[[], None]) -> list[ClaimedRun]: ...


class SizedClaims:
    """The claims of one worker."""

    def __init__(self, claim: ClaimRuns) -> None:
        self._claim = claim
        self._run_bytes: int | None = None
        """The average size of the runs that were claimed last."""
        self._was_repeated = False

    async def claim(self, wanted: Wanted) -> ClaimAnswer:
        """Claim runs.

        If it finds as many as it has asked for, and they are so small that there is room for more,
        it asks again.
        """
        self._was_repeated = False
        taken: list[ClaimedRun] = []
        may_be_more = True
        while may_be_more and (room := self._room(wanted, taken)) > 0:
            suspects = rooms_after(wanted.suspects, (run.crashes for run in taken))
            try:
                found = await self._claim(
                    replace(wanted, limit=room, suspects=suspects), self._repeated
                )
            except Unavailable:
                if not taken:
                    raise
                self._repeated()
                break
            if found:
                self._run_bytes = sum(map(size_of_run, found)) // len(found)
            taken += found
            may_be_more = len(found) >= room
        return ClaimAnswer(taken, was_repeated=self._was_repeated, may_be_more=may_be_more)

    def _repeated(self) -> None:
        self._was_repeated = True

    def _room(self, wanted: Wanted, taken: list[ClaimedRun]) -> int:
        """Return for how many more runs there is room."""
        left = wanted.limit - len(taken)
        if wanted.max_bytes is None:
            return left
        if self._run_bytes is None:
            return min(left, FIRST_RUNS)
        fitting = (wanted.max_bytes - sum(map(size_of_run, taken))) // self._run_bytes
        return min(left, fitting if taken else max(1, fitting))


def size_of_run(run: ClaimedRun) -> int:
    """Return about how large a claimed run is."""
    return ROW_BYTES + len(run.input or b"") + len(run.attributes or b"")
