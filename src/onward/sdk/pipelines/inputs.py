"""`app.inputs`: the external things that entered pipelines, and what happened because of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from onward.core.instant import duration
from onward.engine.page_sizes import MAX_PAGE, check_size
from onward.engine.pipeline_engine import STALE_AFTER, InputFilter
from onward.engine.pipelines.views import InputCounts, InputInfo, InputReport, SkippedInput
from onward.errors import BadInput
from onward.sdk.given import given_id
from onward.sdk.inside import refuse_in_body
from onward.sdk.operator import this_user

if TYPE_CHECKING:
    from onward.core.instant import DurationLike
    from onward.engine.client_engine import ClientEngine
    from onward.engine.pipeline_engine import PipelineEngine

__all__ = ["InputCounts", "InputInfo", "InputReport", "Inputs", "SkippedInput"]

STATES = ("pending", "done", "skipped", "stale")

# In a class with a method `list`, these name the type.
Infos: TypeAlias = list[InputInfo]
Counts: TypeAlias = list[InputCounts]


class Inputs:
    """Operations on the inputs of an app's pipelines (`app.inputs`): list, explain and skip them.

    An input is pending until every consumer has consumed or skipped every event that it caused.
    """

    def __init__(self, engine: ClientEngine) -> None:
        self._opened = engine

    @property
    def _engine(self) -> PipelineEngine:
        refuse_in_body("a call to app.inputs")
        return self._opened.pipelines

    async def list(
        self,
        *,
        pipeline: str | None = None,
        state: str | None = None,
        source: str | None = None,
        text: str | None = None,
        limit: int = 100,
        stale_after: DurationLike | None = None,
    ) -> Infos:
        """Return the inputs that match all filters, newest first.

        Args:
            pipeline: The pipeline that the inputs entered.
            state: "pending", "done", "skipped", or "stale" for inputs that have been pending for
                too long.
            source: Where the inputs come from, such as "gmail".
            text: Part of the title or of the external id.
            limit: The maximum number of inputs to return: 1 to 1,000.
            stale_after: How long an input may be pending before it is stale; by default 7 days.
        """
        if state is not None and state not in STATES:
            raise BadInput(
                f"state={state!r}", f"is not one of {', '.join(STATES)}", "Use one of them"
            )
        check_size("limit", limit, MAX_PAGE, minimum=1)
        return await self._engine.inputs(
            InputFilter(pipeline, state, source, text, limit, _stale(stale_after))
        )

    async def counts(
        self, pipeline: str | None = None, *, stale_after: DurationLike | None = None
    ) -> Counts:
        """Return how many inputs of each source and type are in each state."""
        return await self._engine.input_counts(pipeline, _stale(stale_after))

    async def get(self, id: str) -> InputReport:  # noqa: A002 - it is the user's word
        """Return everything that an input has caused: its events and their effects.

        Raises:
            NotFound: there is no input with this id.
        """
        return await self._engine.input(given_id(id, "the input id"))

    async def skip(
        self,
        id: str,  # noqa: A002 - it is the user's word
        *,
        reason: str,
        by: str | None = None,
    ) -> SkippedInput:
        """Skip an input, so that nothing new starts because of it.

        Its pending events are skipped. A run that has reserved some of its events is cancelled if
        it has not sent its effect yet; otherwise, the run completes. Consumed events stay consumed.

        Args:
            id: The id of the input.
            reason: The reason, which is recorded with the skip.
            by: The name of the operator; by default the user of this process.

        Raises:
            NotFound: there is no input with this id.
        """
        return await self._engine.skip_input(
            given_id(id, "the input id"), reason, by or this_user()
        )


def _stale(given: DurationLike | None) -> int:
    return STALE_AFTER if given is None else duration(given)
