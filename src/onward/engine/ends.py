"""What the end of a run means to whoever waits for it."""

from __future__ import annotations

from onward.codec import StepFailed
from onward.errors import OnwardError, RunFailed


def failure_of(run: str, error: BaseException | None, reason: str = "logic") -> BaseException:
    """Return what a failed run raises: its error if the user registered its type, or `RunFailed`.

    An error of ours would be taken for one about the call that asks.
    """
    if error is not None and not isinstance(error, StepFailed | OnwardError):
        return error
    failed = RunFailed(run, reason, "" if error is None else str(error))
    failed.__cause__ = error
    return failed
