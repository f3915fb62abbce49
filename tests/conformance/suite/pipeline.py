"""A small pipeline for tests: a topic with two consumers, whose runs a test drives by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from onward.core.effect import consumer_origin
from onward.model.pipelines import (
    Completion,
    HandlerSpec,
    NewEvent,
    PipelineSpec,
    PipelineWrite,
    Preparation,
    Reservation,
    TopicSpec,
)
from onward.model.records import NewRecord
from onward.model.runs import Move
from onward.store import Attachments
from onward.store.pipelines import reading
from onward.store.pipelines.declaring import declare as declare_pipeline
from onward.store.pipelines.launching import launch
from onward.store.pipelines.publishing import publish as publish_events

if TYPE_CHECKING:
    from collections.abc import Sequence

    from onward.core.instant import Duration, Instant
    from onward.model.effects import EffectWrite
    from onward.model.pipelines import NewInput, PeekedEvent
    from onward.model.runs import ClaimedRun
    from onward.store import CommitOutcome, Store
    from tests.conformance.suite.worker import Worker
    from tests.conformance.suite.world import World

TOPIC, ROWS = "mail.received", "rows.added"
ADD, LOG, POLL = "mail.AddRow", "mail.Log", "mail.poll"
HANDLERS = (ADD, LOG, POLL)
NAMES = (*(f"consumer {name}" for name in (ADD, LOG)), f"producer {POLL}")
SUCCEEDED = Move("succeeded", result=b"j42")


class Delivery(NamedTuple):
    """An event as one handler sees it."""

    event: str
    state: str
    run: str | None
    attempt: int


class Handler(NamedTuple):
    """A handler, or one key of it, as its row stands."""

    state: bytes | None
    version: int
    published: int
    seen: int
    wake_at: Instant | None
    blocked_by: str | None
    blocked_code: str | None
    failures: int


def consumer(name: str, *topics: str, start: str = "now") -> HandlerSpec:
    """Return a consumer that subscribes to topics and may publish rows."""
    return HandlerSpec(name, "consumer", topics or (TOPIC,), (ROWS,), start)


def a_pipeline(*handlers: HandlerSpec, parallel: bool = False) -> PipelineSpec:
    """Return a pipeline with these handlers."""
    topics = (TopicSpec(TOPIC), TopicSpec(ROWS))
    return PipelineSpec("mail", parallel, "default", topics, handlers)


async def declare(store: Store, *handlers: str, parallel: bool = False) -> None:
    """Declare the pipeline with these consumers of the topic."""
    spec = a_pipeline(*map(consumer, handlers or (ADD,)), parallel=parallel)
    await declare_pipeline(store, spec)


def an_event(message: str, topic: str = TOPIC, key: str = "") -> NewEvent:
    """Return an event; its uid follows from its message id."""
    return NewEvent(f"event-{message}", topic, message, b"j{}", key)


async def publish(
    store: Store, *messages: str, topic: str = TOPIC, key: str = "", inputs: Sequence[NewInput] = ()
) -> None:
    """Publish events of these message ids, each because of all that is given first of inputs."""
    cause = inputs[0].uid if inputs else None
    events = [an_event(each, topic, key)._replace(input=cause) for each in messages]
    await store.write(lambda tx: publish_events(tx, events, inputs, None))


async def launched(worker: Worker, *handlers: str, limit: int = 10) -> list[ClaimedRun]:
    """Start and claim the runs that handlers have work for."""
    await launch(worker.store, handlers or HANDLERS, ["default"], limit)
    return await worker.claim(limit, names=NAMES)


async def peeked(
    store: Store, handler: str = ADD, key: str = "", limit: int = 100, topic: str = TOPIC
) -> list[PeekedEvent]:
    """Return the events that are pending for a handler."""
    return await store.read(lambda tx: reading.peek(tx, handler, key, topic, limit))


def a_step(run: ClaimedRun, name: str, seq: int | None, state: str = "succeeded") -> NewRecord:
    """Return the record of a phase of a handler's run."""
    return NewRecord(run.uid, f"{name}#1", 1, seq, "step", name, state, "args", payload=b"j1")


def an_effect_record(run: ClaimedRun, seq: int | None = 2) -> NewRecord:
    """Return the record of the effect of a consumer's run."""
    state = "open" if seq is None else "succeeded"
    return NewRecord(run.uid, "charge#1", 1, seq, "effect", "charge", state, "args")


def preparation(
    run: ClaimedRun,
    *reserved: PeekedEvent,
    wake_in: Duration | None = None,
    seen: int = 0,
) -> Attachments:
    """Return what a preparation writes that reserves these events."""
    assert run.handler is not None
    origin = consumer_origin(
        run.handler, run.handler_key, [(each.uid, each.replays) for each in reserved]
    )
    reserve = tuple(Reservation(each.uid, each.attempt) for each in reserved)
    prepared = Preparation(reserve, seen, wake_in, origin)
    return Attachments(pipeline=PipelineWrite(run.handler, run.handler_key, prepared=prepared))


async def prepare(
    worker: Worker, run: ClaimedRun, *messages: str, wake_in: Duration | None = None, seen: int = 0
) -> CommitOutcome:
    """Commit a preparation that reserves those of the pending events that have these ids."""
    assert run.handler is not None
    found = await peeked(worker.store, run.handler, run.handler_key)
    reserved = [each for each in found if each.message in messages]
    assert len(reserved) == len(messages)
    attached = preparation(run, *reserved, wake_in=wake_in, seen=seen)
    return await worker.commit(run, a_step(run, "prepare", 1), attached=attached)


async def prepared(worker: Worker, *messages: str, handler: str = ADD) -> ClaimedRun:
    """Return a run of a consumer that has reserved these events."""
    [run] = await launched(worker, handler)
    outcome = await prepare(worker, run, *messages)
    assert outcome.fate == "done"
    return run


def completion(
    run: ClaimedRun,
    *published: NewEvent,
    done: Completion | None = None,
    effects: tuple[EffectWrite, ...] = (),
) -> Attachments:
    """Return what the end of a handler's run writes."""
    assert run.handler is not None
    write = PipelineWrite(
        run.handler, run.handler_key, completed=done or Completion(), published=published
    )
    return Attachments(effects=effects, pipeline=write)


async def complete(
    worker: Worker,
    run: ClaimedRun,
    *published: NewEvent,
    done: Completion | None = None,
    seq: int = 2,
    move: Move = SUCCEEDED,
) -> CommitOutcome:
    """Commit the end of a run that has succeeded."""
    attached = completion(run, *published, done=done)
    move = move._replace(seq=seq, phase="committed")
    return await worker.commit(run, a_step(run, "next", seq), move=move, attached=attached)


async def deliveries(world: World, handler: str = ADD) -> list[Delivery]:
    """Return all deliveries of a handler, in the order of their topics."""
    rows = await world.sql(
        "SELECT event, state, run, attempt FROM onward_delivery"
        f" WHERE handler = '{handler}' ORDER BY topic, seq"
    )
    return [Delivery(*row) for row in rows]


async def kept(world: World, handler: str = ADD, key: str = "") -> Handler:
    """Return the row of a handler."""
    [row] = await world.sql(
        "SELECT state, state_version, published, seen, wake_at, blocked_by, blocked_code, failures"
        f" FROM onward_handler WHERE handler = '{handler}' AND key = '{key}'"
    )
    state = None if row[0] is None else bytes(row[0])
    return Handler(state, *list(row)[1:])
