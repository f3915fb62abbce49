"""Runs of a simulated world that have to do with other runs: children, chunks, chains.

What they must come to stands beside them. That nothing which was finished is done again, and that
parents and children say the same of how a child ended, the witness sees to.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from onward.core.instant import SECOND
from onward.core.retry import Retry
from onward.engine.starting import StartOptions
from onward.runtime.context import step_now
from onward.sdk.current import current
from onward.sdk.inside import continue_as_new, now, random, start, uuid
from onward.sdk.step import step
from onward.sdk.waits import sleep
from onward.sdk.workflow import workflow
from tests.simulation.simulator.sample_workflows import count, fetch, haste, outside, trial, use

if TYPE_CHECKING:
    from onward.sdk.step import Step
    from onward.sdk.workflow import Workflow

ITEMS = tuple("abcdefg")
ROUNDS = 3
DEADLINE_SECONDS = 15
ATTEMPTS = 3
FOUNDED = 6
DOOMED = 12

fetch_elsewhere = fetch.options(queue="default")
use_elsewhere = use.options(queue="default")


@step(name="simulated tally", retry=Retry(attempts=3, delay="1s", factor=1))
async def tally(what: str) -> str:
    """Count that it was done; the first attempt fails, and what it counted is not kept."""
    outside().begin()
    current().counters.add("tallied")
    attempt = step_now.get()
    assert attempt is not None
    if attempt.number == 1:
        raise ValueError("the first attempt fails")
    return f"{what}={outside().token()}"


# --- children -------------------------------------------------------------------------------------


@workflow(name="simulated child")
async def child(what: str) -> str:
    """Do something in two steps, with a sleep between."""
    found = await fetch(what)
    await sleep("1s")
    return await use(found)


@workflow(name="simulated quick")
async def quick(what: str) -> str:
    """Do nothing."""
    return what


@workflow(name="simulated middle")
async def middle(what: str) -> str:
    """Have a child of its own, under an id of its own."""
    return await child.options(id=f"child of {current().id} {uuid()}")(what)


@workflow(name="simulated lingerer")
async def lingerer(what: str) -> str:
    """Work until it is cancelled, and tidy up then."""
    try:
        found = await fetch(what)
        await sleep("20s")
    except asyncio.CancelledError:
        await fetch(f"tidy {what}")
        raise
    return found


# --- families, each with what it must return ------------------------------------------------------


@workflow(name="simulated family")
async def family() -> list[str]:
    """Have children at once, and then a grandchild."""
    first = await asyncio.gather(child("a"), child("b"))
    return [*first, await middle("c")]


@workflow(name="simulated starter")
async def starter() -> list[str]:
    """Start runs that go on by themselves, and wait for some of them."""
    one = await start(child, "x")
    other = await start(child.options(id=f"other of {current().id}"), "y")
    await start(lingerer, "nobody waits for it")
    return [await one.result(), await other.result()]


@workflow(name="simulated batch")
async def batch() -> list[str]:
    """Map a step over a list, in chunks that are runs."""
    return await fetch.map(ITEMS, limit=6)


@workflow(name="simulated dispatch")
async def dispatch() -> list[str]:
    """Send steps elsewhere."""
    found = await asyncio.gather(fetch_elsewhere("p"), fetch_elsewhere("q"))
    return [await use_elsewhere(each) for each in found]


@workflow(name="simulated ledger")
async def ledger() -> list[str]:
    """Count in steps and in the body."""
    found = []
    for what in "ab":
        current().counters.add("rounds")
        found.append(await tally(what))
    await sleep("2s")
    current().counters.add("rounds")
    return found


@workflow(name="simulated rounds")
async def rounds(before: tuple[str, ...] = ()) -> list[str]:
    """Go on as a new run, some times."""
    found = (*before, await fetch("round"))
    if len(found) < ROUNDS:
        continue_as_new(found)
    return list(found)


@workflow(name="simulated hurry")
async def hurry() -> list[str]:
    """Take longer than the deadline allows, with a child."""
    await lingerer("late")
    await sleep("1h")
    return ["never late"]


@workflow(name="simulated stumble")
async def stumble() -> list[str]:
    """Fail as a whole until the last attempt."""
    found, helped = await asyncio.gather(fetch("kept"), child("helped"))
    if current().attempt < ATTEMPTS:
        raise ValueError(f"attempt {current().attempt} fails")
    return [found, helped]


@workflow(name="simulated clan")
async def clan() -> list[str]:
    """Wait for children until it is cancelled, and they with it."""
    await asyncio.gather(lingerer("l"), lingerer("r"))
    return ["never cancelled"]


@workflow(name="simulated doom")
async def doom() -> list[str]:
    """Wait for a child until it is ended by force."""
    await lingerer("d")
    await sleep("1m")
    return ["never cancelled"]


@workflow(name="simulated clock watcher")
async def clock_watcher() -> list[str]:
    """Give steps and children what the run holds to be the time, its randomness and its ids."""
    found = []
    for number in range(4):
        found.append(await fetch(f"{now().isoformat()} {random().random()}"))
        own = f"child {number} of {current().id} at {now().isoformat()}"
        await child.options(id=own)(f"{uuid()}")
    return [text.partition(" ")[0] for text in found]


@workflow(name="simulated founder")
async def founder() -> list[str]:
    """Start many runs under ids of their own, one after the other."""
    found = []
    for number in range(FOUNDED):
        started = await start(quick.options(id=f"started {number} of {current().id}"), "s")
        found.append(await quick.options(id=f"child {number} of {current().id}")("c"))
        found.append(await started.result())
    return found


@workflow(name="simulated doomed founder")
async def doomed_founder() -> list[str]:
    """Start runs under ids of their own until it is ended by force."""
    for number in range(DOOMED):
        await start(quick.options(id=f"started {number} of {current().id}"), "s")
        await quick.options(id=f"child {number} of {current().id}")("c")
    return ["never cancelled"]


FAMILIES: dict[str, Workflow[..., list[str]]] = {
    each.name: each
    for each in (
        family,
        starter,
        batch,
        dispatch,
        ledger,
        hurry,
        stumble,
        clan,
        doom,
        clock_watcher,
        rounds,
        founder,
        doomed_founder,
    )
}

CHILDREN = (child, middle, lingerer, quick)
STEPS: tuple[Step[..., Any], ...] = (fetch, use, count, trial, haste, tally)

OPTIONS = {
    hurry.name: StartOptions(deadline=DEADLINE_SECONDS * SECOND),
    stumble.name: StartOptions(retry=Retry(attempts=ATTEMPTS, delay="1s", factor=1)),
}
"""How runs are started that are not started as they are."""

COUNTERS = {ledger.name: {"tallied": 2, "rounds": 3}}
"""What runs must have counted when they are over."""


COMES_TO = {
    family.name: ["a+", "b+", "c+"],
    starter.name: ["x+", "y+"],
    dispatch.name: ["p+", "q+"],
    batch.name: list(ITEMS),
    ledger.name: ["a", "b"],
    rounds.name: ["round"] * ROUNDS,
    stumble.name: ["kept", "helped+"],
}
"""What the results of runs look like, without what is drawn anew each time."""


def is_right_family(name: str, result: list[str] | None) -> bool:
    """Say whether a run of this workflow may have this result; None means that it was cancelled."""
    if name in (hurry.name, clan.name, doom.name, doomed_founder.name):
        return result in (None, ["never cancelled"])
    if result is None:
        return False
    if name == founder.name:
        return result == ["c", "s"] * FOUNDED
    if name == clock_watcher.name:
        return len(result) == 4 and result == sorted(result)
    shapes = [text.partition("=")[0] + "+" * text.endswith("+") for text in result]
    return shapes == COMES_TO[name] and len(set(result)) == len(result)
