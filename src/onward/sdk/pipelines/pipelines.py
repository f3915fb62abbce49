"""`app.pipelines`: the pipelines of a store, for operators."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from onward.engine.pipelines.views import HandlerInfo, PipelineInfo
from onward.sdk.given import given_id
from onward.sdk.inside import refuse_in_body
from onward.sdk.pipelines.process import checked

if TYPE_CHECKING:
    from onward.engine.client_engine import ClientEngine
    from onward.engine.pipeline_engine import PipelineEngine
    from onward.sdk.pipelines.pipeline import Pipeline

__all__ = ["HandlerInfo", "PipelineInfo", "Pipelines"]

# In a class with a method `list`, these name the type.
Infos: TypeAlias = list[PipelineInfo]
Names: TypeAlias = list[str]


class Pipelines:
    """Operations on the pipelines of an app (`app.pipelines`): list, run, pause and resume them.

    Workers declare pipelines when they start. The methods raise `NotFound` if there is no pipeline
    with the given name.
    """

    def __init__(self, engine: ClientEngine) -> None:
        self._opened = engine

    @property
    def _engine(self) -> PipelineEngine:
        refuse_in_body("a call to app.pipelines")
        return self._opened.pipelines

    async def declare(self, *pipelines: Pipeline) -> None:
        """Declare pipelines in the database, as defined in this process's code.

        When a worker starts, it does this for the pipelines that it serves. Call this method if you
        need to publish to a new pipeline before its first worker starts. Handlers that are no
        longer in the code are removed.

        Raises:
            BadPipeline: the pipelines are not declared correctly; the error lists all problems.
        """
        for each in checked(pipelines):
            await self._engine.declare(each)

    async def list(self) -> Infos:
        """Return all pipelines, sorted by name, with the state of their handlers."""
        return await self._engine.all()

    async def get(self, name: str) -> PipelineInfo:
        """Return one pipeline, with the busiest keys of its handlers."""
        return await self._engine.get(given_id(name, "the pipeline name"))

    async def trigger(self, name: str, producer: str | None = None) -> Names:
        """Run producers of a pipeline as soon as possible; their schedules do not change.

        A producer that is running, or about to run anyway, runs at most once more.

        Args:
            name: The pipeline.
            producer: One producer, such as "poll"; by default all producers of the pipeline.

        Returns:
            The names of the producers that will run.

        Raises:
            PipelineBlocked: the pipeline is paused or blocked.
        """
        return await self._engine.trigger(given_id(name, "the pipeline name"), producer)

    async def pause(self, name: str | None = None) -> None:
        """Stop starting new runs of a pipeline or, without a name, of all pipelines.

        Runs that are open continue. Events and due producers wait.
        """
        await self._engine.pause(name)

    async def resume(self, name: str | None = None) -> Names:
        """Resume a pipeline or, without a name, all pipelines, and unblock their handlers.

        Returns:
            The ids of the runs that are retried.
        """
        return await self._engine.resume(name)
