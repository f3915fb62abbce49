"""Claims that wait in line: one query for all that can take the same runs.

Claims with the same offer form a line. While there may be work, the first in line looks for it. If
it finds fewer runs than it could take, there are no more, and the line is dry until a hint, a due
time or the next poll. So a hint wakes only as many claims as there is work for, the longest waiting
first.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from itertools import chain, count
from typing import TYPE_CHECKING, NamedTuple

from onward.model.workers import ClaimAnswer
from onward.store.hints import ANYTHING, PIPELINES, queue_subject

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Iterator

    from onward.model.claims import Wanted

MAX_LOOKS = 8
"""How many claims of a namespace may look at the same time.

What a look has found stays in memory until it is answered: 8 looks of at most `CLAIM_BYTES` (or one
larger run) are 128 MiB a namespace. More looks would not be faster: all namespaces of a server use
the same six connections to Postgres for claims, or the one thread that writes to SQLite. For the
same reason few namespaces can hold that much at a time.
"""

NOTHING = ClaimAnswer(())


class Offer(NamedTuple):
    """What decides which runs a claim can take."""

    queues: tuple[str, ...]
    names: tuple[str, ...]
    version: str | None
    tags: tuple[str, ...]
    suspects: tuple[tuple[int, int], ...]
    has_pipelines: bool


def offer_of(wanted: Wanted, *, has_pipelines: bool) -> Offer:
    """Return what a claim offers."""
    suspects = tuple(wanted.suspects)
    return Offer(wanted.queues, wanted.names, wanted.version, wanted.tags, suspects, has_pipelines)


@dataclass(eq=False, slots=True)
class WaitingClaim:
    """A claim of one worker.

    Attributes:
        offer: What it can take.
        look: Claims runs in the database.
        answer: Called once, with runs, without any when it has waited long enough, or with an
            error.
        until: When it is answered in any case, by the clock of the event loop.
    """

    offer: Offer
    look: Callable[[], Awaitable[ClaimAnswer]]
    answer: Callable[[ClaimAnswer | Exception], None]
    until: float
    number: int = field(default_factory=count().__next__)
    """Claims are numbered in the order in which they arrive."""
    is_withdrawn: bool = False
    is_last: bool = False
    """Whether it is answered after the look in progress, whatever that finds."""


class _Line:
    """The claims with one offer."""

    def __init__(self, offer: Offer) -> None:
        self.subjects = {ANYTHING, *map(queue_subject, offer.queues)}
        if offer.has_pipelines:
            self.subjects.add(PIPELINES)
        self.returned: dict[WaitingClaim, None] = {}
        """Claims that have looked and found nothing; they come before all that wait."""
        self.waiting: dict[WaitingClaim, None] = {}
        self.is_dry = False
        self.hints = 0
        self.looks = 0
        """How many are looking now."""
        self.finds = 0
        """How many looks in a row have found as many runs as they could take."""

    @property
    def may_look(self) -> bool:
        return not self.is_dry and self.looks < min(1 + self.finds // 2, MAX_LOOKS)

    def __iter__(self) -> Iterator[WaitingClaim]:
        return chain(self.returned, self.waiting)

    def pop(self) -> WaitingClaim | None:
        """Remove the claim that has waited longest, and return it; None if there is none."""
        if self.returned:
            claim: WaitingClaim | None = min(self.returned, key=lambda each: each.number)
        else:
            claim = next(iter(self.waiting), None)
        if claim is not None:
            self.remove(claim)
        return claim

    def remove(self, claim: WaitingClaim) -> bool:
        """Remove a claim, and return whether it waited."""
        for claims in (self.returned, self.waiting):
            if claim in claims:
                del claims[claim]
                return True
        return False


class ClaimLines:
    """The waiting claims of a namespace.

    Args:
        dried: Called when a claim has to wait: the next due time may have to be read.
    """

    def __init__(self, dried: Callable[[], None] = lambda: None) -> None:
        self._lines: dict[Offer, _Line] = {}
        self._dried = dried
        self._tasks: set[asyncio.Task[None]] = set()
        self._room = asyncio.Semaphore(MAX_LOOKS)
        """For the looks of all lines: workers decide how many lines there are."""
        self.always_looks = False
        """Whether a new claim looks even if its line is dry: an end of a run gives no hint."""

    @property
    def has_waiting(self) -> bool:
        return any(line.waiting or line.returned for line in self._lines.values())

    def add(self, claim: WaitingClaim) -> None:
        """Let a claim look for runs, at once or when it is its turn."""
        line = self._lines.get(claim.offer)
        if line is None:
            line = self._lines[claim.offer] = _Line(claim.offer)
        line.waiting[claim] = None
        if line.is_dry and not self.always_looks:
            self._dried()
        else:
            line.is_dry = False
            self._look(line)

    def withdraw(self, claim: WaitingClaim) -> None:
        """Remove a claim; it gets no answer."""
        claim.is_withdrawn = True
        line = self._lines.get(claim.offer)
        if line is not None:
            line.remove(claim)

    def finish(self, claim: WaitingClaim) -> None:
        """Answer a claim without further waiting: now, or after the look in progress."""
        claim.is_last = True
        line = self._lines.get(claim.offer)
        if line is not None and line.remove(claim):
            claim.answer(NOTHING)

    def hint(self, subjects: Collection[str]) -> None:
        """Let claims look that could take what a hint is about."""
        for line in self._lines.values():
            if not line.subjects.isdisjoint(subjects):
                self._wet(line)

    def due_changed(self) -> None:
        """Read the next due time again: a run may be due sooner than all others."""
        if self.has_waiting:
            self._dried()

    def poll(self, now: float) -> None:
        """Answer claims that have waited long enough, and let the first of each line look."""
        for offer, line in list(self._lines.items()):
            for claim in [claim for claim in line if claim.until <= now]:
                line.remove(claim)
                claim.answer(NOTHING)
            if line.waiting or line.returned:
                self._wet(line)
            elif not line.looks:
                del self._lines[offer]

    async def close(self) -> None:
        """Answer all claims, and wait until none is looking."""
        while True:
            for line in self._lines.values():
                line.is_dry = True
                while (claim := line.pop()) is not None:
                    claim.answer(NOTHING)
            if not self._tasks:
                return
            await asyncio.wait(self._tasks)

    def _wet(self, line: _Line) -> None:
        line.hints += 1
        line.is_dry = False
        self._look(line)

    def _look(self, line: _Line) -> None:
        while line.may_look and (claim := line.pop()) is not None:
            line.looks += 1
            task = asyncio.get_running_loop().create_task(self._one_look(line, claim))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _one_look(self, line: _Line, claim: WaitingClaim) -> None:
        async with self._room:
            if claim.is_withdrawn:
                line.looks -= 1
            else:
                await self._look_for(line, claim)
        self._look(line)

    async def _look_for(self, line: _Line, claim: WaitingClaim) -> None:
        hints = line.hints
        answer: ClaimAnswer | Exception
        try:
            answer = await claim.look()
            found, may_be_more = len(answer.runs), answer.may_be_more
        except Exception as error:  # noqa: BLE001 - the worker gets it; the next poll tries again
            answer, found, may_be_more = error, 0, False
        finally:
            line.looks -= 1
        if may_be_more:
            line.finds += 1
        elif hints == line.hints or isinstance(answer, Exception):
            line.is_dry, line.finds = True, 0
        if claim.is_withdrawn:
            pass
        elif isinstance(answer, Exception) or found or answer.was_repeated or claim.is_last:
            claim.answer(answer)
        else:
            line.returned[claim] = None
        if line.is_dry and (line.waiting or line.returned):
            self._dried()
