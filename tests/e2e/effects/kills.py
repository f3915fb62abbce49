"""Workers die at every point around a send; the outside says what really happened."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple

from onward import App
from onward.core.run import MAX_CRASHES
from onward.errors import RunFailed, VerdictRefused
from onward.store import open_store
from tests.e2e.effects.orders import three_orders
from tests.e2e.effects.sink import POINTS as SINK_POINTS
from tests.e2e.engine.supervisor import PATIENCE_SECONDS, SHORT_LEASE
from tests.e2e.engine.sweep import EFFECT_POINTS, killed
from tests.e2e.engine.witness import Witness

if TYPE_CHECKING:
    from onward import Run
    from onward.sdk.effects import EffectInfo
    from onward.store import Store
    from tests.e2e.effects.sink import Sink
    from tests.e2e.engine.supervisor import Crew, Process

POINTS = (*EFFECT_POINTS, *SINK_POINTS, "commit.before", "commit.after")
PROMISES = ("blind", "traced", "keyed")
LATER = {"commit.before": 5, "commit.after": 5}
"""The first writes of a worker are its lease and its registration; these are for its run."""

UNCERTAIN = ("in_flight", "needs_reconcile", "indeterminate")
MAX_HITS = 4
AT_A_TIME = 5
PAUSE_SECONDS = 0.15


class Tally(NamedTuple):
    """What was gone through."""

    kind: str
    runs: int
    crashed: int
    kills: int
    effects: int
    sends: int
    sent_again: int
    applied: int
    verdicts: int


class Siege:
    """Runs that send effects of one kind while workers die."""

    def __init__(self, crew: Crew, sink: Sink, store: Store, app: App, kind: str) -> None:
        self._crew = crew
        self._sink = sink
        self._store = store
        self._app = app
        self._kind = kind
        self._witness = Witness(store)
        self._runs: list[Run[Any]] = []
        self._crashed: dict[str, Counter[str]] = {}
        """How often effects of runs that were given up had been sent before their retries."""
        self._verdicts = 0
        self._kills = 0

    async def start(self) -> None:
        """Start another run."""
        name = f"{self._kind}-{len(self._runs)}"
        self._runs.append(await self._app.start(three_orders.options(id=name), self._kind, name))

    def launch(self, point: str, hit: int, *options: str) -> Process:
        """Start a worker that dies at a point."""
        if point not in SINK_POINTS:
            armed = f"{point}=kill@{hit}"
            return self._crew.launch(*SHORT_LEASE, *options, failpoints=armed)
        worker = self._crew.launch(*SHORT_LEASE, *options)
        self._sink.arm(worker.pid, point, hit=hit)
        return worker

    async def buried(self, worker: Process, point: str) -> None:
        """Wait until a worker has died at a point, and look at what it left."""
        await killed(worker, point)
        self._kills += 1
        await self._witness.look()

    async def see_nothing_hidden(self) -> None:
        """See that what was sent is in the ledger, and listed as long as nobody knows of it."""
        sent = self._sink.count("sent")
        listed = {effect.id for effect in await pending(self._app)}
        for key, times in sent.items():
            effect = await self._app.effects.get(key)
            assert effect.state != "planned", f"{key} was sent, but never intended"
            if effect.state in UNCERTAIN:
                assert key in listed, f"{key} is uncertain, and nobody sees it"
            assert times <= effect.attempt, f"{key} was sent more often than intended"

    async def speak(self) -> None:
        """Give verdicts where nothing else can tell."""
        if self._kind == "blind":
            self._verdicts += await judge(self._app, self._sink)

    async def end(self) -> Tally:
        """Let one worker live, say what must be said, and hold the ends against the outside."""
        await self._crew.worker(*SHORT_LEASE)
        async with asyncio.timeout(3 * PATIENCE_SECONDS):
            ends = asyncio.gather(*(self._ended(run) for run in self._runs))
            while not ends.done():
                await self.speak()
                await asyncio.wait([ends], timeout=0.1)
        await ends
        assert await pending(self._app) == []
        await self._witness.look()
        return await self._tally()

    async def _ended(self, run: Run[Any]) -> None:
        try:
            await run.result()
        except RunFailed as failed:
            # Five workers in a row died with it before it had got on: nobody tries a sixth time.
            if failed.reason != "crashed":
                raise
            assert (await self._store.newest(run.id)).crashes >= MAX_CRASHES
            await self._retry(run)

    async def _retry(self, run: Run[Any]) -> None:
        """Retry a run that was given up, as an operator would; nothing of it is hidden by then."""
        before = await self._app.effects.of(run.id)
        listed = {effect.id for effect in await pending(self._app)}
        for effect in before:
            now = await self._app.effects.get(effect.id)  # a verdict may have come meanwhile
            assert effect.id in listed or now.state not in UNCERTAIN, effect
        earlier = self._crashed.setdefault(run.id, Counter())
        earlier.update({effect.id: effect.attempt for effect in before})
        await self._ended(await self._app.retry(run.id))

    async def _tally(self) -> Tally:
        sent, applied = self._sink.count("sent"), self._sink.count("applied")
        keys: dict[str, str] = {}
        for run in self._runs:
            # A retry begins to count anew, and what was applied before stays with the old run.
            earlier = self._crashed.get(run.id, Counter())
            held = [effect.id for effect in await self._app.effects.of(run.id)]
            effects = [await self._app.effects.get(each) for each in {*held, *earlier}]
            made = {effect.arguments["order"]: effect for effect in effects}
            for told in await run.result():
                order, _, outcome = told.partition(" ")
                effect = made.pop(order)
                assert outcome == "done", f"the run was told {told!r}: {effect}"
                compare(effect, sent[effect.id] - earlier[effect.id], applied[effect.id])
                keys[effect.id] = outcome
            assert made == {}
        assert sent.keys() | applied.keys() <= keys.keys(), "something was sent past the ledger"
        again = sum(times - 1 for times in sent.values())
        return Tally(
            self._kind,
            len(self._runs),
            len(self._crashed),
            self._kills,
            len(keys),
            sent.total(),
            again,
            applied.total(),
            self._verdicts,
        )


def compare(effect: EffectInfo, sent: int, applied: int) -> None:
    """Hold an effect that a run was told of as done against what the outside has."""
    assert sent <= effect.attempt, f"{effect} was sent {sent} times"
    assert (effect.state, applied) == ("applied", 1), f"applied {applied} times: {effect}"


async def pending(app: App) -> list[EffectInfo]:
    """Return all effects that are not settled."""
    found: list[EffectInfo] = []
    while page := await app.effects.pending(after=found[-1].id if found else ""):
        found += page
    return found


async def judge(app: App, sink: Sink) -> int:
    """Say of every effect that nobody knows of what the outside says; return how many it were."""
    given, open_effects = 0, await pending(app)
    applied = sink.count("applied")
    for effect in open_effects:
        if effect.state != "indeterminate":
            continue
        happened = effect.id in applied
        result = f"{effect.arguments['order']} done" if happened else None
        try:
            await app.effects.resolve(
                effect.id,
                "applied" if happened else "not_applied",
                result=result,
                reason="the sink says so",
                version=effect.version,
            )
        except VerdictRefused:
            continue  # it is too early to say that it did not happen
        given += 1
    return given


async def die_at_every_point(crew: Crew, sink: Sink, kind: str) -> Tally:
    """Let a worker die at each point, some at a time, then one that lives end all runs."""
    async with open_store(crew.url) as store, App(crew.url) as app:
        siege = Siege(crew, sink, store, app, kind)
        for first in range(0, len(POINTS), AT_A_TIME):
            # None has more than one run, so that there is one left for each.
            doomed = []
            for point in POINTS[first : first + AT_A_TIME]:
                await siege.start()
                doomed.append((siege.launch(point, LATER.get(point, 1), "--slots", "1"), point))
            for worker, point in doomed:
                await siege.buried(worker, point)
            await siege.see_nothing_hidden()
        return await siege.end()


async def die_at_random_points(crew: Crew, sink: Sink, kind: str, kills: int, seed: int) -> Tally:
    """Let so many workers die, some at a time, each at a point that the seed decides."""
    randomness = random.Random(seed)
    async with open_store(crew.url) as store, App(crew.url) as app:
        siege = Siege(crew, sink, store, app, kind)
        for left in range(kills, 0, -AT_A_TIME):
            doomed = []
            for _ in range(min(left, AT_A_TIME)):
                point = randomness.choice(POINTS)
                hit = LATER.get(point, 1) + randomness.randrange(MAX_HITS)
                doomed.append((siege.launch(point, hit, "--slots", "3"), point))
            async with asyncio.timeout(3 * PATIENCE_SECONDS):
                while not all(worker.is_over for worker, _ in doomed):
                    await siege.start()
                    await asyncio.sleep(PAUSE_SECONDS)
                    await siege.speak()
            for worker, point in doomed:
                await siege.buried(worker, point)
            await siege.see_nothing_hidden()
        return await siege.end()
