"""`Pipeline`: topics, the producers that publish to them, and the consumers that read them."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, TypeVar, overload

from onward.codec import check_id
from onward.errors import BadInput
from onward.model.pipelines import PipelineSpec
from onward.runtime.pipelines.values import Topic
from onward.sdk.pipelines import process
from onward.sdk.pipelines.handlers import DeclaredConsumer, DeclaredProducer, HandlerOptions

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator, Sequence

    from onward.core.instant import DurationLike
    from onward.core.retry import Retry
    from onward.runtime.pipelines.contexts import ProducerContext
    from onward.sdk.pipelines.handlers import DeclaredHandler

    P = TypeVar("P", bound=Callable[[ProducerContext, Any], Coroutine[Any, Any, Any]])

T = TypeVar("T")
C = TypeVar("C", bound=type[Any])


class Pipeline:
    """A pipeline in code: topics, producers that publish events, and consumers that handle events.

    A worker serves all pipelines defined in its process, or only those that you pass to it:
    `app.worker(pipelines=[...])`. The worker checks these pipelines when it starts; if it finds
    problems, it raises one error that lists them all.

    Args:
        name: Its name. The names of its handlers begin with it, as in `mail-to-sheet.AddRow`.
        parallel: Whether consumers handle events with different keys in parallel. By default, only
            one run of the pipeline is open at a time.
        queue: The queue of its runs.

    Example:
        >>> from onward.pipelines import Pipeline, ProducerContext
        >>> def define() -> Pipeline:  # in your own code, do this at module level
        ...     mail = Pipeline("mail-to-sheet")
        ...     received = mail.topic("mail.received", str)
        ...
        ...     @mail.producer(every="5m", publishes=[received])
        ...     async def poll(ctx: ProducerContext, cursor: str | None) -> str | None:
        ...         ctx.publish(received, "Hello", id="mail-1")
        ...         return "mail-1"
        ...
        ...     return mail
    """

    def __init__(self, name: str, *, parallel: bool = False, queue: str = "default") -> None:
        self.name = _checked(name, "the pipeline name")
        self.is_parallel = parallel
        self.queue = check_id(queue, "the queue of a pipeline")
        self.topics: list[Topic[Any]] = []
        self.handlers: list[DeclaredHandler] = []
        self.place, self.is_local = _caller()
        process.register(self)

    @overload
    def topic(
        self,
        name: str,
        type: type[T],
        *,
        max_pending: int | None = None,
        max_age: DurationLike | None = None,
    ) -> Topic[T]: ...
    @overload
    def topic(
        self,
        name: str,
        type: object = ...,
        *,
        max_pending: int | None = None,
        max_age: DurationLike | None = None,
    ) -> Topic[Any]: ...
    def topic(
        self,
        name: str,
        type: Any = Any,  # noqa: A002 - it is the user's word
        *,
        max_pending: int | None = None,
        max_age: DurationLike | None = None,
    ) -> Topic[Any]:
        """Declare a topic and return it. Takes the same arguments as `Topic`.

        Raises:
            BadInput: the name or a limit is not valid.
        """
        made = Topic[Any](name, type, max_pending=max_pending, max_age=max_age)
        self.topics.append(made)
        return made

    def producer(  # noqa: PLR0913 - each is a thing of its own that one may want
        self,
        *,
        every: DurationLike | None = None,
        cron: str | None = None,
        zone: str = "UTC",
        publishes: Sequence[Topic[Any]] = (),
        name: str | None = None,
        timeout: DurationLike | None = None,
        retry: Retry | None = None,
    ) -> Callable[[P], P]:
        """Make an async function a producer: `async def poll(ctx, state)`.

        The function reads from the outside world, publishes new items with `ctx.publish`, and
        returns its new state, such as a cursor. One commit stores the events and the state. The
        decorator returns the function itself, so a unit test can await it: `await poll(ctx, None)`.

        Args:
            every: The interval at which the producer runs, such as "5m".
            cron: A cron expression, instead of `every`; see `Schedule`.
            zone: The time zone of the cron expression.
            publishes: The topics that the producer may publish to.
            name: Its name in the pipeline; by default the name of the function.
            timeout: How long a run may take.
            retry: The retry policy to apply when the producer raises `Retryable`.
        """
        options = HandlerOptions(publishes, timeout, retry, every=every, cron=cron, zone=zone)

        def declare(fn: P) -> P:
            own = _handler_name(fn, name, "producer")
            self._add(DeclaredProducer(self.name, own, fn, options))
            return fn

        return declare

    def consumer(  # noqa: PLR0913 - each is a thing of its own that one may want
        self,
        *,
        subscribes: Sequence[Topic[Any]] = (),
        publishes: Sequence[Topic[Any]] = (),
        start: str = "now",
        name: str | None = None,
        timeout: DurationLike | None = None,
        retry: Retry | None = None,
        min_wake: DurationLike | None = None,
        max_wake: DurationLike | None = None,
    ) -> Callable[[C], C]:
        """Make a class a consumer, with the method `prepare` and, optionally, `mutate` and `next`.

        Each worker process creates one instance, without arguments. The decorator returns the class
        itself, so a unit test can create an instance and await its methods. See `Consumer`.

        Args:
            subscribes: The topics that the consumer reads.
            publishes: The topics that `next` may publish to.
            start: Which events a new consumer receives: "now" for those published after its first
                declaration, or "earliest" for all events that the topics still contain.
            name: Its name in the pipeline; by default the name of the class.
            timeout: How long `prepare` and `next` may each take.
            retry: The retry policy to apply when the consumer raises `Retryable`.
            min_wake: The shortest delay that `wake_at` may set; by default 30 seconds.
            max_wake: The longest delay that `wake_at` may set; by default a day.
        """
        options = HandlerOptions(
            publishes,
            timeout,
            retry,
            subscribes=subscribes,
            start=start,
            min_wake=min_wake,
            max_wake=max_wake,
        )

        def declare(kind: C) -> C:
            own = _handler_name(kind, name, "consumer")
            self._add(DeclaredConsumer(self.name, own, kind, options))
            return kind

        return declare

    def _add(self, handler: DeclaredHandler) -> None:
        """Add a handler; it replaces one of the same place, which was defined again."""
        same = [
            each
            for each in self.handlers
            if (each.name, each.place) == (handler.name, handler.place)
        ]
        self.handlers = [*(each for each in self.handlers if each not in same), handler]

    @property
    def spec(self) -> PipelineSpec:
        """What the engine must know of it; it has no problems."""
        topics = {each.name: each.spec for each in self.topics}
        handlers = tuple(each.spec() for each in self.handlers)
        return PipelineSpec(
            self.name, self.is_parallel, self.queue, tuple(topics.values()), handlers
        )

    def problems(self) -> Iterator[str]:
        """Yield what is wrong with it, whatever other pipelines there are."""
        if not self.handlers:
            advice = "Add one with @pipeline.producer or @pipeline.consumer"
            yield f"pipeline {self.name!r} has no producer and no consumer. {advice}"
        places: dict[str, str] = {}
        for each in self.handlers:
            yield from each.problems()
            other = places.setdefault(each.name, each.place)
            if other != each.place:
                fact = f"{each.name!r} is the name of {other} and of {each.place}"
                yield f"{fact}. Give one of them another name: name=..."

    def __repr__(self) -> str:
        return f"<pipeline {self.name}>"


def _checked(name: str, what: str) -> str:
    """Return a name that can be a part of longer ones.

    Raises:
        BadInput: it has blanks, or is no name at all.
    """
    if any(character.isspace() for character in check_id(name, what)):
        raise BadInput(f"{what} {name!r}", "contains a space", "Use - or _ instead.")
    return name


def _handler_name(target: Any, name: str | None, kind: str) -> str:
    own = name if name is not None else getattr(target, "__name__", "")
    checked = _checked(own, f"the {kind} name")
    if "." in checked or checked == "<lambda>":
        raise BadInput(
            f"the {kind} name {checked!r}",
            "contains a '.' or is the name of a lambda",
            "Pass a name= without '.'.",
        )
    return checked


def _caller() -> tuple[str, bool]:
    """Return where a pipeline is made, and whether that is inside a function."""
    frame = inspect.currentframe()
    while frame is not None and frame.f_code.co_filename == __file__:
        frame = frame.f_back
    if frame is None:
        return "", True
    code = frame.f_code
    return f"{code.co_filename}:{frame.f_lineno}", code.co_name != "<module>"
