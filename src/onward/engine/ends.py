"""The errors that clients and parents of a failed run get."""

from __future__ import annotations

from shlex import quote

from onward.codec import StepFailed
from onward.errors import OnwardError, RunCancelled, RunFailed


def failure_of(run: str, error: BaseException | None, reason: str = "logic") -> BaseException:
    """Return what a failed run raises: its error if the user registered its type, or `RunFailed`.

    An error of Onward would look like one about the call itself, and a group like one of a
    `TaskGroup` around it. Either way the error names the run it comes from and, for a run that
    failed because of another, that one.
    """
    if error is not None and not isinstance(error, StepFailed | OnwardError | BaseExceptionGroup):
        error.add_note(f"It ended run {run}: onward runs show {quote(run)}")
        return error
    failed = RunFailed(run, reason, "" if error is None else _happened(error))
    failed.__cause__ = error
    return failed


def _happened(error: BaseException) -> str:
    """Return what happened; the advice what to do comes once, from the outermost run."""
    return error.happened if isinstance(error, RunFailed | RunCancelled) else str(error)
