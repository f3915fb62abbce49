"""`app.topics`: the topics of a store and their events, for operators."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from onward.codec import check_id
from onward.engine.page_sizes import MAX_PAGE, check_size
from onward.engine.pipelines.views import DeliveryInfo, EventInfo, TopicInfo
from onward.sdk.inside import refuse_in_body
from onward.sdk.operator import this_user
from onward.sdk.pipelines.publishing import topic_name

if TYPE_CHECKING:
    from collections.abc import Iterable

    from onward.engine.client_engine import ClientEngine
    from onward.engine.pipeline_engine import PipelineEngine
    from onward.runtime.pipelines.values import Topic

__all__ = ["DeliveryInfo", "EventInfo", "TopicInfo", "Topics"]

# In a class with a method `list`, these name the type.
Infos: TypeAlias = list[TopicInfo]
Events: TypeAlias = list[EventInfo]
Ids: TypeAlias = list[str]


class Topics:
    """Operations on the topics of an app (`app.topics`): count, show, replay and skip their events.

    The methods accept a topic or its name, and raise `NotFound` if there is no such topic. The name
    of a consumer includes its pipeline, as in `mail-to-sheet.AddRow`.
    """

    def __init__(self, engine: ClientEngine) -> None:
        self._opened = engine

    @property
    def _engine(self) -> PipelineEngine:
        refuse_in_body("a call to app.topics")
        return self._opened.pipelines

    async def list(self) -> Infos:
        """Return all topics, sorted by name, with their counts."""
        return await self._engine.topics()

    async def counts(self, topic: Topic[Any] | str) -> dict[str, dict[str, int]]:
        """Return how many events are pending, reserved, consumed and skipped for each consumer."""
        return await self._engine.counts(topic_name(topic))

    async def peek(
        self,
        topic: Topic[Any] | str,
        *,
        limit: int = 100,
        ids: Iterable[str] | None = None,
        consumer: str | None = None,
    ) -> Events:
        """Return the oldest pending events, without reserving them.

        Args:
            topic: The topic.
            limit: The maximum number of events to return: 1 to 1,000.
            ids: The ids of the events to return instead, in any state.
            consumer: Only events that are pending for this consumer; by default, for at least one
                consumer.
        """
        check_size("limit", limit, MAX_PAGE, minimum=1)
        wanted = None if ids is None else _ids(ids)
        return await self._engine.peek(
            topic_name(topic), limit=limit, ids=wanted, consumer=consumer
        )

    async def replay(
        self,
        topic: Topic[Any] | str,
        ids: Iterable[str] | str,
        *,
        consumer: str | None = None,
        by: str | None = None,
    ) -> int:
        """Make consumers handle consumed or skipped events again.

        The effects of the new runs have new keys, so they are sent again.

        Args:
            topic: The topic.
            ids: The ids of the events.
            consumer: The consumer that handles them again; by default, all consumers of the topic.
            by: The name of the operator; by default the user of this process.

        Returns:
            How many deliveries are pending again: one for each event and consumer.
        """
        name, wanted = topic_name(topic), _ids(ids)
        return await self._engine.replay(name, wanted, consumer, by or this_user())

    async def skip(
        self,
        topic: Topic[Any] | str,
        ids: Iterable[str] | str,
        *,
        reason: str,
        consumer: str | None = None,
        by: str | None = None,
    ) -> int:
        """Skip pending events, so that consumers do not handle them.

        Args:
            topic: The topic.
            ids: The ids of the events.
            reason: The reason, which is recorded with the skip.
            consumer: The consumer for which the events are skipped; by default, all consumers of
                the topic.
            by: The name of the operator; by default the user of this process.

        Returns:
            How many deliveries were skipped: one for each event and consumer.

        Raises:
            PipelineBlocked: a run has reserved one of the events.
        """
        name, wanted = topic_name(topic), _ids(ids)
        return await self._engine.skip(name, wanted, consumer, reason, by or this_user())


def _ids(given: Iterable[str] | str) -> Ids:
    listed = [given] if isinstance(given, str) else list(given)
    return [check_id(each, "the id of an event") for each in listed]
