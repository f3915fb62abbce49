"""Runs of a simulated world under limits, rates and keys, and what must hold for them."""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, NamedTuple

from onward.core.instant import SECOND
from onward.sdk.waits import sleep
from onward.sdk.workflow import workflow
from tests.simulation.simulator.sample_workflows import fetch

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from onward.sdk.workflow import Workflow

MAX_NARROW, MAX_HELD, MAX_KEY = 2, 1, 1
MAX_STARTS, PERIOD_SECONDS = 2, 10
WHAT = "abc"
"""What the children of each kind do."""


@workflow(name="simulated narrow", limit=MAX_NARROW)
async def narrow(what: str) -> str:
    """Work, and wait without a slot."""
    found = await fetch(what)
    await sleep("1s")
    return found


@workflow(name="simulated held", limit=MAX_HELD, hold="open")
async def held(what: str) -> str:
    """Work, and wait with a slot."""
    found = await fetch(what)
    await sleep("1s")
    return found


@workflow(name="simulated keyed", key=lambda what: f"key {ord(what) % 2}", limit=MAX_KEY)
async def keyed(what: str) -> str:
    """Work, alone among the runs of its key."""
    return await fetch(what)


@workflow(name="simulated paced", rate=f"{MAX_STARTS}/{PERIOD_SECONDS}s")
async def paced(what: str) -> str:
    """Work, and wait; that it goes on is no new start."""
    await sleep("1s")
    return await fetch(what)


CHILDREN: tuple[Workflow[[str], str], ...] = (narrow, held, keyed, paced)


@workflow(name="simulated crowd")
async def crowd() -> list[str]:
    """Have several children of each kind at once."""
    return await asyncio.gather(*(each(what) for each in CHILDREN for what in WHAT))


@workflow(name="simulated line")
async def line() -> list[str]:
    """Have children that come one after the other, because they need the same slot."""
    return await asyncio.gather(*(held(what) for what in WHAT))


LIMITED: dict[str, Workflow[..., list[str]]] = {each.name: each for each in (crowd, line)}


def is_right_limited(name: str, result: list[str] | None) -> bool:
    """Say whether a run of this workflow may have this result."""
    wanted = list(WHAT) * (len(CHILDREN) if name == crowd.name else 1)
    return [text.partition("=")[0] for text in result or ()] == wanted


# --- what must hold after every transaction -------------------------------------------------------


class LimitedSeen(NamedTuple):
    """What a run under flow control counts for."""

    uid: str
    name: str
    key: str
    state: str
    fence: int
    holds: int


SEEN = """
    SELECT uid, name, flow_key, state, fence, holds FROM onward_run
    WHERE flow_key IS NOT NULL ORDER BY uid"""


class LimitRules:
    """Counts the runs under each limit, and remembers when runs first began."""

    def __init__(self) -> None:
        self._began: defaultdict[str, dict[str, int]] = defaultdict(dict)
        self.most: Counter[str] = Counter()
        """The most runs that counted for a limit at a time."""

    def look(self, runs: Sequence[LimitedSeen], now: int, *, is_steady: bool) -> Iterator[str]:
        """Yield the limits that are exceeded.

        Args:
            runs: All runs under flow control, as they stand.
            now: The time, which never jumps.
            is_steady: Whether no clock was ever changed: the database measures rates by its own.
        """
        counted = Counter(run.name for run in runs if run.state == "running")
        counted.update(run.key for run in runs if run.state == "running" and run.key)
        waiting = ("ready", "waiting", "paused")
        counted.update(run.name for run in runs if run.holds and run.state in waiting)
        limits = {narrow.name: MAX_NARROW, held.name: MAX_HELD}
        for what, count in sorted(counted.items()):
            self.most[what] = max(self.most[what], count)
            limit = MAX_KEY if what.startswith("key ") else limits.get(what)
            if limit is not None and count > limit:
                yield f"{count} runs count for {what}, but the limit is {limit}"
        yield from self._rates(runs, now, is_steady=is_steady)

    def _rates(self, runs: Sequence[LimitedSeen], now: int, *, is_steady: bool) -> Iterator[str]:
        began = self._began[paced.name]
        for run in runs:
            if run.name == paced.name and run.fence > 0:
                began.setdefault(run.uid, now)
        recent = [at for at in began.values() if at > now - PERIOD_SECONDS * SECOND]
        if is_steady and len(recent) > MAX_STARTS:
            yield f"{len(recent)} runs of {paced.name} began within {PERIOD_SECONDS} s"
