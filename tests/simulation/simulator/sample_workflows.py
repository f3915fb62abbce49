"""What the runs of a simulated world do, and what their clients expect of them.

Results of steps are drawn anew each time a step runs, on purpose: if one were computed twice, or
handed out before it was recorded, the two would differ, and a rule here would see it.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from onward.codec import encode
from onward.core.retry import Retry
from onward.engine.payloads import pack
from onward.runtime.context import step_now
from onward.sdk.step import step
from onward.sdk.waits import Signal, sleep
from onward.sdk.workflow import workflow
from tests.simulation.simulator.process import process_now

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from onward.sdk.workflow import Workflow
    from tests.simulation.simulator.draw import Draw
    from tests.simulation.simulator.stopwatch import Stopwatch
    from tests.simulation.simulator.witness import Witness

word = Signal("word", str)

STEP_SECONDS = 4.0
NEVER = 30 * 24 * 3600
"""A limit in seconds that is longer than all by which clocks are put forward."""

WORDS = ("one", "two", "three")


class Outside:
    """What the code of steps and bodies reaches: the witness, random numbers, a stopwatch."""

    def __init__(self, witness: Witness, draw: Draw, stopwatch: Stopwatch) -> None:
        self._witness = witness
        self.draw = draw
        self.stopwatch = stopwatch
        self._repaired: set[str] = set()

    @property
    def is_over(self) -> bool:
        """Whether the world has ended, and what is left is taken apart."""
        return self._witness.is_over

    def begin(self, *handed: str) -> None:
        """Take note that a step begins, and what values of other steps it was handed."""
        context, process = step_now.get(), process_now.get()
        assert context is not None
        self._witness.step_begins(process, context)
        for value in handed:
            if not self._witness.is_recorded(context.run.uid, pack(encode(value))):
                self._witness.accuse(
                    f"{context.identity} of {context.run.uid} was handed {value!r}, never recorded"
                )

    def token(self) -> str:
        """Return something that was never there before."""
        return self.draw.token()[:8]

    async def take_time(self, seconds: float = STEP_SECONDS) -> None:
        """Work on something for a while."""
        await asyncio.sleep(self.draw.upto(seconds))

    def repair(self, run_id: str) -> None:
        """Remove the cause for which the steps of a run fail."""
        self._repaired.add(run_id)

    def is_repaired(self, run_id: str) -> bool:
        """Say whether the cause is gone for which the steps of a run fail."""
        return run_id in self._repaired


_worlds: list[Outside] = []


def outside() -> Outside:
    """Return the outside of the world that is running; there is one at a time."""
    return _worlds[-1]


def enter(world: Outside) -> Callable[[], None]:
    """Let the steps reach this world, until what is returned is called."""
    _worlds.append(world)
    return lambda: _worlds.remove(world)


# --- steps ----------------------------------------------------------------------------------------


@step(name="simulated fetch")
async def fetch(what: str) -> str:
    """Return something new."""
    outside().begin()
    await outside().take_time()
    return f"{what}={outside().token()}"


@step(name="simulated use")
async def use(found: str) -> str:
    """Use what a step before has returned."""
    outside().begin(found)
    await outside().take_time()
    return f"{found}+"


@step(name="simulated count")
def count(found: str) -> int:
    """Do something in a thread."""
    outside().begin(found)
    return len(found)


@step(name="simulated trial", retry=Retry(attempts=4, delay="1s", factor=2, max_delay="5s"))
async def trial(good_at: int) -> int:
    """Fail until a certain attempt."""
    outside().begin()
    context = step_now.get()
    assert context is not None
    if context.number < good_at:
        raise ValueError(f"attempt {context.number} fails")
    return context.number


@step(name="simulated haste", timeout="2s", retry=Retry(attempts=2, delay="1s"))
async def haste() -> str:
    """Do something that is often not done in time."""
    outside().begin()
    await outside().take_time()
    return outside().token()


# --- workflows, each with what it must return -----------------------------------------------------


async def _leg(what: str) -> str:
    return await use(await fetch(what))


@workflow(name="simulated branches")
async def branches() -> list[str]:
    """Do several things at once, then one after the other, with a sleep between."""
    first = await asyncio.gather(_leg("a"), _leg("b"), _leg("c"))
    await sleep("3s")
    lengths = await asyncio.gather(*(count(found) for found in first))
    return [*first, str(sum(lengths))]


@workflow(name="simulated talk")
async def talk() -> list[str]:
    """Wait for words, for each as long as it takes."""
    heard: list[str] = []
    while len(heard) < len(WORDS):
        heard.append(await word.wait())
    return heard


@workflow(name="simulated patience")
async def patience() -> list[str]:
    """Wait for words with patience that ends, and work in between."""
    heard: list[str] = []
    while len(heard) < len(WORDS):
        try:
            heard.append(await word.wait(timeout="2s"))
        except TimeoutError:
            await fetch("meanwhile")
    return heard


@workflow(name="simulated trials")
async def trials() -> list[str]:
    """Do steps that fail before they succeed, beside a timer that is cancelled or goes off."""
    async with asyncio.timeout(NEVER):
        found = await asyncio.gather(trial(1), trial(2), trial(3))
    late = False
    try:
        await asyncio.wait_for(sleep("1h"), 2)
    except TimeoutError:
        late = True
    try:
        await haste()
        return [*map(str, found), str(late), "in time"]
    except TimeoutError:
        return [*map(str, found), str(late), "too late"]


@workflow(name="simulated race")
async def race() -> list[str]:
    """Let a step, a word and a timer race, and cancel the losers; the word must be heard too."""
    runners: dict[str, asyncio.Task[Any]] = {
        "step": asyncio.create_task(_leg("racing")),
        "word": asyncio.create_task(word.wait()),
        "timer": asyncio.create_task(sleep("3s")),
    }
    await asyncio.wait(runners.values(), return_when=asyncio.FIRST_COMPLETED)
    first = next(name for name, runner in runners.items() if runner.done())
    for runner in runners.values():
        runner.cancel()
    await asyncio.gather(*runners.values(), return_exceptions=True)
    heard = runners["word"].result() if first == "word" else await word.wait()
    return [first, heard, await fetch("after")]


async def _until_cancelled(what: str) -> None:
    try:
        await _leg(what)
        await sleep("20s")
    except asyncio.CancelledError:
        await _leg(f"tidy {what}")
        raise


@workflow(name="simulated farewell")
async def farewell() -> list[str]:
    """Work in two branches until it is cancelled, and clean up in both then."""
    async with asyncio.TaskGroup() as group:
        group.create_task(_until_cancelled("left"))
        group.create_task(_until_cancelled("right"))
    return ["never cancelled"]


def is_tidy(recorded: Collection[str]) -> bool:
    """Say whether whatever a farewell began to tidy up was done to the end."""
    begun = [text for text in recorded if text.startswith("tidy") and not text.endswith("+")]
    return all(f"{text}+" in recorded for text in begun)


SAMPLES: dict[str, Workflow[[], list[str]]] = {
    each.name: each for each in (branches, talk, patience, trials, race, farewell)
}


def is_right(name: str, result: list[str] | None) -> bool:
    """Say whether a run of this workflow may have this result; None means that it was cancelled."""
    if name == farewell.name:
        return result in (None, ["never cancelled"])
    if result is None:
        return False
    if name == branches.name:
        *found, total = result
        shapes = [text[:2] + text[-1:] for text in found]
        return shapes == ["a=+", "b=+", "c=+"] and total == str(sum(map(len, found)))
    if name == race.name:
        first, heard, after = result
        return first in ("step", "word", "timer") and heard == WORDS[0] and after[:6] == "after="
    if name == trials.name:
        return result[:4] == ["1", "2", "3", "True"] and result[4] in ("in time", "too late")
    return result == list(WORDS)
