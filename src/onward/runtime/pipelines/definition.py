"""What a worker knows of the handlers of a pipeline."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from onward.core.handler import MAX_WAKE, MIN_WAKE, TRANSIENT, HandlerKind
from onward.core.run import RunKind

if TYPE_CHECKING:
    from collections.abc import Callable

    from onward.core.instant import Duration
    from onward.core.retry import Retry
    from onward.runtime.pipelines.values import Topic


@dataclass(frozen=True, slots=True)
class HandlerDefinition:
    """A producer or a consumer of a pipeline.

    Attributes:
        name: Its name with that of its pipeline: `mail-to-sheet.AddRow`.
        pipeline: The name of its pipeline.
        publishes: The topics that it may publish to.
        state: The annotation of its state.
        retry: How often it is run again after `Retryable`, and after how long.
        timeout: How long `prepare`, `next` or a producer may take.
    """

    name: str
    pipeline: str
    publishes: tuple[Topic[Any], ...]
    state: Any
    retry: Retry = TRANSIENT
    timeout: Duration | None = None

    kind: ClassVar[HandlerKind]
    run_kind: ClassVar[RunKind]

    @property
    def code(self) -> Callable[..., Any]:
        """The function whose code says whether the handler has changed."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class ProducerDefinition(HandlerDefinition):
    """A function that reads the outside world, and publishes what is new there."""

    fn: Callable[..., Any] = None  # type: ignore[assignment]  # always given

    kind = HandlerKind.PRODUCER
    run_kind = RunKind.PRODUCER

    @property
    def code(self) -> Callable[..., Any]:
        """The function whose code says whether the handler has changed."""
        return self.fn


@dataclass(frozen=True, slots=True)
class ConsumerDefinition(HandlerDefinition):
    """A class whose `prepare` reserves events, `mutate` chooses an effect and `next` goes on.

    Attributes:
        prepare: The bound method `prepare(ctx, state)`.
        mutate: The bound method `mutate(ctx, prepared)`, if it has one.
        next: The bound method `next(ctx, prepared, outcome)`, if it has one.
        data: The annotation of the data of its preparations.
        subscribes: The topics that it reads.
        min_wake: The shortest time from now that `wake_at` may be.
        max_wake: The longest.
    """

    prepare: Callable[..., Any] = None  # type: ignore[assignment]  # always given
    mutate: Callable[..., Any] | None = None
    next: Callable[..., Any] | None = None
    data: Any = Any
    subscribes: tuple[Topic[Any], ...] = ()
    min_wake: Duration = MIN_WAKE
    max_wake: Duration = MAX_WAKE

    kind = HandlerKind.CONSUMER
    run_kind = RunKind.CONSUMER

    @property
    def code(self) -> Callable[..., Any]:
        """The function whose code says whether the handler has changed."""
        return self.prepare
