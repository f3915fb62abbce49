"""Pipelines as the command line shows them: a table, and their handlers and topics as a graph."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from onward.cli.output import shown
from onward.core.instant import duration, show
from onward.errors.root import closed

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from onward.engine.pipelines.views import HandlerInfo, PipelineInfo, TopicInfo

HEAD = ("PIPELINE", "STATE", "MODE", "QUEUE", "HANDLERS", "PENDING", "NOTE")
HANDLER_HEAD = ("HANDLER", "KIND", "KEY", "STATE", "PENDING", "FAILURES", "WAKE", "RUN")
STATES = ("pending", "reserved", "consumed", "skipped")


def row_of(info: PipelineInfo) -> tuple[Any, ...]:
    """Return a pipeline as a row of a table."""
    declared = declared_handlers(info)
    return (
        info.name,
        info.state,
        mode_of(info),
        info.queue,
        len(declared),
        sum(each.pending for each in declared),
        next((each.why for each in info.handlers if each.why), None),
    )


def mode_of(info: PipelineInfo) -> str:
    """Return whether runs of a pipeline may be open at the same time."""
    return "parallel" if info.is_parallel else "serial"


def declared_handlers(info: PipelineInfo) -> list[HandlerInfo]:
    """Return the handlers that the newest code has, without their keys."""
    return [each for each in info.handlers if not each.key and not each.is_removed]


def handler_row(info: HandlerInfo) -> tuple[Any, ...]:
    """Return a handler, or one key of it, as a row of a table."""
    state = "removed" if info.is_removed else info.state
    return (
        info.name,
        info.kind,
        info.key,
        state,
        info.pending if info.kind == "consumer" else None,
        info.failures or None,
        info.wake_at,
        info.run,
    )


def advice_of(info: PipelineInfo) -> list[str]:
    """Return what is wrong with handlers, and what to do about it."""
    return [
        f"{each.name}{f' (key {each.key})' if each.key else ''}: {closed(each.why)}"
        + (f" Next: {each.next}" if each.next else "")
        for each in info.handlers
        if each.why
    ]


def topic_json(info: TopicInfo) -> dict[str, Any]:
    """Return a topic for programs."""
    age = None if info.max_age is None else show(duration(info.max_age))
    return asdict(info) | {"max_age": age}


# --- the graph ------------------------------------------------------------------------------------


def graph_of(info: PipelineInfo, topics: Mapping[str, TopicInfo]) -> list[str]:
    """Return the lines of a graph: who publishes to which topic, and who reads it.

    A consumer that is reached by several ways is drawn in full once.
    """
    return [shown(line) for line in _Graph(info, topics).lines()]


class _Graph:
    def __init__(self, info: PipelineInfo, topics: Mapping[str, TopicInfo]) -> None:
        self._handlers = {each.name: each for each in declared_handlers(info)}
        self._topics = topics
        self._own = info.topics
        self._drawn: set[str] = set()

    def lines(self) -> Iterator[str]:
        handlers = self._handlers.values()
        for each in handlers:
            if each.kind == "producer":
                yield f"producer {each.name}"
                yield from self._tree(each.publishes, "")
        used = {topic for each in handlers for topic in (*each.publishes, *each.subscribes)}
        published = {topic for each in handlers for topic in each.publishes}
        outside = [topic for topic in sorted({*used, *self._own}) if topic not in published]
        if outside:
            yield "published from outside this pipeline"
            yield from self._tree(outside, "")
        for each in handlers:  # what is left feeds itself in a circle
            if each.kind == "consumer" and each.name not in self._drawn:
                yield from self._consumer(each.name, {}, "")

    def _tree(self, topics: Sequence[str], indent: str) -> Iterator[str]:
        for topic, is_last in _with_last(topics):
            info = self._topics.get(topic)
            published = 0 if info is None else info.published
            yield f"{indent}{'└─' if is_last else '├─'} {topic}: {published:,} published"
            below = indent + ("   " if is_last else "│  ")
            counts = {} if info is None else info.counts
            if not counts:
                yield f"{below}└─ no consumer"
            for consumer, ends in _with_last(sorted(counts)):
                branch = f"{below}{'└─' if ends else '├─'} "
                yield from self._consumer(
                    consumer, counts[consumer], branch, below + ("   " if ends else "│  ")
                )

    def _consumer(
        self, name: str, counts: Mapping[str, int], branch: str, indent: str = ""
    ) -> Iterator[str]:
        handler = self._handlers.get(name)
        told = ", ".join(f"{counts[state]:,} {state}" for state in STATES if state in counts)
        is_known = name in self._drawn
        state = "" if handler is None or handler.state == "idle" else f" ({handler.state})"
        again = ", continues above" if is_known and handler and handler.publishes else ""
        yield f"{branch}consumer {name}{state}{f': {told}' if told else ''}{again}"
        if handler is None or is_known:
            return
        self._drawn.add(name)
        yield from self._tree(handler.publishes, indent)


def _with_last(names: Sequence[str]) -> Iterator[tuple[str, bool]]:
    for place, name in enumerate(names, 1):
        yield name, place == len(names)
