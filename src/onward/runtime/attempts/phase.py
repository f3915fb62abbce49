"""Running a phase of a handler: one attempt, and what its outcome means for the run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from onward.codec import encode_error
from onward.engine.payloads import pack
from onward.errors import BadInput
from onward.model.commits import Attachments
from onward.runtime.attempts.perform import StepAttempt
from onward.runtime.pipelines.failures import PAUSED_BY, failed, reason_of
from onward.runtime.pipelines.phases import PhaseCall, PhaseResult

if TYPE_CHECKING:
    from onward.telemetry.observer import StepOutcome


class PhaseAttempt(StepAttempt):
    """One attempt of a phase. It is not tried again by itself: its run ends, or pauses."""

    __slots__ = ()

    def _encoded(self, result: Any) -> bytes:
        assert isinstance(result, PhaseResult)
        self._attached = Attachments(pipeline=result.write)
        return super()._encoded(result)

    def _failed(self, error: BaseException) -> None:
        if self.is_left:
            return
        call = self._call
        assert isinstance(call, PhaseCall)
        outcome: StepOutcome = "failed" if error is not call.expired else "timed_out"
        self._performer.observer.step_ended(self.scope, outcome, error, None)
        call.took = self._took()
        if isinstance(error, tuple(PAUSED_BY)):
            self._owner.pause_phase(call, pack(encode_error(error)), reason_of(error))
            return
        try:
            wrapped = failed(error)
        except BadInput as malformed:  # it asks for an impossible wait
            wrapped = failed(malformed)
        self._owner.close_step(call, error=pack(encode_error(wrapped)))
