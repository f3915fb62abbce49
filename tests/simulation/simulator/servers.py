"""Servers of a simulated world, which die and come again.

The services of workers and of clients, and everything behind them, are real. `wire.py` has what is
between them and their clients.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import TYPE_CHECKING, Any

import grpc

from onward.engine.access.limits import RequestLimits
from onward.engine.local_client import LocalClient
from onward.errors import StoreUnusable, Unavailable
from onward.server.doors import Doors
from onward.server.engine_service import EngineService
from onward.server.gate import OpenGate
from onward.server.hub import Hub
from onward.server.keepalive import Keepalive
from onward.server.limits import StreamLimits
from onward.server.worker_service import WorkerService
from tests.simulation.simulator.draw import Draw
from tests.simulation.simulator.line import NAMESPACE
from tests.simulation.simulator.process import Process

if TYPE_CHECKING:
    from onward.server.keepalive import OpenStream
    from onward.testing.clock import VirtualClock
    from tests.simulation.simulator.line import Memory
    from tests.simulation.simulator.plan import Wire
    from tests.simulation.simulator.process import SeededLoop
    from tests.simulation.simulator.wire import SimulatedStream
    from tests.simulation.simulator.witness import Witness

SERVERS = 2
WHERE = "the simulated server"
AGAIN_SECONDS = 0.5
"""After how long a server is started again that found no database."""


class Servers:
    """The servers of a world.

    Args:
        seed: The seed of the world.
        wire: What befalls them, and how good the wire is.
        memory: The database.
        witness: Sees what happens to them.
    """

    def __init__(self, seed: int, wire: Wire, memory: Memory, witness: Witness) -> None:
        self._seed = seed
        self.wire = wire
        self._memory = memory
        self.witness = witness
        self._draw = Draw(seed, "wire")
        self._born = 0
        self.running: list[Server] = []
        self._dead: list[Server] = []  # or the collector would find their tasks
        self.befell: Counter[tuple[str, str]] = Counter()
        """How often which kind of frame or call was lost, came twice, or came late."""

    async def serve(self, loop: SeededLoop, clock: VirtualClock, leaving: asyncio.Event) -> None:
        """Let servers run until the workers have left."""
        self.loop = loop
        self.clock = clock
        await asyncio.gather(*(self._keep(seat, leaving) for seat in range(SERVERS)))

    async def _keep(self, seat: int, leaving: asyncio.Event) -> None:
        deaths = [death for death in self.wire.deaths if death.seat == seat]
        while True:
            self._born += 1
            server = Server(f"server {self._born}", self)
            server.start(self._memory, self.clock, Draw(self._seed, server.process.name))
            self.running.append(server)
            left = asyncio.create_task(leaving.wait())
            death = deaths.pop(0) if deaths else None
            await asyncio.wait([left], timeout=None if death is None else death.after)
            left.cancel()
            if leaving.is_set() or death is None:
                await server.stop()
                return
            self.running.remove(server)
            server.die()
            self._dead.append(server)
            self.witness.tell(server.process, "crash")
            await asyncio.sleep(death.gone)

    def delay(self) -> float:
        """Return how long the next frame takes."""
        return self._draw.upto(self.wire.delay)

    def upto(self, seconds: float) -> float:
        """Return a time of at most so many seconds."""
        return self._draw.upto(seconds)

    def happens(self, often: float) -> bool:
        """Say whether something happens to the next frame, while there is trouble."""
        return self.loop.time() < self.wire.clears and self._draw.happens(often)


class Server:
    """One server process: what `OnwardServer` does, without gRPC."""

    def __init__(self, name: str, servers: Servers) -> None:
        self.process = Process(name)
        self.process.is_server = True
        self.servers = servers
        self.gone: asyncio.Future[None] = servers.loop.create_future()
        """Done once it is dead."""
        self._is_open = asyncio.Event()
        self._is_stopping = asyncio.Event()
        self._life: asyncio.Task[Any] | None = None
        self.streams: dict[SimulatedStream, None] = {}  # in order, which a set has not
        self.tasks: list[asyncio.Task[Any]] = []
        self.workers: WorkerService
        self.clients: EngineService

    def start(self, memory: Memory, clock: VirtualClock, draw: Draw) -> None:
        """Begin to serve."""
        work = self._live(memory, clock, draw)
        self._life = self.servers.loop.task_of(self.process, work, name="server")

    async def _live(self, memory: Memory, clock: VirtualClock, draw: Draw) -> None:
        store = memory.store(self.process, clock, draw)
        client = LocalClient(store, clock, lambda: store)  # others write too, and hints get lost
        while True:
            try:
                async with Hub(client, clock, self.process.name) as hub:
                    await self._serve(hub, clock)
                    return
            except (Unavailable, StoreUnusable):  # a service manager starts it again
                await asyncio.sleep(AGAIN_SECONDS)

    async def _serve(self, hub: Hub, clock: VirtualClock) -> None:
        name = self.process.name

        async def hub_of(_: str) -> Hub:
            return hub

        async def is_valid(_: str) -> bool:
            return True

        doors = Doors(OpenGate(), RequestLimits(clock), hub_of, name)
        self.workers = WorkerService(doors, StreamLimits(), name)
        self.clients = EngineService(doors, StreamLimits(), name)

        def streams() -> list[OpenStream]:
            return [*hub.sessions.values(), *self.clients.watches]

        keepalive = Keepalive(streams, is_valid)
        pinging = asyncio.create_task(keepalive.run())
        self._is_open.set()
        await self._is_stopping.wait()
        pinging.cancel()
        for stream in streams():
            stream.end("the server stops")

    @property
    def is_open(self) -> bool:
        """Whether it can be connected to."""
        return self._is_open.is_set() and not self.process.is_dead

    def call(self, path: str, data: bytes) -> asyncio.Future[bytes]:
        """Carry out a call, and return its reply."""
        method: Any = {
            "Renew": self.workers._renew,
            "ReleaseOthers": self.workers._release_others,
            "NoteBlocked": self.workers._note_blocked,
            "Call": self.clients._call,
        }[path.rpartition("/")[2]]

        async def answer() -> bytes:
            try:
                data_back: bytes = await method(data, Context())
            except grpc.aio.AbortError:
                raise Unavailable(WHERE, "refused the call") from None
            return data_back

        task = self.servers.loop.task_of(self.process, answer(), name="call")
        self.tasks.append(task)
        task.add_done_callback(lambda done: done.cancelled() or done.exception())
        return task

    def die(self) -> None:
        """Do nothing any more; those at the other end of its streams learn of it."""
        self.process.die()
        self.gone.set_result(None)
        for stream in list(self.streams):
            stream.cut()

    async def stop(self) -> None:
        """Stop in peace."""
        assert self._life is not None
        self._is_stopping.set()
        await asyncio.wait([self._life], timeout=30)


class Context:
    """The context of a call at the server, as gRPC has one."""

    def invocation_metadata(self) -> Any:
        """Return what the caller says of itself."""
        return (("onward-namespace", NAMESPACE),)

    def peer(self) -> str:
        """Return where the caller is."""
        return "simulated"

    async def abort(self, *_: Any) -> None:
        """End the call."""
        raise grpc.aio.AbortError
