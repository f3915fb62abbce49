"""`app.dead`: dead letters, which are failed and timed-out runs that await a decision."""

from __future__ import annotations

from shlex import quote
from typing import TYPE_CHECKING, Any

from onward.core.instant import duration
from onward.core.run import DEAD
from onward.engine.client_engine import Decision, FailurePeriod
from onward.engine.page_sizes import MAX_COUNTED, MAX_PAGE, check_size
from onward.engine.search import RunPage
from onward.engine.views import Discard, FailureGroup, RunInfo
from onward.errors import NotFound
from onward.model.run_filter import RunQuery
from onward.sdk.given import check_texts, given_id, list_runs
from onward.sdk.inside import refuse_in_body
from onward.sdk.operator import this_user

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from onward.core.instant import DurationLike
    from onward.engine.client_engine import ClientEngine
    from onward.sdk.run import Run

    Retry = Callable[..., Awaitable[Run[Any]]]
    RunInfos = list[RunInfo]  # in the class, `list` is its method
    FailureGroups = list[FailureGroup]

__all__ = ["Dead", "Discard", "FailureGroup"]

MAX_COUNT = 10_000


class Dead:
    """The dead letters of an app (`app.dead`): failed and timed-out runs that await a decision.

    A run leaves the list when it is discarded, or when it is retried, forked or replaced under its
    id. A child that its parent awaits is never in the list, because its parent receives the error.

    Example:
        >>> import asyncio
        >>> from onward import App, Fatal, step, workflow
        >>> @step
        ... async def charge(cents: int) -> None:
        ...     raise Fatal("card declined")
        >>> @workflow
        ... async def pay(cents: int) -> None:
        ...     await charge(cents)
        >>> async def main() -> list[str]:
        ...     app = App(":memory:")
        ...     async with app, app.worker(workflows=[pay]):
        ...         run = await app.start(pay.options(id="pay-7"), 100)
        ...         await asyncio.wait([asyncio.ensure_future(run.result())])
        ...         [letter] = await app.dead.list()
        ...         await app.dead.discard("pay-7", reason="the customer paid in cash")
        ...         left = await app.dead.list()
        ...     return [letter.id, letter.failed_step, str(len(left))]
        >>> asyncio.run(main())
        ['pay-7', 'charge', '0']
    """

    def __init__(self, engine: ClientEngine, retry: Retry) -> None:
        self._opened = engine
        self._retry = retry

    @property
    def _engine(self) -> ClientEngine:
        refuse_in_body("a call to app.dead")
        return self._opened

    async def list(  # noqa: PLR0913 - each narrows the list in a way of its own
        self,
        *,
        name: str | None = None,
        error: str | None = None,
        failed_step: str | None = None,
        state: str | None = None,
        queue: str | None = None,
        tag: str | None = None,
        since: DurationLike | None = None,
        attributes: Mapping[str, Any] | None = None,
        limit: int = 100,
        before: str | None = None,
    ) -> RunInfos:
        """Return the dead letters that match all filters, newest first.

        Args:
            name: The name of the workflow.
            error: The type of the error, with or without its module, such as "ValueError" or
                "CardDeclined".
            failed_step: The name of the step, effect or child whose error ended the run.
            state: "failed" or "timed_out".
            queue: The queue.
            tag: A tag of the run.
            since: Only runs that ended at most this long ago, such as "1h".
            attributes: Attributes of the run; they are not indexed.
            limit: The maximum number of runs.
            before: The uid of the last run on the previous page.

        Raises:
            BadInput: there is no such state, the tag is not valid, or the limit is not a whole
                number or is negative.
        """
        check_texts(before=before)
        query = await self._query(name, error, failed_step, state, queue, tag, since)
        wanted = {said: [value] for said, value in (attributes or {}).items()}
        return await list_runs(self._engine, query, RunPage(limit, before), wanted)

    async def count(  # noqa: PLR0913 - each narrows the count in a way of its own
        self,
        *,
        name: str | None = None,
        error: str | None = None,
        failed_step: str | None = None,
        state: str | None = None,
        queue: str | None = None,
        tag: str | None = None,
        since: DurationLike | None = None,
        maximum: int = MAX_COUNT,
    ) -> int:
        """Return how many dead letters match, counting up to a maximum; see `list`."""
        query = await self._query(name, error, failed_step, state, queue, tag, since)
        return await self._engine.count_runs(query, check_size("maximum", maximum, MAX_COUNTED))

    async def _query(  # noqa: PLR0913 - see `list`
        self,
        name: str | None,
        error: str | None,
        failed_step: str | None,
        state: str | None,
        queue: str | None,
        tag: str | None,
        since: DurationLike | None,
    ) -> RunQuery:
        check_texts(name=name, error=error, failed_step=failed_step)
        check_texts(state=state, queue=queue, tag=tag)
        after = None if since is None else await self._engine.now() - duration(since)
        return RunQuery(
            name,
            state,
            queue,
            None,
            tag,
            dead=True,
            error=error,
            failed_step=failed_step,
            since=after,
        )

    async def groups(
        self, *, name: str | None = None, since: DurationLike | None = None, parts: int = 24
    ) -> FailureGroups:
        """Return dead letters grouped by workflow, error type and failed call.

        The largest groups come first. At most 100 groups are returned, and at most 1,000 runs in
        each group are counted.

        Args:
            name: Only runs of this workflow.
            since: Only runs that ended at most this long ago; by default, all runs.
            parts: The number of equal intervals in the `timeline` of each group.
        """
        check_texts(name=name)
        check_size("parts", parts, MAX_PAGE, minimum=1)
        length = None if since is None else duration(since)
        return await self._engine.failure_groups(FailurePeriod(name, length, parts))

    async def get(self, id: str) -> RunInfo:  # noqa: A002 - it is the user's word
        """Return a dead letter with its attributes, progress and error.

        Raises:
            NotFound: no run has this id, or the newest run with this id is not a dead letter.
        """
        info = await self._engine.info(given_id(id))
        if info.state not in DEAD or info.discarded is not None:
            raise NotFound(
                "dead letter",
                id,
                self._engine.namespace,
                f"Look at the run: onward runs show {quote(id)}",
            )
        return info

    async def replay(self, id: str, *, force: bool = False) -> Run[Any]:  # noqa: A002 - it is the user's word
        """Retry a dead letter from the failed call, in a new run with the same id.

        This does the same as `App.retry`, and raises the same errors.
        """
        return await self._retry(id, force=force)

    async def discard(
        self,
        id: str,  # noqa: A002 - it is the user's word
        *,
        reason: str = "",
        by: str | None = None,
    ) -> bool:
        """Discard a dead letter: the run keeps its state, but is no longer listed.

        The run and its history are kept, and `App.retry` can still retry it.

        Args:
            id: The id of the run.
            reason: The reason, which is recorded with the run.
            by: The name of the operator; by default the user of this process.

        Returns:
            False if the newest run with this id is not a dead letter.

        Raises:
            NotFound: no run has this id.
        """
        return await self._engine.discard(given_id(id), Decision(reason, by or this_user()))
