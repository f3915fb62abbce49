"""What the end of a run means to whoever waits for it."""

from __future__ import annotations

from shlex import quote

from onward.codec import StepFailed
from onward.errors import OnwardError, RunCancelled, RunFailed


def failure_of(run: str, error: BaseException | None, reason: str = "logic") -> BaseException:
    """Return what a failed run raises: its error if the user registered its type, or `RunFailed`.

    An error of ours would be taken for one about the call that asks, and a group for one of a
    `TaskGroup` around it. Either way it says which run it comes from, and for a run that failed
    because of another, which that was.
    """
    if error is not None and not isinstance(error, StepFailed | OnwardError | BaseExceptionGroup):
        error.add_note(f"It ended run {run}: onward runs show {quote(run)}")
        return error
    failed = RunFailed(run, reason, "" if error is None else _happened(error))
    failed.__cause__ = error
    return failed


def _happened(error: BaseException) -> str:
    """Return what happened; a next move is wanted once, from the run that tells of it."""
    return error.happened if isinstance(error, RunFailed | RunCancelled) else str(error)
