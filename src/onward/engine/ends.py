"""The errors that clients and parents of a failed run get."""

from __future__ import annotations

from shlex import quote

from onward.codec import StepFailed, known_base
from onward.core.retry import error_name
from onward.core.run import Reason, RunState, in_words
from onward.errors import NotApplied, OnwardError, RunCancelled, RunFailed
from onward.errors.root import caught_as
from onward.telemetry.error_text import describe

_BAD_ENDS = (RunState.FAILED, RunState.CANCELLED, RunState.TIMED_OUT)
_WHY = {
    Reason.CRASHED: "its workers crashed repeatedly while executing it",
    Reason.REPLACED: "it was cancelled: a new run with its id replaced it",
    Reason.PARENT: "it was cancelled together with the run that started it",
    Reason.FORCED: "it was forcibly cancelled, without cleanup",
    Reason.DEADLINE: "it passed its deadline",
}


def why_ended(state: str, reason: str | None) -> str | None:
    """Return why a run has no result, where no exception says it; None if it has one or is open."""
    if state not in _BAD_ENDS:
        return None
    known = None if reason is None else _WHY.get(Reason(reason))
    why = "" if reason is None else f" ({reason})"
    return known or f"it {in_words(state)}{why}"


def failure_of(run: str, error: BaseException | None, reason: str = "logic") -> BaseException:
    """Return what a parent gets for a failed run: the error itself, or `RunFailed` with the cause.

    An error of Onward would look like one about the call itself, and a group like one of a
    `TaskGroup` around it. Either way the error names the run it comes from and, for a run that
    failed because of another, that one.
    """
    if error is not None and not isinstance(error, StepFailed | OnwardError | BaseExceptionGroup):
        error.add_note(f"This error ended run {run}: onward runs show {quote(run)}")
        return error
    return _run_failed(run, error, reason)


def client_failure_of(run: str, error: BaseException | None, reason: str) -> BaseException:
    """Return what `result()` raises: a registered error itself, or `RunFailed` with the cause.

    That `RunFailed` is caught by the built-in type, or base type, of the error as well.
    """
    is_ours = isinstance(error, NotApplied)  # it would look like one of an effect of the caller
    if error is not None and (is_ours or type(error).__module__ == "builtins"):
        return _run_failed(run, error, reason)
    return failure_of(run, error, reason)


def _run_failed(run: str, error: BaseException | None, reason: str) -> RunFailed:
    base = None if error is None else _known_base(error)
    kind = RunFailed if base is None else caught_as(RunFailed, base)
    failed = kind(run, reason, _happened(error, reason))
    failed.__cause__ = error
    return failed


def _known_base(error: BaseException) -> type[Exception] | None:
    """Return the type by which `except` catches what user code raised, apart from its own.

    A `TimeoutError` of `result()` says that the caller has waited too long, so none of a run may
    look like it.
    """
    if isinstance(error, NotApplied):
        return NotApplied
    if isinstance(error, RunFailed) and error.__cause__ is not None:
        return _known_base(error.__cause__)
    if isinstance(error, OnwardError) and not isinstance(error, StepFailed):
        return None
    base = known_base(error_name(each) for each in type(error).__mro__ if each is not object)
    return None if base is TimeoutError else base


def _happened(error: BaseException | None, reason: str) -> str:
    """Return what happened; the advice what to do comes once, from the outermost run."""
    if error is None:
        return _WHY[Reason.CRASHED] if reason == Reason.CRASHED else ""
    return error.happened if isinstance(error, RunFailed | RunCancelled) else describe(error)
