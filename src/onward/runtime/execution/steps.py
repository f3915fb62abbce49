"""The steps of a run in motion: they are performed, tried again, and their outcomes written."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Protocol

from onward.codec import encode_error
from onward.core.replay import RecordState
from onward.engine.payloads import pack
from onward.model.commits import NOTHING_ATTACHED, Attachments
from onward.runtime.body.notes import step_notes
from onward.runtime.execution.guard import GuardedRun, fail
from onward.runtime.pipelines.failures import ReservationLost
from onward.runtime.pipelines.phases import PhaseCall

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from onward.core.instant import Duration, Instant
    from onward.core.run import Reason
    from onward.engine.notes import Noted
    from onward.model.records import NewRecord
    from onward.model.runs import ClaimedRun
    from onward.runtime.attempts.attempt import Attempt
    from onward.runtime.body.call_sink import CallSink
    from onward.runtime.body.calls import Call, StepCall
    from onward.runtime.body.notes import Notes
    from onward.runtime.body.waits import Waits
    from onward.runtime.definition import Program
    from onward.runtime.execution.host import Host
    from onward.runtime.execution.journal import Journal
    from onward.telemetry.scope import RunScope


# Looked up once: see `core.replay.machine`.
_SUCCEEDED, _FAILED = RecordState.SUCCEEDED, RecordState.FAILED


class StepRun(GuardedRun, Protocol):
    """The run whose steps these are."""

    uid: str
    claimed: ClaimedRun
    scope: RunScope
    program: Program
    waits: Waits
    notes: Notes

    @property
    def fence(self) -> int: ...

    @property
    def calls(self) -> CallSink: ...

    def is_wanted(self, call: Call) -> bool: ...

    def holds_back(self, call: StepCall) -> bool: ...

    def pump(self) -> None: ...


class Steps:
    """The steps of one run, as the attempts see it that perform them (a `StepOwner`)."""

    def __init__(
        self, execution: StepRun, journal: Journal, host: Host, tried: Mapping[str, Instant]
    ) -> None:
        self._execution = execution
        self._journal = journal
        self._host = host
        self._tried = tried
        self.run = execution.claimed
        self.scope = execution.scope
        self.retry = execution.program.retry
        self.under_way = 0
        """How many attempts are under way."""

    def is_wanted(self, call: Call) -> bool:
        return self._execution.is_wanted(call)

    def report_progress(self, value: bytes) -> None:
        self._host.progress(self._execution, value)

    def perform(self, call: StepCall) -> None:
        """Begin an attempt of a step, unless nothing new may be begun."""
        if self._execution.holds_back(call):
            return
        if call.due is not None:
            call.due = None
            self._execution.waits.discard(call)
        if self._tried and call.since is None:
            call.since = self._tried.get(call.identity)
        self.under_way += 1
        call.running = self._host.perform(self, call)

    def step_ended(self, call: StepCall, attempt: Attempt, error: BaseException | None) -> None:
        if call.running is attempt:
            call.running = None
        self.under_way -= 1
        if error is not None and not isinstance(error, asyncio.CancelledError):
            fail(self._execution, error)
        elif not self._journal.writing:
            # Not at once: this may still be the task of the step.
            self._host.loop.call_soon(self._execution.pump, context=self._host.context)

    def close_step(
        self,
        call: StepCall,
        *,
        payload: bytes | None = None,
        error: bytes | None = None,
        noted: Noted | None = None,
        attached: Attachments = NOTHING_ATTACHED,
    ) -> None:
        """Write the outcome of a step; the body is handed it once it is written."""
        if attached.pipeline is not None:
            self._close_phase(call, payload, attached)
        elif self._execution.is_wanted(call):
            state = _SUCCEEDED if error is None else _FAILED
            notes = self.notes_of(call, noted) if noted is not None else None
            pump = self._execution.pump
            self._journal.close(
                call, state, pump, payload=payload, error=error, notes=notes, attached=attached
            )

    def _close_phase(self, call: StepCall, payload: bytes | None, attached: Attachments) -> None:
        """Write the outcome of a phase of a handler; with the last one the run ends."""
        if not self._execution.is_wanted(call):
            return
        if isinstance(call, PhaseCall) and call.ends_run:
            self._execution.leaving.complete(call, payload, attached)
        else:
            pump, lost = self._execution.pump, pack(encode_error(ReservationLost()))
            self._journal.close(
                call, _SUCCEEDED, pump, payload=payload, attached=attached, if_refused=lost
            )

    def pause_phase(self, call: PhaseCall, error: bytes, reason: Reason) -> None:
        """Write that a phase needs an operator; the run pauses once nothing else can move."""

        def wait(_due: Instant) -> None:
            call.attempt += 1
            call.due = call.expired = None
            call.operator_reason, call.pause_error = reason, error
            if self._execution.is_wanted(call):
                self._execution.waits.add(call)
                self._execution.pump()

        if self._execution.is_wanted(call):
            self._journal.fail_attempt(call, error, 0, wait)

    def retry_step(self, call: StepCall, error: bytes, after: Duration) -> None:
        """Write that an attempt failed, and make the next one after a while."""

        def wait(due: Instant) -> None:
            call.attempt += 1
            call.due = due
            call.expired = None
            if not self._execution.is_gone:
                self._execution.calls.do(call)
                self._execution.pump()

        if self._execution.is_wanted(call):
            self._journal.fail_attempt(call, error, after, wait)

    def notes_of(self, call: Call, noted: Noted | None) -> Callable[[int], NewRecord] | None:
        """Return what makes a record of what a call has noted, if it has noted anything."""
        return partial(self._notes, call, noted) if noted else None

    def _notes(self, call: Call, noted: Noted, seq: int) -> NewRecord:
        kept = self._execution.notes.keep(call.identity, noted, seq)
        return self._journal.note_row(step_notes(call.identity), kept)
