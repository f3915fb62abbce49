"""Pipelines, topics, events and inputs as users see them."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta

from onward.engine.effect_views import EffectInfo
from onward.engine.redaction import PayloadText, PayloadValue


@dataclass(frozen=True, slots=True)
class HandlerInfo:
    """A producer or consumer, or one key of a consumer in a parallel pipeline.

    Attributes:
        name: Its name, including the pipeline, such as `mail-to-sheet.AddRow`.
        kind: producer or consumer.
        key: The key of its events; empty in a serial pipeline.
        subscribes: The topics that it reads.
        publishes: The topics that it may publish to.
        state: idle, due (it has work), running, blocked, or paused (the pipeline or its open run
            is paused).
        run: The id of its open run, or of the run that blocks it.
        why: What blocks or pauses it.
        next: What to do to unblock or resume it.
        failures: How many times it has failed since it last succeeded.
        wake_at: When it next runs, even if no event arrives.
        pending: How many events are waiting for it, up to 10,000.
        is_removed: Whether it is missing from the newest declaration.
    """

    name: str
    kind: str
    key: str
    subscribes: tuple[str, ...]
    publishes: tuple[str, ...]
    state: str
    run: str | None
    why: str
    next: str
    failures: int
    wake_at: datetime | None
    pending: int
    is_removed: bool


@dataclass(frozen=True, slots=True)
class PipelineInfo:
    """A pipeline, as declared in code.

    Attributes:
        name: Its name.
        is_parallel: Whether consumers handle events with different keys in parallel.
        queue: The queue of its runs.
        state: active, paused, or blocked (a run has failed or is paused, so an operator or new code
            is needed).
        topics: The topics that it declares.
        handlers: Its producers and consumers.
        updated_at: When its declaration last changed, or when it was last paused or resumed.
    """

    name: str
    is_parallel: bool
    queue: str
    state: str
    topics: tuple[str, ...]
    handlers: tuple[HandlerInfo, ...]
    updated_at: datetime


@dataclass(frozen=True, slots=True)
class TopicInfo:
    """A topic: its limits, and the number of events in each state for each consumer."""

    name: str
    pipeline: str
    published: int
    max_pending: int | None
    max_age: timedelta | None
    counts: dict[str, dict[str, int]]


@dataclass(frozen=True, slots=True)
class DeliveryInfo:
    """An event as one consumer sees it.

    Attributes:
        consumer: The consumer.
        state: pending, reserved, consumed or skipped.
        run: The id of the run that reserved it.
        attempt: A number that increases each time the event becomes pending again.
        releases: How many times a failed run has made it pending again.
        reason: Why it was skipped.
        updated_at: When the state last changed.
    """

    consumer: str
    state: str
    run: str | None
    attempt: int
    releases: int
    reason: PayloadText | None
    updated_at: datetime


@dataclass(frozen=True, slots=True)
class EventInfo:
    """An event of a topic.

    Attributes:
        id: The id that its publisher gave it.
        topic: Its topic.
        key: Its key.
        payload: Its payload, as plain JSON values.
        run: The id of the run that published it, or None.
        published_at: When it was published.
        deliveries: How each consumer of the topic has handled it.
    """

    id: str
    topic: str
    key: str
    payload: PayloadValue
    run: str | None
    published_at: datetime
    deliveries: tuple[DeliveryInfo, ...] = ()


@dataclass(frozen=True, slots=True)
class InputInfo:
    """An external item that entered a pipeline.

    Attributes:
        id: The id to pass to `get` and `skip`.
        pipeline: The pipeline that it entered.
        source: Where it comes from, such as `gmail`.
        type: What it is, such as `email`.
        external_id: Its id at the source.
        title: A human-readable title.
        state: pending, done or skipped.
        is_stale: Whether it has been pending for too long.
        created_at: When it was registered.
    """

    id: str
    pipeline: str
    source: str
    type: str
    external_id: str
    title: PayloadText
    state: str
    is_stale: bool
    created_at: datetime


@dataclass(frozen=True, slots=True)
class InputReport:
    """Everything that an input has caused: events, and the effects of the runs that handled them.

    Attributes:
        input: The input.
        events: The events that it has caused, and how each consumer has handled them.
        effects: The effects of the runs that reserved the events. In each effect, `title` is what
            the code declared, and `arguments` is what was sent.
        notes: What skipping the input did not undo.
        inputs: For each effect id, the ids of all inputs that caused the effect. The effect of a
            run that handles a batch of events can have several inputs.
    """

    input: InputInfo
    events: tuple[EventInfo, ...]
    effects: tuple[EffectInfo, ...]
    notes: tuple[PayloadText, ...] = ()
    inputs: dict[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class InputCounts:
    """How many inputs of one kind are in each state."""

    pipeline: str
    source: str
    type: str
    pending: int
    done: int
    skipped: int
    stale: int


@dataclass(frozen=True, slots=True)
class SkippedInput:
    """The result of skipping an input: what happened to its events.

    Attributes:
        skipped: The number of pending events that were skipped.
        cancelled: The runs that had reserved events of the input, had not sent their effect, and
            were cancelled.
        completing: The runs that had already sent their effect, and will complete.
        done: The number of events that were already consumed.
    """

    skipped: int
    cancelled: tuple[str, ...] = field(default=())
    completing: tuple[str, ...] = field(default=())
    done: int = 0
