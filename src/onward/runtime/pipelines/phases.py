"""The phases of handlers, as steps that the engine writes: what they store, and what they write."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from onward.codec import Payload, decode, encode
from onward.codec.payload import JSON
from onward.core.delivery import NEXT, PREPARE
from onward.core.effect import consumer_origin
from onward.core.handler import clamp_wake
from onward.core.instant import SECOND, duration, show
from onward.core.retry import Retry
from onward.engine.display import shown_time
from onward.engine.payloads import pack, unpack
from onward.errors import BadInput, TopicFull
from onward.errors.root import count_text
from onward.model.pipelines import Completion, PipelineWrite, Preparation, Reservation
from onward.runtime.body.calls import StepCall
from onward.runtime.definition import StepDefinition
from onward.runtime.pipelines.contexts import NextContext, PrepareContext, ProducerContext
from onward.runtime.pipelines.values import MISSING, Event, Prepared, Skipped
from onward.telemetry.events import emit

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from onward.core.instant import Duration, Instant
    from onward.model.pipelines import HandlerRow
    from onward.runtime.pipelines.contexts import _Publishing
    from onward.runtime.pipelines.definition import ConsumerDefinition, ProducerDefinition
    from onward.runtime.pipelines.ports import HandlerReads
    from onward.runtime.pipelines.values import Outcome

PRODUCE = "produce"
MAX_RESERVED = 1_000
"""How many events one run may reserve."""
MAX_TITLE = 500

_ONCE = Retry(attempts=1)
_EPOCH = shown_time(0)


class PhaseResult(NamedTuple):
    """What a phase returns: what its record stores, and what is written with it."""

    payload: Payload
    write: PipelineWrite


class StoredEvent(msgspec.Struct, array_like=True, frozen=True):
    """A reserved event in the record of a preparation."""

    uid: str
    id: str
    topic: str
    key: str
    attempt: int
    replays: int
    published_at: int


class StoredPreparation(msgspec.Struct, frozen=True, omit_defaults=True):
    """The record `prepare`: what the later phases need.

    `asked` is how long from then the code asked to be woken, `wakes` how long it is.
    """

    events: list[StoredEvent]
    data: msgspec.Raw
    title: str = ""
    version: int = 0
    asked: int | None = None
    wakes: int | None = None

    def origin(self, handler: str, key: str) -> str:
        """Return what the key of the effect is made of."""
        return consumer_origin(handler, key, ((each.uid, each.replays) for each in self.events))

    def prepared(self, annotation: Any) -> Prepared[Any]:
        """Return it as later phases get it."""
        data = decode(Payload(JSON, bytes(self.data)), annotation)
        events = [
            Event(
                each.id,
                each.topic,
                MISSING,
                key=each.key,
                attempt=each.attempt,
                published_at=shown_time(each.published_at),
                uid=each.uid,
                replays=each.replays,
            )
            for each in self.events
        ]
        return Prepared(events, data, self.title)


class PhaseShape:
    """Stores the result of a phase; the body gets it decoded."""

    returns = ""

    def encode_result(self, value: object) -> Payload:
        assert isinstance(value, PhaseResult)
        return value.payload

    def decode_result(self, payload: Payload) -> StoredPreparation | None:
        return msgspec.json.decode(payload.data, type=StoredPreparation | None)


_SHAPE: Any = PhaseShape()


class PhaseCall(StepCall):
    """A phase of a handler."""

    def __init__(
        self,
        name: str,
        work: Callable[[], Coroutine[Any, Any, PhaseResult]],
        timeout: Duration | None,
    ) -> None:
        definition = StepDefinition(
            name, work, _SHAPE, is_async=True, retry=_ONCE, timeout=timeout, compare=False
        )
        super().__init__(definition, "", ((), {}))
        self.args_hash = None

    @property
    def ends_run(self) -> bool:
        """Whether the run ends in the commit that records the phase."""
        return self.name != PREPARE


# --- prepare --------------------------------------------------------------------------------------


def prepare_call(definition: ConsumerDefinition, key: str, reads: HandlerReads) -> PhaseCall:
    """Return the call of `prepare`, whose commit reserves the events."""

    async def prepare() -> PhaseResult:
        row = await reads.handler(definition.name, key)
        state = _state(row, definition.state)
        ctx = PrepareContext(definition, key, reads, row.at)
        prepared = await definition.prepare(ctx, state)
        stored = stored_preparation(definition, prepared, row)
        reserve = tuple(Reservation(event.uid, event.attempt) for event in stored.events)
        origin = stored.origin(definition.name, key)
        made = Preparation(reserve, row.published, stored.wakes, origin)
        write = PipelineWrite(definition.name, key, prepared=made)
        return PhaseResult(Payload(JSON, msgspec.json.encode(stored)), write)

    return PhaseCall(PREPARE, prepare, definition.timeout)


def _state(row: HandlerRow, annotation: Any) -> Any:
    return None if row.state is None else decode(unpack(row.state), annotation)


def stored_preparation(
    definition: ConsumerDefinition, prepared: Any, row: HandlerRow
) -> StoredPreparation:
    """Return what the record `prepare` stores.

    Raises:
        BadInput: it is no preparation, or its events cannot be reserved.
        Unencodable: its data does not fit the annotation.
    """
    if not isinstance(prepared, Prepared):
        raise BadInput(
            f"{definition.name}.prepare",
            f"returned {type(prepared).__name__} instead of Prepared",
            "Return Prepared(...), or Prepared() if there is nothing to do.",
        )
    events = [_reserved(definition, event) for event in prepared.reserve]
    if len({event.uid for event in events}) < len(events):
        raise BadInput(f"{definition.name}.prepare", "reserved an event twice", "Reserve it once")
    if len(events) > MAX_RESERVED:
        raise BadInput(
            f"{definition.name}.prepare",
            f"reserved {len(events):,} events, but one run may reserve at most {MAX_RESERVED:,}",
            "Reserve fewer: the consumer runs again for the rest.",
        )
    data = encode(prepared.data, path="data", annotation=definition.data)
    asked = _wake_in(definition, prepared.wake_at, row.at)
    wakes = None
    if asked is not None:
        wakes = clamp_wake(asked, shortest=definition.min_wake, longest=definition.max_wake)
        if wakes != asked:
            emit(
                "handler.wake_clamped",
                handler=definition.name,
                asked_seconds=asked / SECOND,
                wake_seconds=wakes / SECOND,
            )
    title = str(prepared.title)[:MAX_TITLE]
    return StoredPreparation(events, msgspec.Raw(data.data), title, row.state_version, asked, wakes)


def _reserved(definition: ConsumerDefinition, event: Any) -> StoredEvent:
    if not isinstance(event, Event) or not event.uid:
        raise BadInput(
            f"{definition.name}.prepare",
            f"reserved {event!r}, which did not come from peek() or get()",
            "Reserve the events that ctx.peek(...) returned.",
        )
    published = (event.published_at - _EPOCH) // timedelta(microseconds=1)
    return StoredEvent(
        event.uid, event.id, event.topic, event.key, event.attempt, event.replays, published
    )


def _wake_in(definition: ConsumerDefinition, wake_at: Any, now: Instant) -> Duration | None:
    if wake_at is None:
        return None
    if not isinstance(wake_at, datetime):
        return duration(wake_at)
    if wake_at.tzinfo is None:
        raise BadInput(
            f"wake_at={wake_at.isoformat()} of {definition.name}",
            "has no time zone",
            "Add a time zone.",
        )
    return (wake_at - _EPOCH) // timedelta(microseconds=1) - now


# --- next, and producers --------------------------------------------------------------------------


def next_call(
    definition: ConsumerDefinition,
    key: str,
    reads: HandlerReads,
    stored: StoredPreparation,
    outcome: Outcome,
) -> PhaseCall:
    """Return the call of `next`, whose commit consumes the events and ends the run."""

    async def go_on() -> PhaseResult:
        ctx = NextContext(definition, key, reads)
        state = None
        if definition.next is not None:
            state = await definition.next(ctx, stored.prepared(definition.data), outcome)
        done = Completion(
            skips=isinstance(outcome, Skipped),
            saves_state=state is not None,
            state=_encoded(state, definition.state),
            state_version=stored.version,
        )
        return await _finished(ctx, done, reads)

    return PhaseCall(NEXT, go_on, definition.timeout)


def produce_call(definition: ProducerDefinition, key: str, reads: HandlerReads) -> PhaseCall:
    """Return the call of a producer, whose commit publishes and ends the run."""

    async def produce() -> PhaseResult:
        row = await reads.handler(definition.name, key)
        ctx = ProducerContext(definition, key, reads)
        state = await definition.fn(ctx, _state(row, definition.state))
        done = Completion(
            saves_state=state is not None,
            state=_encoded(state, definition.state),
            state_version=row.state_version,
        )
        return await _finished(ctx, done, reads)

    return PhaseCall(PRODUCE, produce, definition.timeout)


def _encoded(state: Any, annotation: Any) -> bytes | None:
    return None if state is None else pack(encode(state, path="state", annotation=annotation))


async def _finished(ctx: _Publishing, done: Completion, reads: HandlerReads) -> PhaseResult:
    limited = {event.topic for event in ctx.published}
    for full in await reads.full_topics(sorted(limited)) if limited else ():
        age = show(full.oldest // SECOND * SECOND)
        waiting = count_text(full.pending, "pending event")
        fact = f"it has {waiting}, and the oldest has been pending for {age}"
        raise TopicFull(full.topic, fact)
    inputs, published = tuple(ctx.inputs.values()), tuple(ctx.published)
    write = PipelineWrite(ctx.handler, ctx.key, None, done, inputs, published)
    return PhaseResult(encode(None), write)
