"""Pipelines and their handlers, read for users."""

from __future__ import annotations

from collections import defaultdict
from shlex import quote
from typing import TYPE_CHECKING, NamedTuple

from onward.core.handler import REPAIR_BUDGET, HandlerKind, may_try_code
from onward.core.run import RunState
from onward.engine.display import shown_time, shown_time_or_none
from onward.engine.pipelines.views import HandlerInfo, PipelineInfo
from onward.errors import NotFound
from onward.errors.root import count_text
from onward.store.pipelines.overview import Overview, busiest_keys, overview

if TYPE_CHECKING:
    from onward.store.database import Tx
    from onward.store.pipelines.overview import (
        BlockedHandler,
        HandlerOverview,
        OpenHandlerRun,
        PipelineRow,
    )
    from onward.store.store import Store


async def all_pipelines(store: Store) -> list[PipelineInfo]:
    """Return all pipelines by name."""
    read = _Reading(await store.snapshot(overview))
    return [read.info(row) for row in read.known.pipelines if row.name]


async def one_pipeline(store: Store, name: str) -> PipelineInfo:
    """Return one pipeline, with the busiest and the blocked keys of its consumers.

    Raises:
        NotFound: there is none.
    """

    async def look(tx: Tx) -> tuple[Overview, list[HandlerOverview]]:
        known = await overview(tx)
        blocked = [each for each in known.blocked if each.pipeline == name and each.key]
        keys: list[HandlerOverview] = []
        for row in known.handlers:
            if row.pipeline == name and row.kind == HandlerKind.CONSUMER:
                also = [each.key for each in blocked if each.handler == row.handler]
                keys += await busiest_keys(tx, row.handler, also)
        return known, keys

    known, keys = await store.snapshot(look)
    read = _Reading(known)
    for row in known.pipelines:
        if row.name and row.name == name:
            return read.info(row, keys)
    advice = "Check the name: onward pipelines list"
    raise NotFound("pipeline", name, store.namespace, advice)


class _State(NamedTuple):
    """How a handler stands, and what to do about it."""

    state: str
    run: str | None = None
    why: str = ""
    next: str = ""


class _Reading:
    """Rows of pipelines, from which infos are made."""

    def __init__(self, known: Overview) -> None:
        self.known = known
        self._topics: defaultdict[str, list[str]] = defaultdict(list)
        for topic, handler in known.subscriptions:
            self._topics[handler].append(topic)
        self._blocked: defaultdict[str, list[BlockedHandler]] = defaultdict(list)
        self._blocked_lanes: dict[str, BlockedHandler] = {}
        for each in known.blocked:
            self._blocked[each.handler].append(each)
            self._blocked_lanes.setdefault(each.lane, each)
        self._open: defaultdict[str, list[OpenHandlerRun]] = defaultdict(list)
        for run in known.open:
            self._open[run.handler].append(run)

    def info(self, row: PipelineRow, keys: list[HandlerOverview] | None = None) -> PipelineInfo:
        """Return a pipeline with its handlers, producers first, and some of their keys."""
        own = [each for each in self.known.handlers if each.pipeline == row.name]
        shown = sorted(
            [*own, *(keys or [])],
            key=lambda each: (each.kind != HandlerKind.PRODUCER, each.handler, each.key),
        )
        handlers = tuple(self._handler(row, each) for each in shown)
        state = "active"
        if row.paused or self.known.all_paused:
            state = "paused"
        elif any(each.state in ("blocked", "paused") for each in handlers):
            state = "blocked"
        return PipelineInfo(
            row.name,
            bool(row.is_parallel),
            row.queue,
            state,
            tuple(topic.name for topic in self.known.topics if topic.pipeline == row.name),
            handlers,
            shown_time(row.updated_at),
        )

    def _handler(self, pipeline: PipelineRow, row: HandlerOverview) -> HandlerInfo:
        found = self._state(pipeline, row)
        return HandlerInfo(
            row.handler,
            row.kind,
            row.key,
            tuple(self._topics[row.handler]),
            tuple(row.publishes.split("\n")) if row.publishes else (),
            found.state,
            found.run,
            found.why,
            found.next,
            row.failures,
            shown_time_or_none(row.wake_at),
            row.pending,
            bool(row.removed),
        )

    def _state(self, pipeline: PipelineRow, row: HandlerOverview) -> _State:
        """Return how a handler stands; its declaration stands for all its keys."""
        blocked = [each for each in self._blocked[row.handler] if row.key in ("", each.key)]
        if blocked:
            return _blocked(pipeline.name, blocked[0], row.failures)
        running = [each for each in self._open[row.handler] if row.key in ("", each.key)]
        if running:
            return _open(running)
        if self.known.all_paused:
            return _State(
                "paused", None, "all pipelines are paused", "onward pipelines resume --all"
            )
        if pipeline.paused:
            move = f"onward pipelines resume {quote(pipeline.name)}"
            return _State("paused", None, "the pipeline is paused", move)
        if row.removed:
            return _State("idle", None, *_removed(row))
        if not row.is_due:
            return _State("idle")
        first = self._blocked_lanes.get(row.lane)
        if first is not None:
            why = f"run {first.id or first.run} of {first.handler} blocks the pipeline"
            return _State("due", None, why, f"onward why {quote(first.id or first.run)}")
        return _State("due")


def _open(runs: list[OpenHandlerRun]) -> _State:
    for run in runs:
        if run.state == RunState.PAUSED:
            why = f"run {run.id} is paused ({run.reason})"
            return _State("paused", run.id, why, f"onward why {quote(run.id)}")
    return _State("running", runs[0].id)


def _removed(row: HandlerOverview) -> tuple[str, str]:
    if not row.pending:
        return "", ""
    return (
        "the code no longer declares this consumer, but it has "
        f"{count_text(row.pending, 'pending event')}",
        "Declare it again, or skip these events: "
        f"onward topics skip TOPIC ID --consumer {row.handler}",
    )


def _blocked(pipeline: str, blocked: BlockedHandler, failures: int) -> _State:
    run = blocked.id or blocked.run
    tries = max(failures, blocked.failures)
    why = f"run {run} failed"
    if tries > 1:
        why += f", the last of {tries} failures in a row"
    move = f"onward runs show {quote(run)}; then onward pipelines resume {quote(pipeline)}"
    if may_try_code(tries):
        move += ", or deploy new code"
    else:
        why += f"; after {REPAIR_BUDGET} failures, new code is not tried automatically"
    return _State("blocked", run, why, move)
