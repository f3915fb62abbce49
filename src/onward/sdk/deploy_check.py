"""Does the code of this process fit the open runs of a store? Their histories are replayed."""

from __future__ import annotations

import sys
from contextlib import redirect_stdout
from typing import TYPE_CHECKING, Any, NamedTuple

from onward.engine.display import shown_value
from onward.errors import OnwardError
from onward.runtime.execution.rehearsal import Rehearsal, ReplayMisfit, rehearse
from onward.runtime.worker.programs import Programs
from onward.sdk.bulk_workflow import BulkWorkflow
from onward.sdk.pipelines.process import serve
from onward.sdk.worker_context import registry_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from onward.engine.open_runs import OpenRun
    from onward.runtime.registry import Registry
    from onward.sdk.app import App

PAGE = 100


class CheckedRun(NamedTuple):
    """An open run, and how the code fits its history.

    Attributes:
        id: Its id.
        uid: Its uid.
        name: The name of its workflow.
        skipped: Why it was not replayed, if it was not.
        rehearsal: How its replay went.
        recorded_args: The arguments of the recorded call that does not fit; None: not stored.
        asked_args: The arguments of the call that the code makes instead.
    """

    id: str
    uid: str
    name: str
    skipped: str | None = None
    rehearsal: Rehearsal | None = None
    recorded_args: Any = None
    asked_args: Any = None

    @property
    def misfit(self) -> ReplayMisfit | None:
        """Why the run cannot continue with the code, if it cannot."""
        return None if self.rehearsal is None else self.rehearsal.misfit


async def check_open_runs(app: App, uids: Sequence[str]) -> AsyncIterator[CheckedRun]:
    """Replay the histories of open runs with the code of this process.

    Nothing is written, and no step is executed. A run that has ended is left out.

    Args:
        app: The app, which is open.
        uids: The runs.

    Raises:
        BadPipeline: pipelines of this process are not declared correctly.
    """
    own = BulkWorkflow(app._engine).definition
    registry = registry_of(None, own, handlers=serve(None).handlers)
    names = frozenset(registry.names)
    programs = Programs(registry, app._version)
    for begin in range(0, len(uids), PAGE):
        for each in await app._engine.open_runs(uids[begin : begin + PAGE]):
            skipped = _why_skipped(each, names, app._version)
            if skipped is None:
                yield await _check(app, each, programs, registry)
            else:
                yield CheckedRun(each.run.id, each.run.uid, each.run.name, skipped)


def _why_skipped(found: OpenRun, names: frozenset[str], version: str | None) -> str | None:
    if found.run.version not in (None, version):
        return f"pinned to version {found.run.version!r}"
    if found.run.name not in names:
        return "not defined by this code"
    return None


async def _check(app: App, found: OpenRun, programs: Programs, registry: Registry) -> CheckedRun:
    run = found.run
    if found.failure is not None:
        text = f"its history cannot be read: {found.failure}"
        return CheckedRun(
            run.id, run.uid, run.name, None, Rehearsal(ReplayMisfit("unreadable", text))
        )
    now = (await app._engine.read_clock()).store
    try:
        program = programs.of(run)
    except OnwardError as error:
        refused = Rehearsal(ReplayMisfit("unreadable", str(error)))
        return CheckedRun(run.id, run.uid, run.name, None, refused)
    with redirect_stdout(sys.stderr):  # what a body prints is no part of the answer
        rehearsal = rehearse(run, program, found.history, registry, now)
    misfit, recorded = rehearsal.misfit, None
    if misfit is not None and misfit.recorded is not None:
        recorded = await app._engine.recorded_arguments(run.uid, misfit.recorded.identity)
    asked = None if misfit is None else shown_value(misfit.asked_args)
    return CheckedRun(run.id, run.uid, run.name, None, rehearsal, recorded, asked)
