"""Producers and consumers as code declares them: their options, problems and specifications.

HandlerOptions are checked when a worker or a publisher needs the pipeline, and not when the code is
imported, so that all problems are reported at once.
"""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

from onward.codec import encode, fingerprint
from onward.codec.shapes.hints import Unresolved, namespace_around
from onward.core.handler import MAX_WAKE, MIN_WAKE, TRANSIENT, HandlerKind
from onward.core.instant import duration, show
from onward.core.retry import check_retry
from onward.core.run import RunKind
from onward.engine.payloads import pack
from onward.engine.schedules.checking import check_spec
from onward.errors import BadInput
from onward.model.pipelines import HandlerSpec
from onward.model.schedules import ScheduleSpec
from onward.runtime.definition import run_name
from onward.runtime.pipelines.definition import ConsumerDefinition, ProducerDefinition
from onward.runtime.pipelines.values import Topic
from onward.runtime.registry import place_of
from onward.sdk.functions import time_limit
from onward.sdk.pipelines.annotations import Stored, stored_by_consumer, stored_by_producer
from onward.sdk.pipelines.signatures import METHODS, call_problem, method_of
from onward.sdk.schedule import timing_fields

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from onward.core.instant import DurationLike
    from onward.core.retry import Retry
    from onward.runtime.pipelines.definition import HandlerDefinition

STARTS = ("now", "earliest")


@dataclass(frozen=True, slots=True)
class HandlerOptions:
    """What the decorator of a handler was given."""

    publishes: Sequence[Topic[Any]]
    timeout: DurationLike | None
    retry: Retry | None
    every: DurationLike | None = None
    cron: str | None = None
    zone: str = "UTC"
    subscribes: Sequence[Topic[Any]] = ()
    start: str = "now"
    min_wake: DurationLike | None = None
    max_wake: DurationLike | None = None


class DeclaredHandler(ABC):
    """A producer or consumer that a decorator has declared; `target` is what it decorates."""

    kind: ClassVar[HandlerKind]

    def __init__(self, pipeline: str, name: str, target: Any, options: HandlerOptions) -> None:
        self.pipeline, self.own_name, self.target, self.options = pipeline, name, target, options
        self.name = f"{pipeline}.{name}"
        self.what = f"{self.kind} {self.name!r}"

    @property
    @abstractmethod
    def place(self) -> str:
        """Where it is defined."""

    @abstractmethod
    def schedule(self) -> ScheduleSpec | None:
        """Return when it runs, if that is by the clock."""

    @abstractmethod
    def _stored(self) -> Stored:
        """Return the annotations of what it stores."""

    @abstractmethod
    def _own_problems(self) -> Iterator[str]:
        """Yield what is wrong with the parts that only such a handler has."""

    @abstractmethod
    def _callables(self) -> dict[str, Any]:
        """Return what Onward calls, by the name in messages."""

    @property
    @abstractmethod
    def definition(self) -> HandlerDefinition:
        """What a worker runs."""

    def problems(self) -> Iterator[str]:
        """Yield everything that is wrong with it."""
        yield from self._own_problems()
        for option in ("publishes", "subscribes"):
            yield from self._topic_problems(option)
        options = self.options
        if options.timeout is not None:
            yield from self._attempt(lambda: time_limit(options.timeout or 0))
        yield from self._attempt(lambda: check_retry(options.retry))
        wrong_calls = [
            f"{self.what} {problem}"
            for name, fn in self._callables().items()
            if (problem := call_problem(self.kind, name, fn)) is not None
        ]
        yield from wrong_calls or self._annotation_problems()

    def spec(self) -> HandlerSpec:
        """Return what the engine must know of it; it has no problems."""
        return HandlerSpec(
            self.name,
            self.kind.value,
            tuple(each.name for each in self.options.subscribes),
            tuple(each.name for each in self.options.publishes),
            self.options.start,
            self.schedule(),
        )

    def _topic_problems(self, option: str) -> Iterator[str]:
        given = getattr(self.options, option)
        if isinstance(given, Topic | str) or not hasattr(given, "__iter__"):
            yield f"{self.what} has {option}={given!r}, which is not a list. Write [{given!r}]"
            return
        for each in given:
            if not isinstance(each, Topic):
                fact = f"has {each!r} in {option}=, which is not a topic"
                yield f"{self.what} {fact}. Pass what pipeline.topic(...) returns"

    def _annotation_problems(self) -> Iterator[str]:
        for part, annotation in self._stored()._asdict().items():
            if isinstance(annotation, Unresolved):
                fact = f"annotates its {part} with {annotation.text!r}, which is not defined"
                yield f"{self.what} {fact}. Import it outside `if TYPE_CHECKING`"

    def _attempt(self, check: Callable[[], object]) -> Iterator[str]:
        try:
            check()
        except ValueError as error:
            yield f"{self.what}: {error}"

    def _common(self) -> dict[str, Any]:
        options, stored = self.options, self._stored()
        return {
            "name": self.name,
            "pipeline": self.pipeline,
            "publishes": tuple(options.publishes),
            "state": stored.state,
            "retry": options.retry or TRANSIENT,
            "timeout": None if options.timeout is None else time_limit(options.timeout),
        }


class DeclaredProducer(DeclaredHandler):
    """A function that `@pipeline.producer` decorates."""

    kind = HandlerKind.PRODUCER

    def __init__(self, pipeline: str, name: str, target: Any, options: HandlerOptions) -> None:
        super().__init__(pipeline, name, target, options)
        self._around: Mapping[str, Any] = namespace_around(target)

    @property
    def place(self) -> str:
        """Where it is defined."""
        return place_of(self.target)

    def schedule(self) -> ScheduleSpec:
        """Return when it runs.

        Raises:
            BadInput: the timing cannot be read.
        """
        given, arguments = self.options, encode({}, path=self.name)
        return ScheduleSpec(
            self.name,
            run_name(RunKind.PRODUCER, self.name),
            pack(arguments),
            fingerprint(arguments),
            "{}",
            **timing_fields(cron=given.cron, every=given.every),
            zone=given.zone,
            overlap="coalesce",
            catch_up="latest",
            cap=1,
            jitter=0,
        )

    def _stored(self) -> Stored:
        return stored_by_producer(self.target, self._around)

    def _callables(self) -> dict[str, Any]:
        return {"": self.target}

    def _own_problems(self) -> Iterator[str]:
        options = self.options
        if options.every is None and options.cron is None:
            yield f"{self.what} has no schedule. Pass every= or cron="
        elif options.every is not None and options.cron is not None:
            yield f"{self.what} has both every= and cron=. Pass only one of them"
        else:
            yield from self._attempt(lambda: check_spec(self.schedule()))
        if not options.publishes:
            yield f"{self.what} publishes to no topic. Pass publishes=[...]"

    @cached_property
    def definition(self) -> ProducerDefinition:
        """What a worker runs."""
        return ProducerDefinition(**self._common(), fn=self.target)


class DeclaredConsumer(DeclaredHandler):
    """A class that `@pipeline.consumer` decorates."""

    kind = HandlerKind.CONSUMER

    def __init__(self, pipeline: str, name: str, target: Any, options: HandlerOptions) -> None:
        super().__init__(pipeline, name, target, options)
        prepare = method_of(target, "prepare")
        self._around: Mapping[str, Any] = {} if prepare is None else namespace_around(prepare)

    @property
    def place(self) -> str:
        """Where it is defined."""
        prepare = method_of(self.target, "prepare")
        return place_of(self.target if prepare is None else prepare)

    def schedule(self) -> None:
        """Return None: events start its runs."""
        return

    def _stored(self) -> Stored:
        prepare = method_of(self.target, "prepare")
        if prepare is None:
            return Stored(Any)
        return stored_by_consumer(self.target, prepare, self._around)

    def _callables(self) -> dict[str, Any]:
        found = {name: method_of(self.target, name) for name in METHODS}
        return {name: method for name, method in found.items() if method is not None}

    def _own_problems(self) -> Iterator[str]:
        options, methods = self.options, self._callables()
        if not isinstance(self.target, type):
            yield f"{self.what} is {self.target!r}, not a class. Decorate a class"
            return
        if not options.subscribes:
            yield f"{self.what} subscribes to no topic. Pass subscribes=[...]"
        if "prepare" not in methods:
            yield f"{self.what} has no prepare method. Add async def prepare(self, ctx, state)"
        if options.publishes and "next" not in methods:
            fact = "has publishes= but no next method, and only next can publish"
            yield f"{self.what} {fact}. Add next, or leave out publishes="
        if options.start not in STARTS:
            yield f'{self.what} has start={options.start!r}. Use "now" or "earliest"'
        if (needed := _needed_by(self.target)) is not None:
            fact = f"cannot be built without arguments: {needed}"
            yield f"{self.what} {fact}. Give the parameters of __init__ defaults"
        yield from self._attempt(self._wakes)

    def _wakes(self) -> tuple[int, int]:
        """Return the shortest and the longest time that a wake may be away."""
        given = self.options
        least = MIN_WAKE if given.min_wake is None else duration(given.min_wake)
        longest = MAX_WAKE if given.max_wake is None else duration(given.max_wake)
        if not 0 < least <= longest:
            fact = f"is 0, or longer than max_wake={show(longest)}"
            raise BadInput(f"min_wake={show(least)}", fact, "Change min_wake= or max_wake=.")
        return least, longest

    @cached_property
    def definition(self) -> ConsumerDefinition:
        """What a worker runs, with the one instance of this process.

        Raises:
            BadInput: its class cannot be built.
        """
        return self.define(self.build())

    def build(self) -> Any:
        """Return a new instance.

        Raises:
            BadInput: its class cannot be built.
        """
        try:
            return self.target()
        except Exception as error:
            fact = f"could not be built: {type(error).__name__}: {error}"
            raise BadInput(self.what, fact, f"Fix __init__ of {self.place}.") from error

    def define(self, instance: Any) -> ConsumerDefinition:
        """Return what is run with an instance."""
        least, longest = self._wakes()
        methods = {name: getattr(instance, name) for name in self._callables()}
        return ConsumerDefinition(
            **self._common(),
            **methods,
            data=self._stored().data,
            subscribes=tuple(self.options.subscribes),
            min_wake=least,
            max_wake=longest,
        )


def _needed_by(kind: type) -> str | None:
    """Return why a class cannot be built without arguments; None if it can."""
    try:
        inspect.signature(kind).bind()
    except TypeError as error:
        return str(error)
    except ValueError:  # a class of C, which does not say
        return None
    return None
