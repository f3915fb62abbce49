"""A pipeline for tests: letters are read from a box, written into a book, and counted."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING, Any

from onward import effect, effect_key
from onward.pipelines import Consumer, Pipeline, Prepared
from onward.testing.clock import VirtualLoop
from onward.testing.outside import Outside
from tests.kit.watching import PATIENCE_SECONDS, until

if TYPE_CHECKING:
    from onward import App, Retry, RunInfo
    from onward.pipelines import (
        Event,
        MutateContext,
        NextContext,
        Outcome,
        PrepareContext,
        ProducerContext,
        Topic,
    )

numbers = count(1)


@dataclass
class Post:
    """The parts of one pipeline, and what its handlers have seen."""

    pipeline: Pipeline
    letters: Topic[str]
    rows: Topic[str]
    book: Outside
    box: list[str] = field(default_factory=list)
    outcomes: list[Any] = field(default_factory=list)
    prepared: list[list[str]] = field(default_factory=list)
    counted: list[str] = field(default_factory=list)
    faults: dict[str, list[Any]] = field(default_factory=dict)
    """What a phase raises, or does, one after the other, by its name."""
    addition: str = ""
    """What is added to the first of the texts that are written."""

    def befall(self, phase: str, *faults: Any) -> None:
        """Let a phase raise these, one each time that it runs."""
        self.faults.setdefault(phase, []).extend(faults)

    async def meet(self, phase: str) -> None:
        """Raise what is planned for a phase, or do it."""
        planned = self.faults.get(phase)
        fault = planned.pop(0) if planned else None
        if isinstance(fault, BaseException):
            raise fault
        if fault is not None:
            await fault()

    @property
    def name(self) -> str:
        return self.pipeline.name

    def handler(self, name: str) -> str:
        """Return the full name of a handler."""
        return f"{self.name}.{name}"


def post(
    *, parallel: bool = False, limit: int = 1, approve: bool = False, retry: Retry | None = None
) -> Post:
    """Return a pipeline of three handlers, under a name of its own."""
    pipeline = Pipeline(f"post-{next(numbers)}", parallel=parallel)
    letters = pipeline.topic(f"{pipeline.name}.letters", str)
    rows = pipeline.topic(f"{pipeline.name}.rows", str)
    book = Outside()
    made = Post(pipeline, letters, rows, book)

    @effect(
        name=f"{pipeline.name}.write",
        reconcile=book.find,
        approve=approve,
        timeout="50ms",
        settle="0s",
        start_within="1s",
    )
    async def write(line: str) -> str:
        answer: str = await book.call(line, key=effect_key())
        return answer

    @pipeline.producer(every="1h", publishes=[letters])
    async def read(ctx: ProducerContext, cursor: int | None) -> int:
        await made.meet("produce")
        start = cursor or 0
        for number, text in enumerate(made.box[start:], start):
            source = ctx.input(source="box", type="letter", id=str(number), title=f"Letter {text}")
            ctx.publish(letters, text, id=f"letter-{number}", key=text[:1], input=source)
        return len(made.box)

    @pipeline.consumer(subscribes=[letters], publishes=[rows], retry=retry)
    class Book(Consumer[int, list[str]]):
        async def prepare(self, ctx: PrepareContext, state: int | None) -> Prepared[list[str]]:
            await made.meet("prepare")
            events: list[Event[str]] = await ctx.peek(letters, limit=limit)
            if not events:
                return Prepared()
            texts = [event.payload for event in events]
            texts[0] += made.addition
            made.prepared.append(texts)
            return Prepared(reserve=events, data=texts, title=f"Write {', '.join(texts)}")

        async def mutate(self, ctx: MutateContext, prepared: Prepared[list[str]]) -> None:
            await made.meet("mutate")
            await write(" ".join(prepared.data))
            raise AssertionError("nothing runs after the effect")

        async def next(
            self, ctx: NextContext, prepared: Prepared[list[str]], outcome: Outcome
        ) -> int | None:
            await made.meet("next")
            made.outcomes.append(outcome)
            for event in prepared.reserve:
                ctx.publish(rows, f"row of {event.id}", id=event.id)
            return len(made.outcomes) if prepared.reserve else None

    _count(made)
    return made


def _count(made: Post) -> None:
    """Add a consumer that counts the rows of the book."""
    rows = made.rows

    @made.pipeline.consumer(subscribes=[rows])
    class Count(Consumer[int, None]):
        async def prepare(self, ctx: PrepareContext, state: int | None) -> Prepared[None]:
            events = await ctx.peek(rows, limit=10)
            made.counted += [event.payload for event in events]
            return Prepared(reserve=events)


async def counts(app: App, topic: Topic[Any], handler: str) -> dict[str, int]:
    """Return how many events of a topic a consumer has in each state."""
    return (await app.topics.counts(topic))[handler]


async def until_counts(app: App, topic: Topic[Any], handler: str, **wanted: int) -> dict[str, int]:
    """Wait until a consumer has so many events in these states; in virtual time, for a day."""
    found: dict[str, int] = {}

    async def is_reached() -> bool:
        found.update(await counts(app, topic, handler))
        return all(found[state] == number for state, number in wanted.items())

    await until(is_reached, *_patience())
    return found


def _patience() -> tuple[float, float]:
    """Return how long to wait for something, and how often to look."""
    is_virtual = isinstance(asyncio.get_running_loop(), VirtualLoop)
    return (86_400, 1) if is_virtual else (PATIENCE_SECONDS, 0.005)


async def runs_of(app: App, handler: str, kind: str = "consumer") -> list[RunInfo]:
    """Return the runs of a handler, the oldest first."""
    found = await app.runs(name=f"{kind} {handler}", limit=1000)
    return sorted(found, key=lambda run: (run.created_at, run.attempt))


async def until_run(app: App, handler: str, *states: str, kind: str = "consumer") -> RunInfo:
    """Wait until the newest run of a handler is in one of these states, and return it."""
    found: list[RunInfo] = []

    async def is_there() -> bool:
        found[:] = (await runs_of(app, handler, kind))[-1:]
        return bool(found) and found[0].state in states

    await until(is_there)
    return found[0]
