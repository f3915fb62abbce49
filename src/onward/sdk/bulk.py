"""`app.bulk`: retry, fork, discard, cancel, pause and resume all runs that match a filter."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypedDict, TypeVar, Unpack

from onward.core.bulk import BulkAction
from onward.core.instant import duration
from onward.engine.search import RunPage
from onward.engine.starting import StartOptions
from onward.model.bulk import BulkOptions, Refusal
from onward.sdk.bulk_workflow import BulkFilter, BulkReport, BulkWorkflow
from onward.sdk.given import list_runs
from onward.sdk.inside import refuse_in_body
from onward.sdk.operator import this_user
from onward.sdk.run import Run
from onward.sdk.workflow import Workflow

if TYPE_CHECKING:
    from collections.abc import Mapping

    from onward.core.instant import DurationLike, Instant
    from onward.engine.client_engine import ClientEngine
    from onward.engine.views import RunInfo
    from onward.model.run_filter import RunQuery

__all__ = ["Bulk", "BulkAnswer", "BulkReport", "BulkRuns", "Refusal"]

MAX_COUNT = 10_000
MAX_READ = 1000
SAMPLE = 10

H = TypeVar("H")


class BulkRuns(TypedDict, total=False):
    """The filters of a bulk action; a run must match all of them.

    Attributes:
        name: The name of the workflow.
        error: The error type of a failed run, with or without its module.
        failed_step: The name of the step, effect or child whose error ended a failed run.
        since: Only failed runs that ended at most this long ago, such as "1h".
        state: The state; by default, any state that the action applies to.
        queue: The queue.
        tag: A tag of the run.
        attributes: Attributes of the run; they are not indexed.
    """

    name: str | None
    error: str | None
    failed_step: str | None
    since: DurationLike | None
    state: str | None
    queue: str | None
    tag: str | None
    attributes: Mapping[str, Any] | None


@dataclass(frozen=True, slots=True)
class BulkAnswer(Generic[H]):
    """The runs that match a bulk action, and the run that carries it out.

    Attributes:
        action: retry, fork, discard, cancel, pause or resume.
        count: How many runs match, counted up to 10,000, or up to 1,000 if you filter by
            attributes.
        is_capped: Whether more than `count` runs match.
        sample: The newest matching runs.
        run: A handle for the bulk action; its result is a `BulkReport`. None for a dry run.
    """

    action: str
    count: int
    is_capped: bool
    sample: tuple[RunInfo, ...]
    run: H | None


class Bulk:
    """Actions on all runs that match a filter (`app.bulk`).

    An action is itself a run, and any worker can carry it out. It survives crashes, acts on each
    run once, and can be paused, cancelled and retried. Its `info().progress` shows how much has
    been done. With `dry_run=True`, no action is started, and the answer shows which runs match.

    Example:
        >>> import asyncio
        >>> from onward import App, Fatal, workflow
        >>> broken = True
        >>> @workflow
        ... async def ship(parcel: int) -> str:
        ...     if broken:
        ...         raise Fatal("no label")
        ...     return "shipped"
        >>> async def main() -> tuple[int, int]:
        ...     global broken
        ...     app = App(":memory:")
        ...     async with app, app.worker(workflows=[ship]):
        ...         runs = [await app.start(ship, parcel) for parcel in range(3)]
        ...         await asyncio.gather(*(run.result() for run in runs), return_exceptions=True)
        ...         broken = False
        ...         preview = await app.bulk.retry(name="ship", error="Fatal", dry_run=True)
        ...         started = await app.bulk.retry(name="ship", error="Fatal")
        ...         report = await started.run.result()
        ...         return preview.count, report.done
        >>> asyncio.run(main())
        (3, 3)
    """

    def __init__(self, engine: ClientEngine) -> None:
        self._opened = engine

    @property
    def _engine(self) -> ClientEngine:
        refuse_in_body("a call to app.bulk")
        return self._opened

    async def retry(
        self,
        *,
        dry_run: bool = False,
        force: bool = False,
        id: str | None = None,  # noqa: A002 - it is the user's word
        **runs: Unpack[BulkRuns],
    ) -> BulkAnswer[Run[BulkReport]]:
        """Retry runs, by default dead letters; see `App.retry`.

        Args:
            dry_run: Whether to only report which runs match.
            force: Whether to retry runs even if they sent effects because of their errors.
            id: An id for the action; a second call with the same id and filters returns the first
                action.
            **runs: The filters; see `BulkRuns`.
        """
        options = BulkOptions(force=force)
        return await self._start(BulkAction.RETRY, options, runs, dry_run, id)

    async def fork(
        self,
        *,
        dry_run: bool = False,
        step: str | None = None,
        resend: bool = False,
        id: str | None = None,  # noqa: A002 - it is the user's word
        **runs: Unpack[BulkRuns],
    ) -> BulkAnswer[Run[BulkReport]]:
        """Fork runs in place, by default dead letters; see `App.fork`.

        Args:
            dry_run: Whether to only report which runs match.
            step: The name of the step to fork from; None keeps the whole history.
            resend: Whether effects that happened, or may have happened, may be sent again.
            id: An id for the bulk action.
            **runs: The filters; see `BulkRuns`.
        """
        options = BulkOptions(step=step, resend=resend)
        return await self._start(BulkAction.FORK, options, runs, dry_run, id)

    async def discard(
        self,
        *,
        dry_run: bool = False,
        reason: str = "",
        by: str | None = None,
        id: str | None = None,  # noqa: A002 - it is the user's word
        **runs: Unpack[BulkRuns],
    ) -> BulkAnswer[Run[BulkReport]]:
        """Discard dead letters; see `Dead.discard`.

        Args:
            dry_run: Whether to only report which runs match.
            reason: The reason, which is recorded with each run.
            by: The name of the operator; by default the user of this process.
            id: An id for the bulk action.
            **runs: The filters; see `BulkRuns`.
        """
        options = BulkOptions(reason=reason, by=by or this_user())
        return await self._start(BulkAction.DISCARD, options, runs, dry_run, id)

    async def cancel(
        self,
        *,
        dry_run: bool = False,
        force: bool = False,
        grace: DurationLike | None = None,
        id: str | None = None,  # noqa: A002 - it is the user's word
        **runs: Unpack[BulkRuns],
    ) -> BulkAnswer[Run[BulkReport]]:
        """Cancel open runs; see `Run.cancel`.

        Args:
            dry_run: Whether to only report which runs match.
            force: Whether to end the runs at once, without cleanup.
            grace: How long cleanup may take.
            id: An id for the bulk action.
            **runs: The filters; see `BulkRuns`.
        """
        options = BulkOptions(force=force, grace=None if grace is None else duration(grace))
        return await self._start(BulkAction.CANCEL, options, runs, dry_run, id)

    async def pause(
        self,
        *,
        dry_run: bool = False,
        id: str | None = None,  # noqa: A002 - it is the user's word
        **runs: Unpack[BulkRuns],
    ) -> BulkAnswer[Run[BulkReport]]:
        """Pause open runs; see `App.pause`."""
        return await self._start(BulkAction.PAUSE, BulkOptions(), runs, dry_run, id)

    async def resume(
        self,
        *,
        dry_run: bool = False,
        id: str | None = None,  # noqa: A002 - it is the user's word
        **runs: Unpack[BulkRuns],
    ) -> BulkAnswer[Run[BulkReport]]:
        """Resume paused runs; see `App.resume`."""
        return await self._start(BulkAction.RESUME, BulkOptions(), runs, dry_run, id)

    async def _start(
        self,
        action: BulkAction,
        options: BulkOptions,
        runs: BulkRuns,
        dry_run: bool,  # noqa: FBT001 - an option of all actions
        id: str | None,  # noqa: A002 - it is the user's word
    ) -> BulkAnswer[Run[BulkReport]]:
        engine = self._engine
        chosen = _chosen(runs, await engine.now())
        query = chosen.query(action)
        count, is_capped = await _count(engine, query, chosen.attributes)
        sample = await engine.list_runs(query, RunPage(SAMPLE), chosen.attributes)
        run = None
        if not dry_run:
            work = BulkWorkflow(engine).definition
            queue = await engine.queue_served(work.queue)
            start: Workflow[..., BulkReport] = Workflow(work, StartOptions(id=id, queue=queue))
            begun = BulkReport(action.value, total=count)
            new = start.row((begun, chosen, options), {}, uid=engine.new_uid())
            # A repeated start asks for the same, at another time: that is not part of the hash.
            asked = start.row((BulkReport(action.value), _chosen(runs, None), options), {})
            started = await engine.start(new._replace(args_hash=asked.args_hash), "return")
            run = Run[BulkReport](started.uid, id or started.uid, engine, work)
        return BulkAnswer(action.value, count, is_capped, tuple(sample), run)


def _chosen(runs: BulkRuns, now: Instant | None) -> BulkFilter:
    """Return a filter as it is stored; without the time, as it was given."""
    since = runs.get("since")
    length = None if since is None else duration(since)
    attributes = runs.get("attributes") or {}
    return BulkFilter(
        runs.get("name"),
        runs.get("state"),
        runs.get("queue"),
        runs.get("tag"),
        runs.get("error"),
        runs.get("failed_step"),
        length if length is None or now is None else now - length,
        now,
        {name: [value] for name, value in attributes.items()},
    )


async def _count(
    engine: ClientEngine, query: RunQuery, attributes: Mapping[str, list[Any]]
) -> tuple[int, bool]:
    """Return how many runs match as far as they are counted, and whether there are more."""
    if attributes:  # no index has them: these runs are read
        most, found = (
            MAX_READ,
            len(await list_runs(engine, query, RunPage(MAX_READ + 1), attributes)),
        )
    else:
        most, found = MAX_COUNT, await engine.count_runs(query, MAX_COUNT + 1)
    return min(found, most), found > most
