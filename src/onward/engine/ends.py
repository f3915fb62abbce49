"""What the end of a run means to whoever waits for it."""

from __future__ import annotations

from onward.codec import StepFailed
from onward.errors import RunFailed


def failure_of(run: str, error: BaseException | None, reason: str = "logic") -> BaseException:
    """Return what a failed run raises: its error if that type is registered, or `RunFailed`."""
    if error is not None and not isinstance(error, StepFailed):
        return error
    failed = RunFailed(run, reason, "" if error is None else str(error))
    failed.__cause__ = error
    return failed
