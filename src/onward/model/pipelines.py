"""Pipelines as code declares them, what their runs write, and the rows that workers read."""

from __future__ import annotations

from typing import NamedTuple

from onward.core.instant import Duration, Instant
from onward.model.schedules import ScheduleSpec

# --- declarations ---------------------------------------------------------------------------------


class TopicSpec(NamedTuple):
    """A topic; beyond `max_pending` events or `max_age` of the oldest, publishers are refused."""

    name: str
    max_pending: int | None = None
    max_age: Duration | None = None


class HandlerSpec(NamedTuple):
    """A producer or consumer. `name` is `pipeline.handler`; `start` is for a new consumer."""

    name: str
    kind: str
    subscribes: tuple[str, ...] = ()
    publishes: tuple[str, ...] = ()
    start: str = "now"
    schedule: ScheduleSpec | None = None


class PipelineSpec(NamedTuple):
    """A pipeline as code declares it."""

    name: str
    is_parallel: bool
    queue: str
    topics: tuple[TopicSpec, ...]
    handlers: tuple[HandlerSpec, ...]


# --- what runs write ------------------------------------------------------------------------------


class NewInput(NamedTuple):
    """An external thing that enters a pipeline; one that is known keeps its uid and its title."""

    uid: str
    pipeline: str
    source: str
    type: str
    external: str
    title: str


class NewEvent(NamedTuple):
    """An event for every consumer of the topic.

    `input` is the uid of an input in the same write, or of one that is known. Without it, an event
    that a consumer publishes has the inputs of the events that its run has reserved.
    """

    uid: str
    topic: str
    message: str
    payload: bytes
    key: str = ""
    input: str | None = None


class Reservation(NamedTuple):
    """An event that a preparation reserves, as it was when it was read."""

    event: str
    attempt: int


class Preparation(NamedTuple):
    """What the record `prepare` of a consumer writes: all of it, or nothing if an event is gone.

    `seen` is the handler's `published` before the preparation looked. `wake_in` replaces the wake
    time of the handler; None clears it. `origin` is what the key of the effect is made of.
    """

    reserve: tuple[Reservation, ...]
    seen: int
    wake_in: Duration | None
    origin: str


class Completion(NamedTuple):
    """What the end of a handler's run writes beside the end itself.

    The events that the run has reserved are consumed, or skipped if its effect was. `state` is
    stored if `saves_state`, and only if `state_version` is the version that the run has read.
    """

    skips: bool = False
    saves_state: bool = False
    state: bytes | None = None
    state_version: int = 0


class PipelineWrite(NamedTuple):
    """What a commit of a run adds to pipelines; `handler` is empty for a workflow's publish."""

    handler: str = ""
    key: str = ""
    prepared: Preparation | None = None
    completed: Completion | None = None
    inputs: tuple[NewInput, ...] = ()
    published: tuple[NewEvent, ...] = ()

    @property
    def may_give_work(self) -> bool:
        """Whether a handler may have work because of it: an event, a free lane, a wake time."""
        wakes = self.prepared is not None and self.prepared.wake_in is not None
        return bool(self.published) or self.completed is not None or wakes


# --- what workers read ----------------------------------------------------------------------------


class HandlerRow(NamedTuple):
    """What a run of a handler begins with."""

    state: bytes | None
    state_version: int
    published: int
    at: Instant
    """The database's time of the answer."""


class PeekedEvent(NamedTuple):
    """A pending event as one consumer sees it."""

    uid: str
    topic: str
    seq: int
    message: str
    key: str
    payload: bytes
    attempt: int
    replays: int
    created_at: Instant


class FullTopic(NamedTuple):
    """A topic that takes no more events: how many are pending, and the age of the oldest."""

    topic: str
    pending: int
    oldest: Duration
