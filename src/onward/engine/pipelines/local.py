"""The pipelines of an engine that reaches the database itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

from onward.core.chain import Link
from onward.core.instant import SECOND, show
from onward.engine.pipeline_engine import STALE_AFTER
from onward.engine.pipelines import events, inputs, reading
from onward.engine.pipelines.declaring import declare
from onward.errors import PipelineBlocked, TopicFull
from onward.errors.root import count_text
from onward.model.following import Following
from onward.store.hints import PIPELINES
from onward.store.pipelines import operating
from onward.store.pipelines.freeing import free
from onward.store.pipelines.overview import blocked_handlers
from onward.store.pipelines.publishing import publish
from onward.store.pipelines.reading import full_topics
from onward.store.writing.text_limits import check_published

if TYPE_CHECKING:
    from collections.abc import Sequence

    from onward.core.instant import Duration
    from onward.engine.pipeline_engine import InputFilter, PipelineEngine
    from onward.engine.pipelines.views import (
        EventInfo,
        InputCounts,
        InputInfo,
        InputReport,
        PipelineInfo,
        SkippedInput,
        TopicInfo,
    )
    from onward.model.following import Followed
    from onward.model.pipelines import NewEvent, NewInput, PipelineSpec
    from onward.store.store import Store


class LocalPipelines:
    """A `PipelineEngine` over a store."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def declare(self, spec: PipelineSpec) -> None:
        await declare(self._store, spec)

    async def publish(self, events: Sequence[NewEvent], inputs: Sequence[NewInput] = ()) -> int:
        check_published(events, inputs)
        topics = {event.topic for event in events}
        for full in await self._store.read(lambda tx: full_topics(tx, topics)):
            age = show(full.oldest // SECOND * SECOND)
            waiting = count_text(full.pending, "pending event")
            fact = f"it has {waiting}, and the oldest has been pending for {age}"
            raise TopicFull(full.topic, fact)
        answer = await self._store.write(lambda tx: publish(tx, events, inputs, None))
        if answer.handlers:
            self._store.database.publish([PIPELINES])
        return answer.new

    # --- pipelines -------------------------------------------------------------------------------

    async def all(self) -> list[PipelineInfo]:
        return await reading.all_pipelines(self._store)

    async def get(self, name: str) -> PipelineInfo:
        return await reading.one_pipeline(self._store, name)

    async def trigger(self, name: str, producer: str | None) -> list[str]:
        triggered = await self._store.write(lambda tx: operating.trigger(tx, name, producer))
        self._store.database.publish([PIPELINES])
        return triggered

    async def pause(self, name: str | None) -> None:
        await self._store.write(lambda tx: operating.pause(tx, name, paused=True))

    async def resume(self, name: str | None) -> list[str]:
        await self._store.write(lambda tx: operating.pause(tx, name, paused=False))
        retried: list[str] = []
        refused: list[PipelineBlocked] = []
        for each in await self._store.read(blocked_handlers):
            if name is not None and each.pipeline != name:
                continue
            wish = Following(each.run, self._store.new_uid(), Link.RETRY)
            followed = await self._store.follow(wish)
            if followed.fate == "made":
                retried.append(each.id or each.run)
            elif followed.fate == "absent":  # retention has deleted it
                await free(self._store, each.handler, each.key, each.run)
            else:
                refused.append(_still_blocked(each.pipeline, each.id or each.run, followed))
        self._store.database.publish([PIPELINES])
        if refused and not retried:
            raise refused[0]
        return retried

    # --- topics ----------------------------------------------------------------------------------

    async def topics(self) -> list[TopicInfo]:
        return await events.all_topics(self._store)

    async def counts(self, topic: str) -> dict[str, dict[str, int]]:
        return await events.topic_counts(self._store, topic)

    async def peek(
        self, topic: str, *, limit: int, ids: Sequence[str] | None, consumer: str | None
    ) -> list[EventInfo]:
        return await events.peek(self._store, topic, limit=limit, ids=ids, consumer=consumer)

    async def replay(self, topic: str, ids: Sequence[str], consumer: str | None, by: str) -> int:
        del by  # deliveries have no place for it; the log of the caller has
        events.check_ids(ids)
        count = await self._store.write(lambda tx: operating.replay(tx, topic, ids, consumer))
        self._store.database.publish([PIPELINES])
        return count

    async def skip(
        self, topic: str, ids: Sequence[str], consumer: str | None, reason: str, by: str
    ) -> int:
        events.check_ids(ids)
        return await self._store.write(
            lambda tx: operating.skip(tx, topic, ids, consumer, reason, by)
        )

    # --- inputs ----------------------------------------------------------------------------------

    async def inputs(self, wanted: InputFilter) -> list[InputInfo]:
        return await inputs.filtered_inputs(self._store, wanted)

    async def input_counts(self, pipeline: str | None, stale_after: Duration) -> list[InputCounts]:
        return await inputs.counted_inputs(self._store, pipeline, stale_after)

    async def input(self, uid: str) -> InputReport:
        return await inputs.report(self._store, uid, STALE_AFTER)

    async def skip_input(self, uid: str, reason: str, by: str) -> SkippedInput:
        return await inputs.skip_input(self._store, uid, reason, by)


def _still_blocked(pipeline: str, run: str, followed: Followed) -> PipelineBlocked:
    fact, _, move = followed.why.partition("; ")
    return PipelineBlocked(
        f"pipeline {pipeline!r}",
        f"is still blocked: run {run} cannot be retried ({fact or followed.fate})",
        f"{move[:1].upper()}{move[1:]}. For details: onward why {run}"
        if move
        else f"See the reason: onward why {run}",
    )


def _check(engine: LocalPipelines) -> PipelineEngine:
    return engine  # the type checker compares it with the protocol here
