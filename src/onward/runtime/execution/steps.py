"""The steps of a run in motion: they are performed, tried again, and their outcomes written."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from onward.core.replay import RecordState
from onward.runtime.body.notes import step_notes
from onward.runtime.execution.guard import on_done

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Mapping

    from onward.core.instant import Duration, Instant
    from onward.model.records import NewRecord
    from onward.runtime.body.calls import Call, StepCall
    from onward.runtime.body.notes import Noted
    from onward.runtime.execution.execution import Execution
    from onward.runtime.execution.host import Host
    from onward.runtime.execution.journal import Journal
    from onward.runtime.running import Running


class Steps:
    """The steps of one run."""

    def __init__(
        self, execution: Execution, journal: Journal, host: Host, tried: Mapping[str, Instant]
    ) -> None:
        self._execution = execution
        self._journal = journal
        self._host = host
        self._tried = tried

    def perform(self, call: StepCall) -> None:
        """Begin an attempt of a step, unless nothing new may be begun."""
        if self._execution.holds_back(call):
            return
        call.due = None
        call.since = call.since or self._tried.get(call.identity)
        self._execution.waits.discard(call)
        self._execution.performing += 1
        running = call.running = self._host.perform(self._execution, call)
        on_done(self._execution, running.ended, lambda done: self._performed(call, running, done))

    def _performed(self, call: StepCall, running: Running, done: asyncio.Future[None]) -> None:
        if call.running is running:
            call.running = None
        self._execution.performing -= 1
        if not done.cancelled():
            done.result()  # an attempt ends with an outcome; an error here is none
        if not self._journal.writing:
            self._execution.pump()

    def close(
        self,
        call: StepCall,
        *,
        payload: bytes | None = None,
        error: bytes | None = None,
        noted: Noted | None = None,
    ) -> None:
        """Write the outcome of a step; the body is handed it once it is written."""
        notes = self.notes_of(call, noted)
        state = RecordState.SUCCEEDED if error is None else RecordState.FAILED
        pump = self._execution.pump
        self._journal.close(call, state, pump, payload=payload, error=error, notes=notes)

    def try_again(self, call: StepCall, error: bytes, after: Duration) -> None:
        """Write that an attempt failed, and make the next one after a while."""

        def wait(due: Instant) -> None:
            call.attempt += 1
            call.due = due
            call.expired = None
            if not self._execution.is_gone:
                self._execution.do(call)
                self._execution.pump()

        self._journal.fail_attempt(call, error, after, wait)

    def notes_of(self, call: Call, noted: Noted | None) -> Callable[[int], NewRecord] | None:
        """Return what makes a record of what a call has noted, if it has noted anything."""
        return partial(self._notes, call, noted) if noted else None

    def _notes(self, call: Call, noted: Noted, seq: int) -> NewRecord:
        kept = self._execution.notes.keep(call.identity, noted, seq)
        return self._journal.note_row(step_notes(call.identity), kept)
