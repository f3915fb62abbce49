"""How many events go through a pipeline: a producer, a consumer with an effect, and a consumer.

    python -m benchmarks.pipelines                      100,000 events, 100 in a run; both stores
    python -m benchmarks.pipelines --events 10000 --only sqlite
    python -m benchmarks.pipelines --flat 1000000       beside so many events of the past

Each setting is printed beside a bare loop that writes the same rows in as many transactions, past
the engine. Runs of one event each are measured with fewer events (`--single`).
"""

# ruff: noqa: ARG002 - a phase has all of its parameters, whether it needs them or not

from __future__ import annotations

import argparse
import asyncio
import logging
import tempfile
import time
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from benchmarks.pipeline_rows import Bare, Past
from onward import App, effect
from onward.errors import Unavailable
from onward.pipelines import Consumer, Pipeline, Prepared
from onward.testing.postgres import PostgresServer

if TYPE_CHECKING:
    from onward.pipelines import (
        MutateContext,
        NextContext,
        Outcome,
        PrepareContext,
        ProducerContext,
    )

PUBLISHED = 10_000
"""How many events a run of the producer publishes at most."""

KEYS = 50
BESIDE = (1_000, 10_000, 100_000, 1_000_000)
MAX_RATIO = 1.5
numbers = count(1)


class Setting(NamedTuple):
    """How events are handled."""

    name: str
    batch: int
    is_parallel: bool = False


SETTINGS = (
    Setting("100 events a run", 100),
    Setting("1 event a run", 1),
    Setting(f"1 event a run, {KEYS} keys", 1, is_parallel=True),
)


@effect(name="benchmark.send")
async def send(texts: list[str]) -> int:
    return len(texts)


@dataclass
class Line:
    """A pipeline, how many events a run of it takes, and how many it is to produce."""

    pipeline: Pipeline
    batch: int
    goal: int
    produced: asyncio.Event

    async def consumed(self, app: App) -> int:
        """Return how many events its last consumer has consumed."""
        name = self.pipeline.name
        return (await app.topics.counts(f"{name}.done"))[f"{name}.Count"]["consumed"]


def a_line(setting: Setting) -> Line:
    """Define a pipeline under a name of its own."""
    pipeline = Pipeline(f"line-{next(numbers)}", parallel=setting.is_parallel)
    raw = pipeline.topic(f"{pipeline.name}.raw", str)
    done = pipeline.topic(f"{pipeline.name}.done", str)
    line = Line(pipeline, setting.batch, 0, asyncio.Event())

    @pipeline.producer(every="1h", publishes=[raw])
    async def make(ctx: ProducerContext, cursor: int | None) -> int:
        begin = cursor or 0
        end = min(begin + PUBLISHED, line.goal)
        for n in range(begin, end):
            ctx.publish(raw, "a payload of some size", id=str(n), key=str(n % KEYS))
        line.produced.set()
        return end

    @pipeline.consumer(subscribes=[raw], publishes=[done])
    class Send(Consumer[int, list[str]]):
        async def prepare(self, ctx: PrepareContext, state: int | None) -> Prepared[list[str]]:
            events = await ctx.peek(raw, limit=line.batch)
            return Prepared(reserve=events, data=[event.payload for event in events])

        async def mutate(self, ctx: MutateContext, prepared: Prepared[list[str]]) -> None:
            await send(prepared.data)

        async def next(
            self, ctx: NextContext, prepared: Prepared[list[str]], outcome: Outcome
        ) -> int | None:
            for event in prepared.reserve:
                ctx.publish(done, "done", id=event.id, key=event.key)
            return None

    @pipeline.consumer(subscribes=[done])
    class Count(Consumer[int, int]):
        async def prepare(self, ctx: PrepareContext, state: int | None) -> Prepared[int]:
            events = await ctx.peek(done, limit=line.batch)
            return Prepared(reserve=events, data=(state or 0) + len(events))

        async def next(
            self, ctx: NextContext, prepared: Prepared[int], outcome: Outcome
        ) -> int | None:
            return prepared.data

    return line


async def trigger(app: App, line: Line) -> None:
    """Run the producer; the run before may still lock its row while it writes many events."""
    while True:
        try:
            await app.pipelines.trigger(line.pipeline.name)
        except Unavailable:
            await asyncio.sleep(0.1)
        else:
            return


async def drive(app: App, line: Line, events: int) -> float:
    """Return how many seconds it takes until so many more events were handled."""
    consumed = await line.consumed(app)
    line.goal += events
    async with app.worker(pipelines=[line.pipeline], slots=100):
        begun = time.perf_counter()
        for _ in range(-(-events // PUBLISHED)):
            line.produced.clear()
            await trigger(app, line)
            await line.produced.wait()
        while await line.consumed(app) < consumed + events:  # noqa: ASYNC110 - it is in the store
            await asyncio.sleep(0.1)
        return time.perf_counter() - begun


async def declared(app: App, setting: Setting) -> Line:
    """Return a pipeline that the engine knows."""
    line = a_line(setting)
    await app.pipelines.declare(line.pipeline)
    return line


async def compare(store: str, url: str, wanted: argparse.Namespace) -> None:
    """Print events per second of each setting, beside a bare loop."""
    print(f"{store:<10}{'':<28}{'events':>9}{'events/s':>10}{'bare':>9}{'share':>8}")
    async with App(url) as app:
        for setting in SETTINGS:
            events = wanted.events if setting.batch > 1 else wanted.single
            rate = events / await drive(app, await declared(app, setting), events)
            bare = events / await Bare(url).write(events, setting.batch)
            share = f"{rate / bare:.0%}"
            print(f"{store:<10}{setting.name:<28}{events:>9,}{rate:>10,.0f}{bare:>9,.0f}{share:>8}")


class Cost(NamedTuple):
    """What an event costs: time, CPU time of this process, and pages that Postgres reads."""

    time: float
    cpu: float
    pages: float

    def is_near(self, first: Cost) -> bool:
        """Return whether it is not much more than with few events; the time depends on others."""
        return self.cpu <= MAX_RATIO * first.cpu and self.pages <= MAX_RATIO * first.pages


async def cost(app: App, line: Line, past: Past, events: int) -> Cost:
    """Return what an event costs, the least of three times."""
    costs = []
    for _ in range(3):
        pages, cpu = await past.pages(), time.process_time()
        seconds = await drive(app, line, events)
        cpu = time.process_time() - cpu
        pages = await past.pages() - pages
        costs.append(Cost(seconds / events * 1e6, cpu / events * 1e6, pages / events))
    return Cost(*map(min, zip(*costs, strict=True)))


async def beside(store: str, url: str, most: int) -> bool:
    """Print what an event costs beside events of the past; return whether that is flat."""
    print(f"{store:<10}{'consumed before':>16}", end="")
    for each in ("100 a run", "1 a run"):
        print(f"{each + ', us':>16}{'CPU us':>9}{'pages':>8}", end="")
    print()
    first: list[Cost] = []
    is_flat = True
    async with App(url) as app:
        line = await declared(app, SETTINGS[0])
        past = Past(url)
        for size in [size for size in BESIDE if size <= most]:
            await past.fill(size)
            costs = []
            print(f"{store:<10}{size:>16,}", end="")
            for line.batch, events in ((100, 5_000), (1, 200)):
                costs.append(await cost(app, line, past, events))
                found = costs[-1]
                print(f"{found.time:>16,.0f}{found.cpu:>9,.0f}{found.pages:>8,.0f}", end="")
            print(flush=True)
            first = first or costs
            is_flat &= all(c.is_near(f) for c, f in zip(costs, first, strict=True))
    return is_flat


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--events", type=int, default=100_000)
    parser.add_argument("--single", type=int, default=2_000)
    parser.add_argument("--flat", type=int, default=0, help="measure beside up to so many events")
    parser.add_argument("--only", choices=["sqlite", "postgres"])
    wanted = parser.parse_args()
    logging.getLogger("onward").setLevel(logging.ERROR)
    is_flat = True

    def measure(store: str, url: str) -> bool:
        if wanted.flat:
            return asyncio.run(beside(store, url, wanted.flat))
        asyncio.run(compare(store, url, wanted))
        return True

    if wanted.only in (None, "sqlite"):
        with tempfile.TemporaryDirectory() as folder:
            is_flat &= measure("sqlite", str(Path(folder, "onward.db")))
    if wanted.only in (None, "postgres"):
        with PostgresServer.start() as server:
            is_flat &= measure("postgres", server.create_database())
    return 0 if is_flat else 1


if __name__ == "__main__":
    raise SystemExit(main())
