"""The pipelines of this process: which of them a worker serves, and what is wrong with them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from onward.codec.shapes.hints import describe
from onward.core.instant import show
from onward.errors import BadInput, BadPipeline
from onward.runtime.pipelines.values import Topic
from onward.telemetry.events import emit

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from onward.model.pipelines import PipelineSpec
    from onward.runtime.pipelines.definition import HandlerDefinition
    from onward.sdk.pipelines.handlers import DeclaredHandler
    from onward.sdk.pipelines.pipeline import Pipeline

registered: list[Pipeline] = []
"""The pipelines of this process in the order of their definition."""

refused: list[Pipeline] = []
"""Those whose problems were raised."""


class Served(NamedTuple):
    """What a worker runs of pipelines, and what it declares to the engine."""

    handlers: tuple[HandlerDefinition, ...]
    specs: tuple[PipelineSpec, ...]


def register(pipeline: Pipeline) -> None:
    """Add a pipeline; it replaces one of the same name, if that was defined at the same place.

    One that a function makes replaces any of the same name, as in tests that each define their own.
    """
    registered[:] = [each for each in registered if not _is_replaced(each, pipeline)]
    registered.append(pipeline)


def _is_replaced(old: Pipeline, new: Pipeline) -> bool:
    is_free = old.is_local or new.is_local or old.place == new.place
    return old.name == new.name and is_free


def serve(pipelines: Sequence[Pipeline] | None) -> Served:
    """Return what a worker serves: the pipelines that are given, or all of this process.

    Pipelines whose topics those use are declared too: others may serve them.

    Raises:
        BadPipeline: they are not declared correctly.
    """
    chosen = _chosen() if pipelines is None else _listed(pipelines)
    declared = with_neighbours(chosen)
    check(declared)
    _warn_of_unread_topics(chosen)
    handlers = tuple(each.definition for pipeline in chosen for each in pipeline.handlers)
    return Served(handlers, tuple(each.spec for each in declared))


def checked(pipelines: Sequence[Pipeline]) -> tuple[PipelineSpec, ...]:
    """Return what to declare of pipelines, and of those whose topics they use.

    Raises:
        BadPipeline: they are not declared correctly.
    """
    declared = with_neighbours(_listed(pipelines))
    check(declared)
    return tuple(each.spec for each in declared)


def _listed(pipelines: Sequence[Pipeline]) -> list[Pipeline]:
    from onward.sdk.pipelines.pipeline import Pipeline  # it registers itself here

    for each in pipelines:
        if not isinstance(each, Pipeline):
            raise BadInput(f"pipelines=[{each!r}]", "is not a Pipeline", "Pass Pipeline objects.")
    return list(dict.fromkeys(pipelines))


def _chosen() -> list[Pipeline]:
    """Return all pipelines, except for those whose problems were raised before."""
    for each in registered:
        if each in refused:
            emit("pipeline.not_served", pipeline=each.name, error="; ".join(each.problems()))
    return [each for each in registered if each not in refused]


def with_neighbours(pipelines: Iterable[Pipeline]) -> list[Pipeline]:
    """Return pipelines, and those of this process that declare the topics that they use."""
    found = list(pipelines)
    for each in found:  # it grows meanwhile
        for topic in _used_topics(each):
            owner = owner_of(topic)
            if owner is not None and not any(topic.name == own.name for own in each.topics):
                found += [owner] if owner not in found else []
    return found


def owner_of(topic: Topic[Any]) -> Pipeline | None:
    """Return the pipeline of this process that declares a topic; of several the newest."""
    named = [
        (own is topic, pipeline)
        for pipeline in registered
        for own in pipeline.topics
        if own.name == topic.name
    ]
    exact = [pipeline for is_same, pipeline in named if is_same]
    found = exact or [pipeline for _, pipeline in named]
    return found[-1] if found else None


def handler_of(target: Any) -> DeclaredHandler:
    """Return the handler that a function, a class or an instance of it was declared as.

    Raises:
        BadInput: no pipeline of this process has it.
        BadPipeline: its pipeline is not declared correctly.
    """
    for pipeline in reversed(registered):
        for handler in pipeline.handlers:
            if handler.target is target or handler.target is type(target):
                check(with_neighbours([pipeline]))
                return handler
    raise BadInput(
        f"{target!r}",
        "is not a handler of a pipeline",
        "Decorate it with @pipeline.producer(...) or @pipeline.consumer(...).",
    )


def check(pipelines: Sequence[Pipeline]) -> None:
    """Check declarations before anything runs.

    Raises:
        BadPipeline: they have problems, and these are all of them.
    """
    topics = _declared_topics(pipelines)
    places: dict[str, str] = {}
    found: list[str] = []
    for each in pipelines:
        problems = [*each.problems(), *_topic_problems(each, topics)]
        other = places.setdefault(each.name, each.place)
        if other != each.place:
            fact = f"pipeline {each.name!r} is defined at {other} and at {each.place}"
            problems.append(f"{fact}. Give one of them another name")
        if problems and each not in refused:
            refused.append(each)
        found += problems
    if found:
        raise BadPipeline(tuple(dict.fromkeys(found)))


def _declared_topics(pipelines: Iterable[Pipeline]) -> dict[str, Topic[Any]]:
    """Return all topics by name, as they are first declared."""
    topics: dict[str, Topic[Any]] = {}
    for pipeline in (*registered, *pipelines):
        for topic in pipeline.topics:
            topics.setdefault(topic.name, topic)
    return topics


def _topic_problems(pipeline: Pipeline, declared: Mapping[str, Topic[Any]]) -> Iterator[str]:
    for topic in pipeline.topics:
        if (difference := _difference(declared[topic.name], topic)) is not None:
            fact = f"topic {topic.name!r} is declared with {difference}"
            yield f"{fact}. Declare it once, and use that topic"
    for handler in pipeline.handlers:
        for topic in _topics_of(handler.options):
            known = declared.get(topic.name)
            if known is None:
                fact = f"{handler.what} uses topic {topic.name!r}, which no pipeline declares"
                yield f"{fact}. Declare it: pipeline.topic({topic.name!r}, ...)"
            elif topic not in pipeline.topics and (difference := _difference(known, topic)):
                fact = f"{handler.what} uses topic {topic.name!r} with {difference}"
                yield f"{fact}. Use the topic that its pipeline declares"


def _difference(one: Topic[Any], other: Topic[Any]) -> str | None:
    if one.type != other.type:
        return f"different types, {describe(one.type)} and {describe(other.type)}"
    if one.max_pending != other.max_pending:
        return f"different limits, max_pending={one.max_pending} and {other.max_pending}"
    if one.max_age != other.max_age:
        ages = [None if each.max_age is None else show(each.max_age) for each in (one, other)]
        return f"different limits, max_age={ages[0]} and {ages[1]}"
    return None


def _used_topics(pipeline: Pipeline) -> list[Topic[Any]]:
    return [topic for each in pipeline.handlers for topic in _topics_of(each.options)]


def _topics_of(options: Any) -> list[Topic[Any]]:
    """Return the topics of a handler, without what is not one."""
    given = [options.publishes, options.subscribes]
    listed = [each for each in given if isinstance(each, list | tuple | set | frozenset)]
    return [topic for each in listed for topic in each if isinstance(topic, Topic)]


def _warn_of_unread_topics(pipelines: Sequence[Pipeline]) -> None:
    read = {
        topic.name
        for each in (*registered, *pipelines)
        for handler in each.handlers
        for topic in handler.options.subscribes
    }
    for each in pipelines:
        published = {topic.name for handler in each.handlers for topic in handler.options.publishes}
        for topic in sorted(published - read):
            emit("pipeline.unread", pipeline=each.name, topic=topic)
