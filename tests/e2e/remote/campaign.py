"""Remote workers, servers and connections fail at random while runs of every kind are executed.

Each run has a client of its own, which reaches the servers through the proxies as the workers do:
it starts the run, signals or cancels it, repeats calls that were not acknowledged, and compares
the result.
"""

from __future__ import annotations

import asyncio
import random
import signal
from collections import Counter
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from onward import App
from onward.core.run import MAX_CRASHES
from onward.errors import RunCancelled, Unavailable
from onward.model.run_filter import RunQuery
from onward.store import open_store
from tests.e2e.effects.kills import compare, judge, pending
from tests.e2e.effects.sink import POINTS
from tests.e2e.engine.outside import deeds
from tests.e2e.engine.shapes import SIGNAL, go
from tests.e2e.engine.witness import Witness
from tests.e2e.remote.installation import Installation
from tests.e2e.remote.mix import planned_run
from tests.kit.watching import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
    from pathlib import Path

    from onward import Run
    from onward.model.runs import RunRow
    from onward.store import Store
    from tests.e2e.effects.sink import Sink
    from tests.e2e.engine.supervisor import Crew, Process
    from tests.e2e.remote.mix import PlannedRun

T = TypeVar("T")

SERVERS = 2
WORKERS = 3
OPTIONS = ("--lease", "2")
"""The lease of a remote worker that was killed must run out before others continue its runs."""

PAUSES_SECONDS = (0.02, 0.3)
CLIENT_PAUSES_SECONDS = (0.0, 1.0)
OPERATOR_SECONDS = 0.3
AT_SENDS = 0.3
"""How often a worker is killed around a send."""
AT_SEND_SECONDS = 1.0
"""How long a worker may take until that send; then it is killed wherever it is."""
WITNESS_EVERY = 10
"""After how many faults all records are compared with those before."""
LOST_SECONDS = 180.0
"""How long it may take until a worker that was stopped has lost its lease, on a busy machine."""
END_SECONDS = 600.0

NETWORK_FAULTS = ("cut", "delay", "lose_answers")


class Plan(NamedTuple):
    """How many runs and faults a campaign has."""

    runs: int
    worker_kills: int
    server_kills: int
    worker_stops: int
    network_faults: int

    def rounds(self, rng: random.Random) -> list[list[str]]:
        """Return all faults in a random order; those of a round happen at the same time."""
        faults = ["kill_worker"] * self.worker_kills + ["kill_server"] * self.server_kills
        faults += ["stop_worker"] * self.worker_stops
        rng.shuffle(faults)
        rounds = [[fault] for fault in faults]
        network = [NETWORK_FAULTS[n % len(NETWORK_FAULTS)] for n in range(self.network_faults)]
        rng.shuffle(network)
        for number, fault in enumerate(network):
            rounds[number * len(rounds) // len(network)].append(fault)
        return rounds


class Tally(NamedTuple):
    """What happened in a campaign. A fault counts if a run was open that it could hit."""

    runs: int
    faults: Mapping[str, int]
    missed: int
    """Faults that hit nothing; they were repeated."""
    held: int
    """Runs that killed and stopped workers had."""
    unacknowledged: int
    """Calls of clients that raised `Unavailable`, and were repeated."""
    claims: int
    steps: int
    steps_repeated: int
    sends: int
    sends_repeated: int
    verdicts: int


class World(NamedTuple):
    """What a campaign needs.

    `app` is the one of the clients, which reaches the servers through the proxies. `operator` and
    `store` reach the database itself.
    """

    installation: Installation
    app: App
    operator: App
    store: Store
    sink: Sink
    log: Path


class Campaign:
    """Runs and faults in an order that a seed decides."""

    def __init__(self, world: World, rng: random.Random) -> None:
        self._installation, self._app, self._operator, self._store, self._sink, self._log = world
        self._rng = rng
        self._witness = Witness(self._store)
        self._started: dict[str, tuple[Run[Any], PlannedRun]] = {}
        """The runs whose start was acknowledged, by id."""
        self._executions: list[asyncio.Task[None]] = []
        self._faults: Counter[str] = Counter()
        self._stop: asyncio.Task[None] | None = None
        """The wait for the lease of a worker that was stopped."""
        self._missed = self._held = self._unacknowledged = self._verdicts = 0

    async def play(self, plan: Plan) -> Tally:
        """Start runs while faults happen, wait for their ends, and check everything."""
        rounds = plan.rounds(self._rng)
        async with self._operated(), asyncio.TaskGroup() as self._clients:
            for number, faults in enumerate(rounds):
                while len(self._executions) * len(rounds) < plan.runs * (number + 1):
                    self._release()
                await asyncio.gather(*map(self._cause, faults))
                self._installation.check_alive()
                if number % WITNESS_EVERY == 0:
                    await self._witness.look()
            await self._end_stop()
            async with asyncio.timeout(END_SECONDS):
                await asyncio.gather(*self._executions)
        await self._witness.look()
        return await self._tally()

    # --- clients ----------------------------------------------------------------------------------

    def _release(self) -> None:
        execution = self._execute(len(self._executions))
        self._executions.append(self._clients.create_task(execution))

    async def _execute(self, number: int) -> None:
        """Start a run, do what belongs to it, and compare its result."""
        planned = planned_run(number)
        bound = planned.workflow.options(id=f"run-{number}")
        run = await self._acknowledged(lambda: self._app.start(bound, *planned.arguments))
        self._started[run.id] = (run, planned)
        await asyncio.sleep(self._rng.uniform(*CLIENT_PAUSES_SECONDS))
        if planned.is_signalled:
            await self._acknowledged(lambda: run.signal(go, SIGNAL, message_id="go"))
        if planned.is_cancelled:
            await self._acknowledged(run.cancel)
        assert await _result(run) == planned.result, f"{run} has another result"

    async def _acknowledged(self, call: Callable[[], Awaitable[T]]) -> T:
        """Repeat a call until it is acknowledged."""
        while True:
            try:
                return await call()
            except Unavailable:
                self._unacknowledged += 1

    @asynccontextmanager
    async def _operated(self) -> AsyncIterator[None]:
        """Decide on effects whose outcome is unknown, while the body runs."""

        async def operate() -> None:
            while True:
                self._verdicts += await judge(self._operator, self._sink)
                await asyncio.sleep(OPERATOR_SECONDS)

        async with asyncio.TaskGroup() as group:
            task = group.create_task(operate())
            yield
            task.cancel()

    # --- faults -----------------------------------------------------------------------------------

    async def _busy(self) -> dict[int, list[RunRow]]:
        """Return the places of workers that execute runs, and these runs."""
        places = {worker.pid: place for place, worker in enumerate(self._installation.workers)}
        workers = {row.worker: row.pid for row in await self._store.workers() if row.is_alive}
        found: dict[int, list[RunRow]] = {}
        for row in await self._store.list_runs(RunQuery(state="running"), limit=1000):
            place = places.get(workers.get(row.worker or "", 0))
            if place is not None:
                found.setdefault(place, []).append(row)
        return found

    async def _cause(self, fault: str) -> None:
        """Cause a fault while runs are executed; again if it hit nothing."""
        while True:
            await asyncio.sleep(self._rng.uniform(*PAUSES_SECONDS))
            if fault in ("kill_worker", "stop_worker"):
                await self._end_stop()
            busy = await self._busy()
            if not busy and all(execution.done() for execution in self._executions):
                self._release()
            if not busy:
                continue
            if await self._hits(fault, busy):
                self._faults[fault] += 1
                return
            self._missed += 1

    async def _hits(self, fault: str, busy: Mapping[int, list[RunRow]]) -> bool:
        if fault in NETWORK_FAULTS:
            used = [proxy for proxy in self._installation.proxies if proxy.is_used]
            return bool(used) and bool(await getattr(self._rng.choice(used), fault)())
        if fault == "kill_server":
            return await self._kill_server()
        victims = [place for place, runs in busy.items() if may_crash(runs)]
        if not victims:
            return False
        victim = self._rng.choice(victims)
        self._held += len(busy[victim])
        if fault == "kill_worker":
            if self._rng.random() < AT_SENDS:
                await self._wait_for_death_at_send(self._installation.workers[victim])
            await self._installation.kill_worker(victim)
        else:
            self._stop = asyncio.create_task(self._stop_past_lease(victim))
        return True

    async def _wait_for_death_at_send(self, worker: Process) -> None:
        """Let the sink kill a worker around its next send, if there is one soon."""
        self._sink.arm(worker.pid, self._rng.choice(POINTS))
        with suppress(TimeoutError):
            await until(lambda: worker.is_over, AT_SEND_SECONDS)

    async def _kill_server(self) -> bool:
        """Kill one of the servers that are in use, after both are up."""
        await self._installation.servers.up()
        proxies = self._installation.proxies
        used = [place for place, proxy in enumerate(proxies) if proxy.is_used]
        if not used:
            return False
        await self._installation.kill_server(self._rng.choice(used))
        return True

    async def _stop_past_lease(self, place: int) -> None:
        """Stop a worker until another one has deleted its lease, and let it continue."""
        worker = self._installation.workers[place]
        [leased] = [row for row in await self._store.workers() if row.pid == worker.pid]

        async def is_deleted() -> bool:
            rows = {row.worker: row for row in await self._store.workers(gone=True)}
            return rows[leased.worker].renewed_at is None

        worker.send(signal.SIGSTOP)
        try:
            await until(is_deleted, LOST_SECONDS, every=0.1)
        finally:
            worker.send(signal.SIGCONT)

    async def _end_stop(self) -> None:
        if self._stop is not None:
            await self._stop

    # --- checks -----------------------------------------------------------------------------------

    async def _tally(self) -> Tally:
        rows = await self._witness.see_starts([run.uid for run, _ in self._started.values()])
        assert {row.state for row in rows} == {"succeeded", "cancelled"}
        await self._see_effects()
        steps = Counter((deed.run, deed.identity, deed.attempt) for deed in deeds(self._log))
        sent = self._sink.count("sent")
        return Tally(
            len(self._started),
            dict(sorted(self._faults.items())),
            self._missed,
            self._held,
            self._unacknowledged,
            sum(row.fence for row in rows),
            steps.total(),
            sum(times - 1 for times in steps.values()),
            sent.total(),
            sum(times - 1 for times in sent.values()),
            self._verdicts,
        )

    async def _see_effects(self) -> None:
        """Compare the effects of all runs with what the sink received and applied."""
        assert await pending(self._operator) == []
        sent, applied = self._sink.count("sent"), self._sink.count("applied")
        keys = set()
        for run, planned in self._started.values():
            effects = await self._operator.effects.of(run.id) if planned.has_effects else []
            assert len(effects) == (len(planned.result) if planned.has_effects else 0)
            for effect in effects:
                compare(effect, sent[effect.id], applied[effect.id])
                keys.add(effect.id)
        assert sent.keys() | applied.keys() == keys, "something was sent that no run has"


def may_crash(runs: list[RunRow]) -> bool:
    """Return whether none of these runs ends as `failed / crashed` if its worker dies again.

    On a busy machine, workers die faster than runs progress.
    """
    return all(row.crashes < MAX_CRASHES - 2 for row in runs)


async def _result(run: Run[Any]) -> Any:
    try:
        return await run.result()
    except RunCancelled as error:
        return error.state


async def play(crew: Crew, sink: Sink, plan: Plan, seed: int) -> Tally:
    """Play a campaign on two servers and three workers."""
    rng = random.Random(seed)
    async with (
        open_store(crew.url) as store,
        App(crew.url) as operator,
        Installation(crew, rng, SERVERS, WORKERS, OPTIONS) as installation,
        App(installation.url()) as app,
    ):
        world = World(installation, app, operator, store, sink, crew.log)
        return await Campaign(world, rng).play(plan)
