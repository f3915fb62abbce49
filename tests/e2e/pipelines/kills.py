"""Workers die at random while events come in; each event is handled once, whatever happens."""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from onward import App
from onward.codec import decode
from onward.engine.payloads import unpack
from onward.errors import PipelineBlocked
from onward.store import open_store
from onward.store.invariants import check
from onward.store.pipelines.reading import handler_row
from tests.e2e.effects.kills import judge, pending
from tests.e2e.pipelines.auditor import EVENTS, Auditor
from tests.e2e.pipelines.parcels import PIPELINES, SENDERS, parcels, received, shipped
from tests.kit.watching import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from onward.store import Store
    from tests.e2e.effects.sink import Sink
    from tests.e2e.engine.supervisor import Crew, Process

WORKERS = 2
LEASE_SECONDS = 2
SERVING = ("--lease", str(LEASE_SECONDS), "--pipelines", *(each.name for each in PIPELINES))
END_SECONDS = 240.0
PAUSES_SECONDS = (0.1, 0.8)
SAMPLE_SECONDS = 0.1
TRIGGERS = 0.7
"""How often the producer is run before a kill."""

WATCHED = 0.3
"""After how many kills it is seen how soon another worker has the runs of the victim."""


class PipelineTally(NamedTuple):
    """What a campaign went through."""

    events: int
    kills: int
    held: int
    """How many runs the victims had."""
    takeovers: int
    slowest_takeover: float
    sends: int
    sent_again: int
    applied: int
    verdicts: int
    resumed: int
    samples: int


class PipelineCampaign:
    """So many events and so many kills, in an order that a seed decides."""

    def __init__(self, crew: Crew, sink: Sink, store: Store, app: App, seed: int) -> None:
        self._crew, self._sink, self._store, self._app = crew, sink, store, app
        self._seed = seed
        self._rng = random.Random(seed)
        self._auditor = Auditor(crew.url)
        self._workers: list[Process] = []
        self._takeovers: list[float] = []
        self._held = self._verdicts = self._resumed = 0

    async def play(self, events: int, kills: int) -> PipelineTally:
        """Publish events while workers are being killed, then wait until all are handled."""
        await self._app.pipelines.declare(*PIPELINES)
        self._workers = [await self._crew.worker(*SERVING) for _ in range(WORKERS)]
        async with self._observed():
            published = self._publish(events)
            for _ in range(kills):
                if self._rng.random() < TRIGGERS:
                    await self._app.pipelines.trigger(parcels.name)
                await asyncio.sleep(self._rng.uniform(*PAUSES_SECONDS))
                await self._kill()
            await published
            await self._see_all_handled()
        return await self._tally(kills)

    def _publish(self, events: int) -> asyncio.Task[None]:
        publisher = self._crew.publisher(events, self._seed)

        async def acknowledged() -> None:
            ids = [line.split()[1] for line in await publisher.lines()]
            assert ids == [f"client-{n}" for n in range(events)]

        return asyncio.create_task(acknowledged())

    async def _kill(self) -> None:
        """Kill one worker, and at times see how soon the other has its runs."""
        place = self._rng.randrange(WORKERS)
        is_watched = self._rng.random() < WATCHED
        if is_watched:
            await asyncio.gather(*(worker.up() for worker in self._workers))
        victim = self._workers[place]
        await victim.kill()
        killed_at = time.monotonic()
        held = await self._auditor.runs_of(victim.pid)
        self._held += len(held)
        if held and is_watched:
            await until(partial(self._is_free, victim.pid), END_SECONDS, 0.02)
            self._takeovers.append(time.monotonic() - killed_at)
        self._workers[place] = self._crew.launch(*SERVING)

    async def _is_free(self, pid: int) -> bool:
        return not await self._auditor.runs_of(pid)

    @asynccontextmanager
    async def _observed(self) -> AsyncIterator[None]:
        """Take samples, and do what an operator has to do, while the body runs."""
        async with asyncio.TaskGroup() as group:
            observer = group.create_task(self._observe())
            yield
            observer.cancel()

    async def _observe(self) -> None:
        while True:
            await self._auditor.sample()
            assert await check(self._store) == []
            self._verdicts += await judge(self._app, self._sink)
            for pipeline in PIPELINES:
                if (await self._app.pipelines.get(pipeline.name)).state == "blocked":
                    await self._resume(pipeline.name)
            await asyncio.sleep(SAMPLE_SECONDS)

    async def _resume(self, name: str) -> None:
        """Resume a pipeline whose run crashed five workers, unless a verdict must come first."""
        with suppress(PipelineBlocked):
            self._resumed += len(await self._app.pipelines.resume(name))

    # --- the end ---------------------------------------------------------------------------------

    async def _see_all_handled(self) -> None:
        async def is_idle() -> bool:
            # Twice: a run may have ended between the two looks at events and at runs.
            return await self._auditor.is_idle() and await self._auditor.is_idle()

        await until(is_idle, END_SECONDS, SAMPLE_SECONDS)

    async def _tally(self, kills: int) -> PipelineTally:
        assert await check(self._store) == []
        assert await pending(self._app) == []
        rows = await self._auditor.fetch(EVENTS)
        ids = [message for topic, message in rows if topic == received.name]
        counts = await self._auditor.sample()
        assert sorted(ids) == sorted(event for topic, event in rows if topic == shipped.name)
        await self._compare_counts(ids)
        skipped = sum(each.skipped for each in counts)
        applied = self._compare_sink(ids, skipped)
        again = await self._compare_sends()
        return PipelineTally(
            len(ids), kills, self._held, len(self._takeovers), max(self._takeovers, default=0.0),
            self._sink.count("sent").total(), again, applied, self._verdicts, self._resumed,
            self._auditor.samples,
        )  # fmt: skip

    async def _compare_counts(self, ids: list[str]) -> None:
        """Hold what handlers have counted themselves against the events."""
        assert len(set(ids)) == len(ids)
        yard = [each for each in ids if each.startswith("yard-")]
        assert yard == [f"yard-{n}" for n in range(len(yard))], "the cursor has jumped"
        for handler, wanted in (("collect", len(yard)), ("Count", len(ids))):
            read = partial(handler_row, handler=f"parcels.{handler}", key="")
            row = await self._store.read(read)
            assert row.state is not None
            counted = decode(unpack(row.state))
            assert counted == wanted, f"{handler} has counted {counted} instead of {wanted}"

    def _compare_sink(self, ids: list[str], skipped: int) -> int:
        """See that each event was applied once for each consumer that sends it."""
        times: Counter[tuple[str, str]] = Counter()
        for entry in self._sink.entries("applied"):
            sender, _, events = entry.order.partition(":")
            times.update((sender, event) for event in events.split(","))
        twice = {what: count for what, count in times.items() if count > 1}
        assert twice == {}, "an event was applied twice"
        assert times.total() >= len(SENDERS) * len(ids) - skipped, "an event was not applied"
        return times.total()

    async def _compare_sends(self) -> int:
        """See that nothing was sent more often than the ledger says; return what was repeated."""
        sent = self._sink.count("sent")
        for key, times in sent.items():
            effect = await self._app.effects.get(key)
            assert times <= effect.attempt, f"{effect} was sent {times} times"
        return sum(times - 1 for times in sent.values())


async def kill_pipelines(
    crew: Crew, sink: Sink, events: int, kills: int, seed: int
) -> PipelineTally:
    """Play a campaign and say what it went through."""
    async with open_store(crew.url) as store, App(crew.url) as app:
        return await PipelineCampaign(crew, sink, store, app, seed).play(events, kills)
