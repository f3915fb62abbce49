"""What handlers of pipelines read from the engine while they run."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection

    from onward.engine.worker_engine import WorkerEngine
    from onward.model.pipelines import FullTopic, HandlerRow, PeekedEvent
    from onward.runtime.pipelines.ports import HandlerReads
    from onward.runtime.worker.outage import Outage
    from onward.system.clock import Uids


class EngineReads:
    """Reads of the handlers of one worker; while the engine is unavailable they are repeated."""

    def __init__(self, engine: WorkerEngine, outage: Outage, uids: Uids) -> None:
        self._engine = engine
        self._through = outage.through
        self.new_uid = uids.new

    async def handler(self, handler: str, key: str) -> HandlerRow:
        return await self._through(lambda: self._engine.handler(handler, key))

    async def peek(self, handler: str, key: str, topic: str, limit: int) -> list[PeekedEvent]:
        return await self._through(lambda: self._engine.peek(handler, key, topic, limit))

    async def peek_ids(
        self, handler: str, key: str, topic: str, ids: Collection[str]
    ) -> list[PeekedEvent]:
        return await self._through(lambda: self._engine.peek_ids(handler, key, topic, ids))

    async def full_topics(self, topics: Collection[str]) -> list[FullTopic]:
        return await self._through(lambda: self._engine.full_topics(topics))


def _check(reads: EngineReads) -> HandlerReads:
    return reads  # the type checker compares it with the protocol here
