"""A simulated world: two workers, a client, a database, and trouble; all from one seed.

    trace = Simulation(seed=7).run()

What works there is real: workers, executions, stores, SQL. Only time, chance, threads and the way
to the database are the world's. So the same seed gives the same world, to the last row.
"""

from __future__ import annotations

import asyncio
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from onward.core.file_time import SLOWDOWN
from onward.core.instant import SECOND
from onward.engine.local_client import LocalClient
from onward.system.clock import SystemClock
from onward.testing.clock import VirtualClock
from onward.wire.remote_client import RemoteClient
from tests.simulation.simulator.client import Client, World
from tests.simulation.simulator.crew import Crew
from tests.simulation.simulator.draw import Draw
from tests.simulation.simulator.exits import RAISED_BY_A_RUN
from tests.simulation.simulator.kinds import KINDS
from tests.simulation.simulator.letters import PostOffice, open_office
from tests.simulation.simulator.line import NAMESPACE, Memory
from tests.simulation.simulator.plan import TROUBLE_SECONDS, draw_plan, draw_post
from tests.simulation.simulator.process import Process, SeededLoop
from tests.simulation.simulator.purchases import Shop, open_shop
from tests.simulation.simulator.rules import WORLD
from tests.simulation.simulator.sample_workflows import Outside, enter
from tests.simulation.simulator.servers import Servers
from tests.simulation.simulator.spoiling import Spoiler
from tests.simulation.simulator.steward import Steward
from tests.simulation.simulator.stopwatch import Stopwatch
from tests.simulation.simulator.times import Skewed
from tests.simulation.simulator.timetable import Timetable, draw_schedules
from tests.simulation.simulator.trace import Trace
from tests.simulation.simulator.wire import SimulatedNetwork
from tests.simulation.simulator.witness import Witness

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from onward.engine.client_engine import ClientEngine
    from onward.store.store import Store
    from tests.simulation.simulator.plan import Jump, Outage, Plan

PATIENCE_SECONDS = TROUBLE_SECONDS + 240.0
"""After this every run must be over: the trouble is, and nothing takes that long."""

POST_SECONDS = 300.0
"""How much longer pipelines may take: events are handled one after the other."""


class Failed(Exception):
    """A world in which something went wrong. Its seed shows it again."""

    def __init__(self, trace: Trace, broken: list[str]) -> None:
        self.trace = trace
        self.broken = broken
        again = f"python -m tests.simulation --seed {trace.seed}"
        which = "with --wire or --pipelines, if this world had them"
        super().__init__(
            f"seed {trace.seed}: {'; '.join(broken)}\nTo see it again: {again} ({which})"
        )


class Simulation:
    """A world that follows from its seed. It can be run once.

    Args:
        seed: Decides everything.
        plan: What shall happen, where a test wants to decide that itself.
    """

    def __init__(self, seed: int, plan: Plan | None = None) -> None:
        self.seed = seed
        if plan is None:
            plan = draw_post(seed, draw_schedules(seed, draw_plan(seed, tuple(KINDS))))
        self.plan = plan
        self.trace = Trace(seed)
        self.clock = VirtualClock()
        self.witness = Witness(self.clock, self.trace)
        self._world = Process(WORLD)
        self.servers: Servers | None = None
        """Through which workers and clients reach the database, if not by themselves."""

    def run(self) -> Trace:
        """Let the world run to its end.

        Raises:
            Failed: something happened that must never happen, or did not happen in time.
        """
        lines = Draw(self.seed, "lines")
        self._memory = Memory(
            self.clock, self.plan.weather, lines, self.witness.look, is_server=self.plan.is_server
        )
        self.witness.watch(self._memory)
        if self.plan.wire is not None:
            self.servers = Servers(self.seed, self.plan.wire, self._memory, self.witness)
        self.witness.has_post = self.plan.post is not None
        steps = self.witness.steps
        stopwatch = Stopwatch(self.clock, lambda: steps.forward, self.witness.accuse)
        leave = enter(Outside(self.witness, Draw(self.seed, "outside"), stopwatch))
        shopping = Draw(self.seed, "shop")
        self._shop = Shop(self.witness, shopping, self._world, TROUBLE_SECONDS)
        close_shop = open_shop(self._shop)
        faults = 0.0 if self.plan.post is None else self.plan.post.faults
        close_office = open_office(PostOffice(self.seed, faults, TROUBLE_SECONDS))
        try:
            with (
                _alive(self._ended_by),  # what is left of a run may raise it again
                asyncio.Runner(loop_factory=self._make_loop) as runner,
                _alive(self._ended_by),
            ):
                runner.run(self._live(), context=self._world.context.copy())
        finally:
            leave()
            close_shop()
            close_office()
            self._memory.close()
        if self.witness.broken:
            raise Failed(self.trace, self.witness.broken)
        return self.trace

    def _ended_by(self, error: BaseException) -> None:
        if not self.witness.is_over:
            self.witness.broken.append(f"a process ended of what a run raised: {error!r}")
            self._end()

    def _make_loop(self) -> SeededLoop:
        self._loop = SeededLoop(self.clock, Draw(self.seed, "turns"))
        self._loop.set_exception_handler(self._unheard)
        self._loop.turns.on_spin = self.witness.accuse
        return self._loop

    def _unheard(self, _: asyncio.AbstractEventLoop, told: dict[str, Any]) -> None:
        what = told.get("exception") or told["message"]
        self.witness.accuse(f"an unhandled error: {what!r}")

    async def _live(self) -> None:
        over = asyncio.Event()
        self.witness.on_broken = over.set
        story = asyncio.create_task(self._story(), name="story")
        story.add_done_callback(lambda _: over.set())
        await over.wait()
        if story.done() and (error := story.exception()) is not None:
            self.witness.broken.append(f"the story broke off: {error!r}")
        self._end()

    def _end(self) -> None:
        """Cut every process off from the database, and tear down what is left."""
        self.witness.tell(self._world, "end", self._loop.turns.taken)
        self._memory.is_away = self._loop.turns.is_over = self.witness.is_over = True

    async def _story(self) -> None:
        """Let everything begin, wait until all runs are over, and let the workers leave."""
        leaving = asyncio.Event()
        left = asyncio.Event()
        servers = self.servers
        if servers is not None:
            serving = asyncio.create_task(servers.serve(self._loop, self.clock, left))
        crew = Crew(self.seed, self.plan, self._memory, self.witness, self._world, servers)
        work = asyncio.create_task(crew.work(self._loop, self.clock, leaving), name="crew")
        trouble = asyncio.create_task(self._trouble(), name="trouble")
        process = Process("client")
        skewed = Skewed(self.clock, round(self.plan.skew * SECOND))
        store = self._memory.store(process, skewed, Draw(self.seed, "client"))
        wishes = Draw(self.seed, "wishes")
        spoiler = Spoiler(self._memory, self.witness, self._world, Draw(self.seed, "spoiler"))
        world = World(self.witness, self._memory, spoiler, self.plan)
        client = Client(process, store, self._engine(process, store), world, wishes)
        runs = self._loop.task_of(process, client.start_all(self.plan.workflows), name="client")
        table = self._loop.create_task(self._let_schedules_run(), name="timetable")
        post = self._loop.create_task(self._let_post_run(), name="post")
        patience = self._patience()
        await asyncio.wait([runs], timeout=patience)
        if not runs.done():
            stuck = ", ".join(map(str, self.witness.open_runs()))
            self.witness.accuse(f"not over after {patience} s: {stuck}")
            return
        await runs
        await table
        await post
        await self._all_over()
        await trouble
        leaving.set()
        await work
        left.set()
        if servers is not None:
            await serving

    def _engine(self, process: Process, store: Store) -> ClientEngine:
        """Return the engine of the client: over the wire, if there is one."""
        if self.servers is None:
            return LocalClient(store, SystemClock(), lambda: store)
        draw = Draw(self.seed, "remote client")
        network: Any = SimulatedNetwork(self.servers, process, draw)
        return RemoteClient(network, NAMESPACE, self.clock, draw)  # type: ignore[abstract]

    async def _let_schedules_run(self) -> None:
        """Let the schedules of the plan start runs until the trouble is over."""
        if self.plan.schedules:
            self.witness.has_schedules = True
            process = Process("timetable")
            store = self._memory.store(process, self.clock, Draw(self.seed, "timetable"))
            table = Timetable(process, store, self.witness)
            await self._loop.task_of(process, table.live(self.plan.schedules), name="timetable")

    async def _let_post_run(self) -> None:
        """Let the pipelines of the plan run until all their events are handled."""
        if self.plan.post is not None:
            process, draw = Process("steward"), Draw(self.seed, "steward")
            store = self._memory.store(process, self.clock, draw)
            steward = Steward(process, store, self.witness, draw, self.plan.post)
            await self._loop.task_of(
                process, steward.live(self._patience() + POST_SECONDS), name="steward"
            )

    def _patience(self) -> float:
        """Return how long everything may take.

        When the clock goes back, what is due is late by as much; the time of a file goes on at half
        speed until the clock has caught up. Servers double the way of every request.
        """
        back = sum(-jump.seconds for jump in self.plan.jumps if jump.seconds < 0)
        patience = PATIENCE_SECONDS if self.plan.wire is None else 2 * PATIENCE_SECONDS
        return patience + (back if self.plan.is_server else SLOWDOWN * back)

    async def _all_over(self) -> None:
        """Wait for runs that no client waits for."""
        end = self._loop.time() + self._patience()
        while left := self.witness.open_runs():
            if self._loop.time() > end:
                self.witness.accuse(f"not over after all: {', '.join(map(str, left))}")
                return
            await asyncio.sleep(1)
        self.witness.look_back()
        self.witness.compare(self._shop.sent, self._shop.applied)
        self.witness.compare_post(self._shop.answers, self._shop.applied)

    async def _trouble(self) -> None:
        await asyncio.gather(
            *(self._go_away(outage) for outage in self.plan.outages),
            *(self._jump(jump) for jump in self.plan.jumps),
        )

    async def _go_away(self, outage: Outage) -> None:
        await asyncio.sleep(outage.begin)
        what = "refusal" if outage.is_refusal else "outage"
        self.witness.tell(self._world, what, outage.seconds)
        self._reach(outage, is_there=False)
        await asyncio.sleep(outage.seconds)
        self._reach(outage, is_there=True)
        self.witness.tell(self._world, "back")

    def _reach(self, outage: Outage, *, is_there: bool) -> None:
        self.witness.control.disturbed(self.clock.monotonic())
        if outage.is_refusal:
            self._memory.is_refusing = not is_there
        else:
            self._memory.is_away = not is_there

    async def _jump(self, jump: Jump) -> None:
        await asyncio.sleep(jump.begin)
        self.witness.tell(self._world, "jump", jump.seconds)
        self.witness.control.is_time_torn |= jump.seconds > 0
        self.witness.steps.step(jump.seconds)
        if jump.back_after is not None:
            await asyncio.sleep(jump.back_after)
            self.witness.tell(self._world, "jump", -jump.seconds)
            self.witness.steps.step(-jump.seconds)


@contextmanager
def _alive(told: Callable[[BaseException], None]) -> Iterator[None]:
    """Tell what would end the process if the code of a run has raised it; a person may."""
    try:
        yield
    except (SystemExit, KeyboardInterrupt) as error:
        if error.args != (RAISED_BY_A_RUN,):
            raise
        told(error)
