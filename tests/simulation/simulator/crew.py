"""The workers of a simulated world: real ones, in seats that are never empty for long.

A crash takes a worker away between two of its turns: nothing of it ever runs again. Later another
one, which knows nothing, takes the seat.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from onward.core.instant import SECOND
from onward.engine.local_worker import LocalWorker
from onward.errors import StoreUnusable, Unavailable
from onward.runtime.definition import Limits
from onward.runtime.registry import Registry
from onward.runtime.worker.options import DRAIN, Options, Ports
from onward.runtime.worker.worker import Worker
from onward.wire.remote_worker import RemoteWorker
from tests.simulation.simulator.draw import Draw
from tests.simulation.simulator.kinds import STEPS, WORKFLOWS
from tests.simulation.simulator.letters import VERSIONS, publisher
from tests.simulation.simulator.line import NAMESPACE
from tests.simulation.simulator.plan import SEATS, TROUBLE_SECONDS, Stop
from tests.simulation.simulator.process import Process
from tests.simulation.simulator.times import Skewed
from tests.simulation.simulator.wire import SimulatedNetwork

if TYPE_CHECKING:
    from onward.engine.worker_engine import WorkerHooks
    from onward.store.store import Store
    from onward.testing.clock import VirtualClock
    from tests.simulation.simulator.line import Memory
    from tests.simulation.simulator.plan import Crash, Plan
    from tests.simulation.simulator.process import SeededLoop
    from tests.simulation.simulator.servers import Servers
    from tests.simulation.simulator.witness import Witness

FREEZE_SECONDS = 40.0
"""How long a worker stands still that loses its lease of it."""

FREEZE_SENDS = 40
"""After how many sends at most."""

BACK_SECONDS = 0.5
"""How soon another worker replaces one that gave up by itself."""


class Crew:
    """Keeps the seats of a world taken.

    Args:
        seed: The seed of the world.
        plan: What befalls the workers.
        memory: The database.
        witness: Sees what happens to them.
        world: The process that takes note of a death, where one does.
        servers: Through which they reach the database, if not by themselves.
    """

    def __init__(
        self,
        seed: int,
        plan: Plan,
        memory: Memory,
        witness: Witness,
        world: Process,
        servers: Servers | None = None,
    ) -> None:
        self._seed = seed
        self._plan = plan
        self._memory = memory
        self._witness = witness
        self._world = world
        self._servers = servers
        self._crashes = {seat: [c for c in plan.crashes if c.seat == seat] for seat in range(SEATS)}
        self._stops = {seat: [s for s in plan.stops if s.seat == seat] for seat in range(SEATS)}
        self._born = 0
        self._version = 1
        self._deployed: asyncio.Event
        """Set when workers are to leave for others with changed code."""

    async def work(self, loop: SeededLoop, clock: VirtualClock, leaving: asyncio.Event) -> None:
        """Work until they are to leave, and let them leave in peace."""
        self._loop = loop
        self._clock = clock
        self._ends = clock.monotonic() + round(TROUBLE_SECONDS * SECOND)
        self._deployed = asyncio.Event()
        deploy = None if self._plan.post is None else self._plan.post.deploy
        if deploy is not None:
            loop.call_later(deploy, self._deploy, context=self._world.context.copy())
        seats = [asyncio.create_task(self._keep(seat, leaving)) for seat in range(SEATS)]
        await asyncio.gather(*seats)

    async def _keep(self, seat: int, leaving: asyncio.Event) -> None:
        """See to it that there is a worker in a seat."""
        left = asyncio.create_task(leaving.wait())
        deployed = asyncio.create_task(self._deployed.wait())
        while not leaving.is_set():
            self._born += 1
            process = Process(f"worker {self._born}")
            gone: asyncio.Future[float] = self._loop.create_future()
            self._befall(process, seat, gone)
            store, worker = process.context.run(self._make, process)
            self._loop.task_of(process, self._life(process, store, worker, gone), name="life")
            either: list[asyncio.Future[Any]] = [gone, left]
            if self._version == 1:
                either.append(deployed)
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            if not gone.done():
                process.drained_at = self._clock.monotonic() + DRAIN
                self._loop.call_soon(worker.stop, context=process.context.copy())
            await asyncio.sleep(await gone)
        deployed.cancel()

    def _deploy(self) -> None:
        """Let workers leave, and others with changed code come."""
        self._witness.tell(self._world, "deploy")
        self._version = 2
        self._deployed.set()

    def _make(self, process: Process) -> tuple[Store, Worker]:
        draw = Draw(self._seed, process.name)
        ahead = round(draw.upto(2 * self._plan.skew) * SECOND - self._plan.skew * SECOND)
        store = self._memory.store(process, Skewed(self._clock, ahead), draw)
        workflows = [each.definition for each in WORKFLOWS]
        steps = [each.definition for each in STEPS]
        options = Options(slots=self._plan.slots, warm=self._plan.warm)
        if self._plan.post is None:
            registry = Registry(workflows, steps)
        else:
            served = VERSIONS[self._version]
            workflows.append(publisher.definition)
            registry = Registry(workflows, steps, handlers=served.handlers)
            options = replace(options, pipelines=served.specs, version=f"v{self._version}")
        connect: Any = partial(LocalWorker, store, self._clock, None)
        if self._servers is not None:
            network = SimulatedNetwork(self._servers, process, draw)
            connect = partial(self._connect, process, network)
        ports = Ports(self._clock, draw, None, connect, "simulated", self._born)
        worker = Worker(registry, options, Limits(), ports)
        process.worker_id = lambda: worker.id
        self._freeze_once(process, worker, Draw(self._seed, f"{process.name} freezes"))
        return store, worker

    def _connect(
        self, process: Process, network: Any, worker: str, hooks: WorkerHooks
    ) -> RemoteWorker:
        self._witness.control.processes[worker] = process
        return RemoteWorker(network, self._clock, worker, hooks)  # type: ignore[abstract]

    async def _life(
        self, process: Process, store: Store, worker: Worker, gone: asyncio.Future[float]
    ) -> None:
        self._witness.tell(process, "begin", worker.id)
        why = "asked to"
        try:
            async with store:
                await worker.run()
        except (Unavailable, StoreUnusable) as error:
            why = type(error).__name__
            if worker.ready.is_set():
                self._witness.accuse(f"{process.name} ended: {error!r}")
        except Exception as error:  # noqa: BLE001 - whatever it is, a worker must not end of it
            why = type(error).__name__
            self._witness.accuse(f"{process.name} ended: {error!r}")
        process.has_left = True
        self._witness.tell(process, "leave", why)
        if not gone.done():
            gone.set_result(BACK_SECONDS)

    # --- what befalls them -----------------------------------------------------------------------

    def _befall(self, process: Process, seat: int, gone: asyncio.Future[float]) -> None:
        """Let the next crash of this seat, and the stops before it, befall this worker."""
        crash = self._crashes[seat].pop(0) if self._crashes[seat] else None
        while self._stops[seat]:
            stop = self._stops[seat].pop(0)
            process.at_turn[stop.turn] = partial(self._stop, process, stop)
        if crash is not None:
            process.at_turn[crash.turn] = partial(self._crash, process, crash, gone)

    def _freeze_once(self, process: Process, worker: Worker, draw: Draw) -> None:
        """Let a worker stand still after it has sent something for its runs, once, in some turn."""
        sent, turn = 0, 1 + draw.below(FREEZE_SENDS)

        def count() -> None:
            nonlocal sent
            sent += bool(worker.running)
            if sent == turn and not process.has_stood_still:
                self._stop(process, Stop(0, process.turns, FREEZE_SECONDS))

        if draw.happens(self._plan.freezes):
            process.at_send = count

    def _crash(self, process: Process, crash: Crash, gone: asyncio.Future[float]) -> None:
        if self._clock.monotonic() > self._ends or gone.done():
            return
        process.die()
        self._witness.tell(process, "crash", crash.turn)
        gone.set_result(crash.gone)
        if crash.is_noticed:
            worker = process.worker
            self._memory.carry_out(
                self._world, lambda tx: tx.fetch("drop_lease", worker=worker), NAMESPACE
            )

    def _stop(self, process: Process, stop: Stop) -> None:
        if self._clock.monotonic() > self._ends:
            return
        process.stop()
        self._witness.control.disturbed(self._clock.monotonic())
        self._witness.tell(process, "stop", stop.seconds)
        self._loop.call_later(
            stop.seconds, self._go_on, process, context=self._world.context.copy()
        )

    def _go_on(self, process: Process) -> None:
        process.go_on()
        self._witness.control.disturbed(self._clock.monotonic())
        self._witness.tell(process, "go on")
