"""Pipelines of a simulated world: letters are read from a box, sent, counted and noted.

Every run that handles events publishes one event that says which, under an id that was never there
before. So the topics are a record of what `next` has done, and how often.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, NamedTuple

import onward
from onward.core.digest import digest
from onward.core.retry import Retry
from onward.errors import NeedsApproval, Precondition, Retryable
from onward.pipelines import Applied, Consumer, Pipeline, Prepared, Topic
from onward.runtime.context import step_now
from onward.sdk.effect import effect, effect_key
from onward.sdk.pipelines import process
from onward.sdk.workflow import workflow
from tests.simulation.simulator.draw import Draw
from tests.simulation.simulator.purchases import (
    KEY_SECONDS,
    SETTLE_SECONDS,
    START_SECONDS,
    TIMEOUT_SECONDS,
    look_up,
    shop,
)
from tests.simulation.simulator.sample_workflows import outside

if TYPE_CHECKING:
    from collections.abc import Callable

    from onward.model.pipelines import PipelineSpec
    from onward.pipelines import Event, MutateContext, NextContext, PrepareContext, ProducerContext
    from onward.runtime.pipelines.definition import HandlerDefinition

LETTER_SECONDS = 6.0
"""How often a letter comes into the box."""

MAX_LETTERS = 8
PAIR = 2
KEYS = ("a", "b", "c")
PHASE_SECONDS = 1.0
WAKE_SECONDS = 30.0
TWICE = Retry(attempts=2, delay="1s")
SOON = Retry(attempts=4, delay="2s", factor=2)

LETTERS: Topic[Any] = Topic("sim.letters")
ROWS: Topic[Any] = Topic("sim.rows")
DONE: Topic[Any] = Topic("sim.done")


class PostOffice:
    """What the handlers of a world reach: their box, and what goes wrong.

    Args:
        seed: The seed of the world.
        faults: How often a phase fails.
        clears: After how many seconds nothing goes wrong any more.
    """

    def __init__(self, seed: int, faults: float, clears: float) -> None:
        self._seed = seed
        self._draw = Draw(seed, "handlers")
        self._faults = faults
        self._clears = clears
        self.looked: dict[str, set[tuple[str, int]]] = {}
        """What the last preparation of each run has found."""
        self.wakes: dict[str, bool] = {}
        """Whether the last preparation of each run wants to be woken."""

    @property
    def letters(self) -> int:
        """How many letters have come into the box."""
        return min(MAX_LETTERS, int(asyncio.get_running_loop().time() / LETTER_SECONDS))

    def meet(self, version: int, same_for: str | None = None) -> None:
        """Raise what a phase raises, or nothing; the same each time where that is asked for."""
        if asyncio.get_running_loop().time() > self._clears:
            return
        draw = self._draw if same_for is None else Draw(self._seed, same_for)
        if not draw.happens(self._faults):
            return
        faults = [Retryable("busy"), Retryable("busy", after="1s"), NeedsApproval("log in")]
        faults += [Precondition("no sheet"), ValueError("a bug")]
        fault = draw.one_of(faults)
        if version == 1 or not isinstance(fault, ValueError):
            raise fault

    def look(self, events: list[Event[Any]]) -> None:
        """Take note of what a preparation has found."""
        self.looked[_run_now()] = {(event.uid, event.attempt) for event in events}

    def wish(self, *, is_wake: bool) -> None:
        """Take note of whether a preparation wants to be woken."""
        self.wakes[_run_now()] = is_wake

    def below(self, count: int) -> int:
        """Return a number that may differ each time."""
        return self._draw.below(count)


def _run_now() -> str:
    step = step_now.get()
    assert step is not None
    return step.run.uid


_offices: list[PostOffice] = []


def office() -> PostOffice:
    """Return the post office of the world that is running; there is one at a time."""
    return _offices[-1]


def open_office(new: PostOffice) -> Callable[[], None]:
    """Let handlers reach this post office, until what is returned is called."""
    _offices.append(new)
    return lambda: _offices.remove(new)


# --- effects --------------------------------------------------------------------------------------


def _windows() -> dict[str, Any]:
    windows = {"timeout": TIMEOUT_SECONDS, "settle": SETTLE_SECONDS, "start_within": START_SECONDS}
    return {"retry": TWICE, **windows}


@effect(name="simulated stamp", reconcile=look_up, **_windows())
async def stamp(what: str) -> str:
    """Be looked up when it is uncertain."""
    return await shop().send(what, effect_key())


@effect(name="simulated mail", **_windows())
async def mail(what: str) -> str:
    """Wait for an operator when it is uncertain."""
    return await shop().send(what, effect_key())


@effect(name="simulated bell", idempotency_window=KEY_SECONDS, **_windows())
async def bell(what: str) -> str:
    """Be sent again when it is uncertain, as long as the shop knows its key."""
    return await shop().send(what, effect_key(), honours=True)


@effect(name="simulated parcel", approve=True, reconcile=look_up, **_windows())
async def parcel(what: str) -> str:
    """Wait for an operator before it is sent."""
    return await shop().send(what, effect_key())


EFFECTS = (stamp, stamp, mail, bell, parcel)


# --- handlers -------------------------------------------------------------------------------------


Said = dict[str, Any]


class _Handler(Consumer[int, Said]):
    """A consumer that reserves events, and publishes which it has handled."""

    version = 1
    reads: Topic[Any] = LETTERS
    writes: Topic[Any] = ROWS

    async def prepare(self, ctx: PrepareContext, state: int | None) -> Prepared[Said]:
        outside().begin()
        await outside().take_time(PHASE_SECONDS)
        office().meet(self.version)
        events = await ctx.peek(self.reads, limit=10)
        office().look(events)
        await outside().take_time(PHASE_SECONDS)
        taken, wake = self.choose(ctx, events)
        office().wish(is_wake=wake is not None)
        held = [[event.uid, event.replays] for event in taken]
        said = {"by": ctx.handler, "key": ctx.key, "events": held, "state": state or 0}
        return Prepared(taken, said, f"{len(taken)} events", wake_at=wake)

    def choose(
        self, ctx: PrepareContext, events: list[Event[Any]]
    ) -> tuple[list[Event[Any]], str | None]:
        """Return what to reserve, and when to be woken."""
        return events[: 1 + office().below(3)], None

    async def next(self, ctx: NextContext, prepared: Prepared[Said], outcome: Any) -> int | None:
        outside().begin()
        await outside().take_time(PHASE_SECONDS)
        office().meet(self.version)
        if not prepared.reserve:
            return None
        how = outcome.result if isinstance(outcome, Applied) else type(outcome).__name__
        said = {**prepared.data, "outcome": how}
        key = KEYS[office().below(len(KEYS))]
        ctx.publish(self.writes, said, id=outside().token(), key=key)
        return int(prepared.data["state"]) + 1


class _Sender(_Handler):
    """A consumer that changes what is outside."""

    async def mutate(self, ctx: MutateContext, prepared: Prepared[Said]) -> None:
        said = ",".join(f"{event.uid}:{event.replays}" for event in prepared.reserve)
        attempts = ",".join(str(event.attempt) for event in prepared.reserve)
        office().meet(self.version, f"mutate {ctx.handler} {said} {attempts}")
        lot = int(digest("lot", said), 16)
        if lot % 7 == 0:
            return
        await EFFECTS[lot % len(EFFECTS)](f"{ctx.handler}|{said}")


class _Pairs(_Handler):
    """A consumer that waits for a second event, however long that takes."""

    def choose(
        self, ctx: PrepareContext, events: list[Event[Any]]
    ) -> tuple[list[Event[Any]], str | None]:
        """Return two events, or none."""
        return (events[:PAIR] if len(events) >= PAIR else []), None


class _Note(_Handler):
    """A consumer that waits for a second event, but not for ever."""

    reads = ROWS
    writes = DONE

    def choose(
        self, ctx: PrepareContext, events: list[Event[Any]]
    ) -> tuple[list[Event[Any]], str | None]:
        """Return several events, or one that has waited long enough."""
        if len(events) >= PAIR:
            return events, None
        waited = [(ctx.now - event.published_at).total_seconds() for event in events]
        if waited and waited[0] >= WAKE_SECONDS:
            return events, None
        return [], "1s" if events else None


class Served(NamedTuple):
    """What workers of one version serve."""

    handlers: tuple[HandlerDefinition, ...]
    specs: tuple[PipelineSpec, ...]


SERIAL, PARALLEL = "sim-mail", "sim-rooms"
POLL = f"{SERIAL}.poll"
PAIRS = f"{SERIAL}.Pairs"
PIPELINES = (SERIAL, PARALLEL)


def _made(version: int) -> Served:
    mails, rooms = Pipeline(SERIAL), Pipeline(PARALLEL, parallel=True)
    mails.topics += [LETTERS, ROWS, DONE]

    @mails.producer(every="7s", publishes=[LETTERS], retry=SOON)
    async def poll(ctx: ProducerContext, state: int | None) -> int:
        outside().begin()
        await outside().take_time(PHASE_SECONDS)
        office().meet(version)
        last = office().letters
        for number in range(state or 0, last):
            source = ctx.input(source="box", type="letter", id=str(number), title=f"No. {number}")
            key = KEYS[number % len(KEYS)]
            said = {"by": POLL, "n": number}
            ctx.publish(LETTERS, said, id=outside().token(), key=key, input=source)
        return last

    def add(pipeline: Pipeline, name: str, kind: type[_Handler], start: str = "now") -> None:
        own = type(name, (kind,), {"version": version, "__module__": __name__})
        options: dict[str, Any] = {"name": name, "start": start, "retry": SOON}
        pipeline.consumer(subscribes=[kind.reads], publishes=[kind.writes], **options)(own)

    add(mails, "Book", _Sender)
    add(mails, "Pairs", _Pairs)
    add(mails, "Note", _Note)
    add(rooms, "Send", _Sender)
    if version == 1:
        add(rooms, "Old", _Handler)
    else:
        add(rooms, "Late", _Sender, "earliest")
    for each in (mails, rooms):
        process.registered.remove(each)  # no worker outside of a simulated world serves it
    handlers = tuple(each.definition for made in (mails, rooms) for each in made.handlers)
    return Served(handlers, (mails.spec, rooms.spec))


VERSIONS = {version: _made(version) for version in (1, 2)}
"""What is served before and after a deploy."""


@workflow(name="simulated publisher")
async def publisher(name: str) -> None:
    """Publish two letters."""
    for number in range(2):
        said = {"by": "workflow", "n": number}
        await onward.publish(LETTERS, said, id=f"{name} {number}", key=KEYS[number])
