"""Beginning runs that a worker has claimed: each begins, or is ended or parked with a reason.

A run is read from many rows, by code that may be older than the code that wrote them. An error with
one run must not harm the others, nor the worker.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from onward.codec import encode_error
from onward.core.inbox import MessageKind
from onward.core.lease import Fate
from onward.core.run import MAX_CRASHES, Reason, RunState
from onward.engine.failures import classified
from onward.engine.payloads import pack
from onward.errors import OnwardError, Undecodable
from onward.model.commits import Commit
from onward.model.runs import Move, RunOwner
from onward.model.workers import LoadedRun
from onward.runtime.body.divergence import divergence_error
from onward.runtime.execution.execution import Execution
from onward.runtime.execution.guard import guarded
from onward.runtime.execution.reporting import report_claimed, report_crasher, report_left, scope_of
from onward.runtime.execution.stopping import read_stop
from onward.runtime.reading import STORE_ERRORS, unreadable
from onward.telemetry.events import emit
from onward.telemetry.interrupts import raise_interrupt

if TYPE_CHECKING:
    from collections.abc import Sequence

    from onward.engine.worker_engine import WorkerEngine
    from onward.model.commits import CommitOutcome
    from onward.model.messages import InboxRow
    from onward.model.records import RecordRow
    from onward.model.runs import ClaimedRun
    from onward.runtime.worker.session import WorkerSession


class Beginnings:
    """Begins the runs of one worker."""

    def __init__(self, worker: WorkerSession, engine: WorkerEngine) -> None:
        self._worker = worker
        self._engine = engine

    async def begin(self, claimed: Sequence[ClaimedRun]) -> None:
        """Begin runs that were just claimed."""
        runs = []
        for run in claimed:
            if run.crashes < MAX_CRASHES:
                runs.append(run)
            else:
                await self._end(run, Move(RunState.FAILED, Reason.CRASHED))
                report_crasher(self._worker.observer, run, self._worker.id, self._worker.now())
        warm = self._worker.take_warm(runs)
        try:
            await self._begin(runs, warm)
        finally:
            for kept in warm.values():  # those that were not begun
                kept.forget()

    async def _begin(self, runs: Sequence[ClaimedRun], warm: dict[str, Execution]) -> None:
        # A run that follows another begins with a part of its history.
        old = [run.uid for run in runs if run.fence > 1 or run.follows is not None]
        inboxes = {
            run.uid: warm[run.uid].seen if run.uid in warm else None for run in runs if run.inbox
        }
        cold = [uid for uid in old if uid not in warm]
        loaded = await self._engine.load(cold, inboxes) if cold or inboxes else {}
        for run in runs:
            if self._worker.released.get(run.uid) == run.fence:
                continue
            history, inbox, failure, _ = loaded.get(run.uid, LoadedRun())
            if failure is not None:
                row = f"the history or the inbox of run {run.id}"
                await self._refuse(run, inbox, unreadable(row, failure))
            elif run.uid in warm:
                self._resume(warm.pop(run.uid), run, inbox)
            else:
                await self._start(run, history, inbox)

    def _resume(self, kept: Execution, run: ClaimedRun, inbox: Sequence[InboxRow]) -> None:
        self._worker.own(kept, run)
        guarded(kept, partial(kept.resume, run, inbox))

    async def _start(
        self, run: ClaimedRun, history: Sequence[RecordRow], inbox: Sequence[InboxRow]
    ) -> None:
        worker = self._worker
        try:
            program = worker.programs.of(run)
            execution = Execution(run, program, worker, history, inbox, version=worker.version)
        except BaseException as error:  # noqa: BLE001 - it concerns only this run
            raise_interrupt(error)
            await self._refuse(run, inbox, error)
        else:
            worker.own(execution, run)
            guarded(execution, execution.begin)

    # --- runs that cannot begin ------------------------------------------------------------------

    async def _refuse(
        self, run: ClaimedRun, inbox: Sequence[InboxRow], error: BaseException
    ) -> None:
        """Park a run that newer code may read, end any other; the error names the row."""
        cancel = next((row for row in inbox if row.kind == MessageKind.CANCEL), None)
        if not isinstance(error, OnwardError) and isinstance(error, Exception):
            error = unreadable(f"run {run.id}", error).with_traceback(error.__traceback__)
        if not isinstance(error, Undecodable):
            move = Move(RunState.FAILED, Reason.INTERNAL, error=pack(encode_error(error)))
        elif cancel is not None:  # there is no code that could clean up
            move = read_stop(cancel).move
        else:
            self._park(run, error)
            return
        try:
            await self._end(run, move)
        except STORE_ERRORS:
            raise
        except Exception as broken:  # noqa: BLE001 - an audit releases it; the others begin
            emit("run.end_failed", scope_of(run, self._worker.id), cause=broken)
        else:
            self._report(run, move)

    async def _end(self, run: ClaimedRun, move: Move) -> None:
        by = RunOwner(self._worker.id, run.uid, run.fence)
        await self._engine.give_up(by, run.name, classified(move))

    def _park(self, run: ClaimedRun, error: Undecodable) -> None:
        move = Move(
            RunState.PAUSED,
            Reason.DIVERGENCE,
            error=pack(encode_error(divergence_error(error, None, [], run.id))),
            parked_by=self._worker.programs.mark_of(run),
            seen=run.inbox,
            seq=run.seq,
        )
        commit = Commit(run.uid, run.fence, move=move)
        self._worker.commit(commit, partial(self._parked, run, move))

    def _parked(self, run: ClaimedRun, move: Move, answer: CommitOutcome | BaseException) -> None:
        if isinstance(answer, BaseException):
            return  # an audit finds it
        if answer.fate is Fate.BUSY:  # a message came: the next claim reads that as well
            release = Move(RunState.READY, seq=run.seq)
            self._worker.commit(Commit(run.uid, run.fence, move=release), _ignore)
        else:
            self._report(run, move)

    def _report(self, run: ClaimedRun, move: Move) -> None:
        worker = self._worker
        scope = scope_of(run, worker.id)
        report_claimed(worker.observer, scope, run)
        report_left(worker.observer, scope, move, worker.now())


def _ignore(_: CommitOutcome | BaseException) -> None:
    """Do nothing: an audit finds a run that was not released."""
