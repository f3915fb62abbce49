"""The workflow that carries out bulk actions; every worker can run it.

The runs to act on are found page by page, and each page is a recorded step: which runs, and the
uids of the runs that a retry or a fork of them makes. Acting on a page is the next step. If a
worker dies on the way, another one acts on the same page again, and what was done already is
recognised by these uids. So each run is acted on once.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from onward.codec import signature_of
from onward.core.bulk import BulkAction
from onward.core.retry import Retry
from onward.engine.bulk import BULK_WORKFLOW, refusal_of, target_query
from onward.engine.search import RunPage
from onward.errors import NamespaceDisabled
from onward.model.bulk import BulkOptions, Refusal, Target
from onward.model.run_filter import RunQuery
from onward.runtime.definition import StepDefinition, WorkflowDefinition
from onward.sdk.current import current
from onward.sdk.inside import continue_as_new
from onward.sdk.step import Step

if TYPE_CHECKING:
    from onward.engine.client_engine import ClientEngine

PAGE = 100
PAGES = 100
"""After so many pages the action continues as a new run, with a short history."""
AT_ONCE = 8
MAX_LISTED = 1000
"""How many refusals a report lists; all are counted."""

# A database that is away for a while does not end a bulk action.
_PATIENCE = Retry(attempts=20, delay="1s", max_delay="1m")


@dataclass(frozen=True, slots=True)
class BulkFilter:
    """Which runs a bulk action is for; see `BulkRuns`."""

    name: str | None = None
    state: str | None = None
    queue: str | None = None
    tag: str | None = None
    error: str | None = None
    failed_step: str | None = None
    since: int | None = None
    created_by: int | None = None
    attributes: dict[str, list[Any]] = field(default_factory=dict)

    def query(self, action: BulkAction) -> RunQuery:
        """Return which runs are acted on.

        Raises:
            BadInput: the action is for no such runs.
        """
        query = RunQuery(
            self.name,
            self.state,
            self.queue,
            None,
            self.tag,
            error=self.error,
            failed_step=self.failed_step,
            since=self.since,
            created_by=self.created_by,
        )
        return target_query(action, query)


@dataclass(frozen=True, slots=True)
class BulkReport:
    """What a bulk action has done.

    Attributes:
        action: retry, fork, discard, cancel, pause or resume.
        total: How many runs matched when the action was started, counted up to a limit.
        done: How many runs it has acted on.
        refused: How many runs it left unchanged.
        by_error: How many runs were refused, by error code.
        refusals: The first 1,000 refusals, each with the option that overrides it.
    """

    action: str
    total: int = 0
    done: int = 0
    refused: int = 0
    by_error: dict[str, int] = field(default_factory=dict)
    refusals: list[Refusal] = field(default_factory=list)

    def plus(self, acted_on: int, refusals: list[Refusal]) -> BulkReport:
        """Return this report with another page of runs added."""
        errors = Counter(self.by_error) + Counter(refusal.error for refusal in refusals)
        return replace(
            self,
            done=self.done + acted_on - len(refusals),
            refused=self.refused + len(refusals),
            by_error=dict(sorted(errors.items())),
            refusals=(self.refusals + refusals)[:MAX_LISTED],
        )

    @property
    def progress(self) -> dict[str, int | str]:
        """The progress to show while the action runs."""
        shown = {"total": self.total, "done": self.done, "refused": self.refused}
        return {"action": self.action} | shown


class BulkWorkflow:
    """The workflow and its steps, over the engine of a worker's app."""

    def __init__(self, engine: ClientEngine) -> None:
        self._engine = engine
        self._find = _step("find_runs", self.find)
        self._act = _step("act_on_runs", self.act)
        self.definition = WorkflowDefinition(BULK_WORKFLOW, self.run, signature_of(self.run))

    async def run(
        self,
        report: BulkReport,
        chosen: BulkFilter,
        options: BulkOptions,
        before: str | None = None,
    ) -> BulkReport:
        """Act on all runs that match, and report what was done."""
        current().attributes["action"] = report.action
        for _ in range(PAGES):
            page = await self._find(report.action, chosen, before)
            if page:
                refusals = await self._act(report.action, page, options)
                report = report.plus(len(page), refusals)
                current().progress(report.progress)
                before = page[-1][0]
            if len(page) < PAGE:
                return report
        return continue_as_new(report, chosen, options, before)

    async def find(
        self, action: str, chosen: BulkFilter, before: str | None
    ) -> list[tuple[str, str, str]]:
        """Return the next runs to act on, newest first, and the uids for what they become."""
        query = chosen.query(BulkAction(action))
        found = await self._engine.list_runs(query, RunPage(PAGE, before), chosen.attributes)
        return [(info.uid, info.id, self._engine.new_uid()) for info in found]

    async def act(
        self, action: str, page: list[tuple[str, str, str]], options: BulkOptions
    ) -> list[Refusal]:
        """Act on some runs, and return those that were refused."""
        gate = asyncio.Semaphore(AT_ONCE)

        async def one(target: Target) -> Refusal | None:
            async with gate:
                try:
                    return await self._engine.act(BulkAction(action), target, options)
                except NamespaceDisabled as error:  # by now: the report says so
                    return refusal_of(BulkAction(action), target, error)

        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(one(Target._make(each))) for each in page]
        return [refusal for task in tasks if (refusal := task.result()) is not None]


def _step(name: str, fn: Any) -> Step[..., Any]:
    definition = StepDefinition(
        name, fn, signature_of(fn), is_async=True, retry=_PATIENCE, record_args=False
    )
    return Step(definition)
