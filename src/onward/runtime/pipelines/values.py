"""What handlers of pipelines are given and return: topics, events, preparations and outcomes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar, overload

from onward.codec import check_id, decode, encode
from onward.core.instant import duration
from onward.engine.payloads import pack, unpack
from onward.errors import BadInput
from onward.model.pipelines import TopicSpec
from onward.runtime.body.effects import Applied

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime, timedelta

    from onward.core.instant import DurationLike

T = TypeVar("T")

MISSING: Any = object()
"""Stands for a payload that a later phase does not have."""


class Topic(Generic[T]):
    """A named stream of events, with the type of their payloads.

    Args:
        name: The name of the topic. In all pipelines of a namespace, the same name means the same
            topic.
        type: The type of the payloads; by default any plain data.
        max_pending: The topic is full when this many events are pending for one consumer.
        max_age: The topic is full when the oldest pending event is older than this.

    Example:
        >>> from onward.pipelines import Topic
        >>> Topic("mail.received", dict[str, str]).name
        'mail.received'
    """

    @overload
    def __init__(
        self,
        name: str,
        type: type[T],
        *,
        max_pending: int | None = None,
        max_age: DurationLike | None = None,
    ) -> None: ...
    @overload
    def __init__(
        self: Topic[Any],
        name: str,
        type: object = ...,
        *,
        max_pending: int | None = None,
        max_age: DurationLike | None = None,
    ) -> None: ...
    def __init__(
        self,
        name: str,
        type: Any = Any,  # noqa: A002 - it is the user's word
        *,
        max_pending: int | None = None,
        max_age: DurationLike | None = None,
    ) -> None:
        self.name = check_id(name, "the name of a topic")
        self.type = type
        if max_pending is not None and max_pending < 1:
            raise BadInput(f"max_pending={max_pending}", "is less than 1", "Use 1 or more.")
        self.max_pending = max_pending
        self.max_age = None if max_age is None else duration(max_age)

    @property
    def spec(self) -> TopicSpec:
        """What the engine must know of it."""
        return TopicSpec(self.name, self.max_pending, self.max_age)

    def encode(self, payload: T) -> bytes:
        """Return a payload as it is stored."""
        return pack(encode(payload, path="payload", annotation=self.type))

    def decode(self, payload: bytes) -> T:
        """Return a payload that was stored."""
        value: T = decode(unpack(payload), self.type)
        return value

    def __repr__(self) -> str:
        return f"<topic {self.name}>"


class Event(Generic[T]):
    """An event of a topic, as one consumer sees it.

    Attributes:
        id: The id that its publisher gave it.
        topic: The name of its topic.
        key: Its key, or "".
        attempt: How many times the consumer has received it, including this time.
        published_at: When it was published.
    """

    __slots__ = ("_payload", "attempt", "id", "key", "published_at", "replays", "topic", "uid")

    def __init__(  # noqa: PLR0913 - an event has as many parts
        self,
        id: str,  # noqa: A002 - it is the user's word
        topic: str,
        payload: T,
        *,
        key: str = "",
        attempt: int = 1,
        published_at: datetime,
        uid: str = "",
        replays: int = 0,
    ) -> None:
        self.id, self.topic, self._payload, self.key = id, topic, payload, key
        self.attempt, self.published_at = attempt, published_at
        self.uid, self.replays = uid, replays

    @property
    def payload(self) -> T:
        """Its payload, available only in `prepare`.

        To pass data on to later phases, use the `data` of `Prepared`.

        Raises:
            BadInput: the payload was accessed in a later phase.
        """
        if self._payload is MISSING:
            raise BadInput(
                f"the payload of event {self.id!r}",
                "is available only in prepare",
                "Use Prepared(data=...) to pass on what mutate and next need",
            )
        return self._payload

    def __repr__(self) -> str:
        return f"<event {self.id!r} of {self.topic}>"


D = TypeVar("D")


@dataclass(frozen=True, slots=True)
class Prepared(Generic[D]):
    """What `prepare` returns: the events to reserve, and what to do with them.

    Args:
        reserve: The events that this run handles; empty if there is nothing to do now.
        data: Anything that `mutate` and `next` need; it is stored.
        title: A human-readable description of the change, shown in the effect ledger.
        wake_at: When to run again even if no event arrives: a datetime with a time zone, or a
            duration from now. It replaces the previous wake time; None clears it.

    Example:
        >>> from onward.pipelines import Prepared
        >>> Prepared(wake_at="1h").reserve
        ()
    """

    reserve: Sequence[Event[Any]] = ()
    data: D = None  # type: ignore[assignment]  # without data there is none
    title: str = ""
    wake_at: datetime | timedelta | str | float | None = None


@dataclass(frozen=True, slots=True)
class Nothing:
    """The outcome of a run that chose no effect."""


@dataclass(frozen=True, slots=True)
class Skipped:
    """The outcome of a run whose effect an operator skipped."""


Outcome: TypeAlias = Applied[Any] | Nothing | Skipped
"""What `next` is given: `Applied(result)`, `Nothing()` or `Skipped()`."""


@dataclass(frozen=True, slots=True)
class Input:
    """An external item, registered by a producer so that events can be traced back to it."""

    source: str
    type: str
    id: str
    title: str
    uid: str = field(repr=False, default="")
