"""The client of a simulated world: starts runs, talks to them, and holds them to their promises."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from onward.codec import decode
from onward.core.run import RunState
from onward.engine.payloads import unpack
from onward.engine.starting import StartOptions, new_run
from onward.errors import RunCancelled, RunOver, StoreUnusable, Unavailable
from onward.sdk.run import Run
from tests.simulation.simulator import conversations
from tests.simulation.simulator.cleanups import CANCELLED, CLEANUPS, has_cleaned_up
from tests.simulation.simulator.conversations import CONVERSATIONS, victim
from tests.simulation.simulator.exits import EXITS, FAILED
from tests.simulation.simulator.families import COUNTERS, clan, doom, doomed_founder
from tests.simulation.simulator.kinds import KINDS, OPTIONS, is_right
from tests.simulation.simulator.measured import DEADLINE_SECONDS, deadline_of, late
from tests.simulation.simulator.meddler import Meddler
from tests.simulation.simulator.operator import Operator
from tests.simulation.simulator.purchases import purchases
from tests.simulation.simulator.repairs import REPAIRS
from tests.simulation.simulator.sample_workflows import (
    WORDS,
    farewell,
    is_tidy,
    outside,
    patience,
    race,
    talk,
)
from tests.simulation.simulator.speaker import Speaker
from tests.simulation.simulator.stubborn import swallower

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from onward.engine.client_engine import ClientEngine
    from onward.store.store import Store
    from tests.simulation.simulator.draw import Draw
    from tests.simulation.simulator.line import Memory
    from tests.simulation.simulator.plan import Plan
    from tests.simulation.simulator.process import Process
    from tests.simulation.simulator.spoiling import Spoiler
    from tests.simulation.simulator.witness import Witness

T = TypeVar("T")

AGAIN_SECONDS = 0.5
TALKS = frozenset({talk.name, patience.name, *CONVERSATIONS}) - {victim.name}


class World(NamedTuple):
    """What a client knows of the world that it is in."""

    witness: Witness
    memory: Memory
    spoiler: Spoiler
    plan: Plan


class Client:
    """Starts runs, all at once, and waits for every one.

    Args:
        process: The process that it is.
        store: Its store, for what goes past the engine.
        engine: Where it starts runs, sends signals and waits.
        world: What it knows of the world.
        draw: Decides what it does when.
    """

    def __init__(
        self, process: Process, store: Store, engine: ClientEngine, world: World, draw: Draw
    ) -> None:
        self._process = process
        self._store = store
        self._engine = engine
        self._world = world
        self._witness = world.witness
        self._draw = draw
        self._speaker = Speaker(
            process, store, engine, world.memory, draw, self._insist, self._tell
        )

    async def start_all(self, workflows: Sequence[str]) -> None:
        """Start a run of each workflow and wait for all of them."""
        async with self._store, self._engine:
            self._meddler = Meddler(
                self._engine, self._store, self._witness, self._draw, self._insist
            )
            runs = [self._follow(f"errand-{n}", name) for n, name in enumerate(workflows)]
            await asyncio.gather(*runs)

    async def _follow(self, run_id: str, name: str) -> None:
        await asyncio.sleep(self._draw.upto(10))
        options = OPTIONS.get(name, StartOptions())
        meddles = self._draw.happens(self._world.plan.meddling)
        by_hand = meddles and name in REPAIRS and self._draw.happens(0.5)
        if by_hand:
            options = replace(options, retry=None)
        run = await self._start(run_id, name, options)
        beside = [self._talk(run, name, twice=meddles)]
        if self._draw.happens(self._world.plan.pauses):
            beside.append(self._pause(run))
        if meddles:
            beside.append(self._meddle(run, name, options))
        if name == victim.name:
            await asyncio.gather(*beside)
            return
        result, *_ = await asyncio.gather(self._result(run, name, by_hand=by_hand), *beside)
        self._tell("result", run_id, result)
        if not is_right(name, result):
            self._witness.accuse(f"{name} ended with {result!r}")
        await self._check(run, name)
        if await self._result(run, name) != result:
            self._witness.accuse(f"the result of {run_id} changed")

    async def _check(self, run: Run[Any], name: str) -> None:
        """Look at what a run has left behind."""
        if name in COUNTERS:
            counted = (await self._insist(run.info)).counters
            if counted != COUNTERS[name]:
                self._witness.accuse(f"{run.id} counted {counted}")
        recorded = [decode(unpack(payload)) for payload in self._witness.payloads(run.uid)]
        if self._witness.is_out_of_grace(run.uid) and self._witness.control.has_trouble:
            return  # cleanup may have been cut short
        if name == farewell.name and not is_tidy(recorded):
            self._witness.accuse(f"{run.id} ended before it was tidy: {recorded}")
        before = self._witness.payloads(run.uid, before_cancel=True)
        if name in CLEANUPS and not has_cleaned_up(recorded, [decode(unpack(p)) for p in before]):
            self._witness.accuse(f"{run.id} ended without its cleanup: {recorded}")

    async def _start(
        self, run_id: str, name: str, options: StartOptions, *, repeats: bool = True
    ) -> Run[list[str]]:
        definition = KINDS[name].definition
        arguments = definition.shape.bind((), {})
        options = replace(options, id=run_id)
        engine = self._engine
        if name == late.name:
            outside().stopwatch.begin(deadline_of(run_id), DEADLINE_SECONDS)
        uids = set()
        for _ in range(1 + self._draw.below(2) * repeats):  # starting twice starts once
            started = await self._insist(
                lambda: engine.start(
                    new_run(engine.new_uid(), definition.name, arguments, options), "return"
                )
            )
            self._tell("start", run_id, started.uid)
            uids.add(started.uid)
        if not uids <= self._witness.chain(run_id):
            self._witness.accuse(f"{run_id} was started more than once: {sorted(uids)}")
        return Run(started.uid, run_id, self._engine, definition)

    async def _talk(self, run: Run[Any], name: str, *, twice: bool) -> None:
        if name in TALKS:
            await self._speaker.say_all((run.id, run.uid), _words(name), twice=twice)
        elif name == race.name:
            await self._speaker.say_all((run.id, run.uid), WORDS[:1], twice=twice)
        elif name == victim.name:
            await asyncio.sleep(self._draw.upto(10))
            self._world.spoiler.spoil(run.uid)
            with suppress(RunOver):
                await self._speaker.say_all((run.id, run.uid), WORDS[:2], twice=twice)
        elif name in (farewell.name, clan.name, swallower.name) or name in CANCELLED:
            await asyncio.sleep(self._draw.upto(30))
            self._witness.control.let_go(run.id)
            self._tell("cancel", run.id, await self._insist(run.cancel))
        elif name in (doom.name, doomed_founder.name):
            await asyncio.sleep(self._draw.upto(30))
            ended = await self._insist(lambda: run.cancel(force=True))
            self._tell("force", run.id, ended)
        elif name == purchases.name:
            await Operator(self._store, self._witness, self._draw, self._tell).look_after(run.uid)

    async def _pause(self, run: Run[Any]) -> None:
        """Pause a run for a while."""
        await asyncio.sleep(self._draw.upto(15))
        is_open = await self._insist(lambda: self._engine.pause(run.id))
        self._tell("pause", run.id, is_open)
        if is_open:
            self._witness.hold(run.id)
        await asyncio.sleep(self._draw.upto(15))
        self._witness.control.let_go(run.id)
        self._tell("resume", run.id, await self._insist(lambda: self._engine.resume(run.id)))

    async def _meddle(self, run: Run[Any], name: str, options: StartOptions) -> None:
        """Start a run again while it goes on; start another whose id is this one's uid."""
        if name in TALKS:
            twin = await self._meddler.start_twin(run, name)
            if twin is not None:
                await self._speaker.say_all((twin.id,), _words(name), twice=True)
                if (heard := await twin.result()) != list(_words(name)):
                    self._witness.accuse(f"{name} under a uid as its id ended with {heard!r}")
        if name not in EXITS:
            await asyncio.sleep(self._draw.upto(30))
            await self._start(run.id, name, options)
        await self._meddler.fork(run, name)

    async def _result(
        self, run: Run[list[str]], name: str, *, by_hand: bool = False
    ) -> list[str] | None:
        if name in EXITS:  # its error is not one to be raised here
            end = await self._engine.end_of(run.uid)
            return [FAILED if end.state == RunState.FAILED and end.error else end.state]
        try:
            return await run.result()
        except RunCancelled:
            return None
        except Exception as error:  # noqa: BLE001 - whatever a run has raised
            if not by_hand:
                return [f"{type(error).__name__}: {error}"]
        await self._meddler.retry(run)
        return await self._result(run, name)

    async def _insist(self, ask: Callable[[], Awaitable[T]]) -> T:
        while True:
            try:
                return await ask()
            except (Unavailable, StoreUnusable):
                await asyncio.sleep(AGAIN_SECONDS)

    def _tell(self, what: str, *detail: Any) -> None:
        self._witness.tell(self._process, what, *detail)


def _words(name: str) -> tuple[str, ...]:
    """Return what a run of this kind must hear."""
    return conversations.WORDS if name in CONVERSATIONS else WORDS
