"""Errors about runs, and about runs without a result."""

from __future__ import annotations

from dataclasses import dataclass
from shlex import quote
from typing import ClassVar

from onward.errors.root import UserError, closed


@dataclass(eq=False, repr=False)
class Conflict(UserError):
    """The id is already taken by another run.

    Starting a workflow raises this error if that run has a different workflow or arguments, or if
    `on_conflict` is "reject".
    """

    code: ClassVar[str] = "conflict"
    id: str
    fact: str
    advice: str = 'Choose another id, or start the run with on_conflict="replace"'

    def __str__(self) -> str:
        return f"run id {self.id!r} is taken: {closed(self.fact)} {closed(self.advice)}"


@dataclass(eq=False, repr=False)
class NotFound(UserError, LookupError):
    """Nothing in this namespace has that id."""

    code: ClassVar[str] = "not_found"
    kind: str
    id: str
    namespace: str
    advice: str = "Check the id and the namespace"

    def __str__(self) -> str:
        place = f" in namespace {self.namespace!r}" if self.namespace else ""
        return f"there is no {self.kind} {self.id!r}{place}. {closed(self.advice)}"


@dataclass(eq=False, repr=False)
class NoWorker(UserError):
    """A run was started, but no worker serves its queue."""

    code: ClassVar[str] = "no_worker"
    run: str
    queue: str

    def __str__(self) -> str:
        return (
            f"run {self.run} was started, but no worker serves queue {self.queue!r}. "
            f"Start one: async with app.worker(queues=[{self.queue!r}]): ..."
        )


@dataclass(eq=False, repr=False)
class NoThread(UserError):
    """A sync function cannot start: cancelled code that is still running occupies all threads."""

    code: ClassVar[str] = "no_thread"
    what: str
    threads: int
    held_by: str

    def __str__(self) -> str:
        return (
            f"{self.what!r} cannot start: {self.threads} threads of this worker are held by code "
            f"that was cancelled but is still running: {self.held_by}. Restart the worker, and "
            "give that code its own timeout."
        )


@dataclass(eq=False, repr=False)
class WorkerBlocked(UserError):
    """The run's code blocked its worker's event loop, so other runs could not continue."""

    code: ClassVar[str] = "worker_blocked"
    run: str
    seconds: int
    where: str

    def __str__(self) -> str:
        return (
            f"run {self.run} blocked its worker for {self.seconds} s at {self.where}. "
            "Move blocking code into a step defined with plain def, which runs in a thread."
        )


@dataclass(eq=False, repr=False)
class TimedOut(UserError, TimeoutError):
    """An attempt at a step, a call to an effect, or a wait took longer than its timeout."""

    code: ClassVar[str] = "timed_out"
    what: str
    limit: str
    advice: str = "Catch TimeoutError, or allow more time"

    def __str__(self) -> str:
        return f"{self.what} took longer than {self.limit}. {closed(self.advice)}"


@dataclass(eq=False, repr=False)
class RunOver(UserError):
    """The state of the run does not allow this call, usually because the run has ended."""

    code: ClassVar[str] = "run_over"
    run: str
    fact: str
    advice: str = "Start another run, or fork this one"

    def __str__(self) -> str:
        return f"{closed(f'run {self.run}: {self.fact}')} {closed(self.advice)}"


@dataclass(eq=False, repr=False)
class Undone(UserError):
    """A retry is refused: when the run failed, it sent effects that may have undone its work."""

    code: ClassVar[str] = "undone"
    run: str
    effects: str

    def __str__(self) -> str:
        return (
            f"run {self.run} sent effects because of the error that ended it: {self.effects}. They "
            "may have undone work that a retry would keep. Start a new run, fork this one from its "
            "first step with resend, or retry with force if nothing was undone."
        )


@dataclass(eq=False, repr=False)
class WouldResend(UserError):
    """A fork or a retry would resend effects that have happened, or may have happened.

    A retry (`by` is "retry") would do so if a child of the run, or a run further down the tree, was
    forked and the fork has sent effects.
    """

    code: ClassVar[str] = "would_resend"
    run: str
    effects: str
    by: str = "fork"

    def __str__(self) -> str:
        if self.by == "retry":
            return (
                f"a retry of run {self.run} would restart a run below it that was forked, and "
                f"resend the fork's effects: {self.effects}. Instead, fork {self.run} from its "
                "call to the child, with the result that the call should return, or retry with "
                "force to resend the effects."
            )
        return (
            f"a {self.by} of run {self.run} would resend effects that happened, or may have "
            f"happened: {self.effects}. Fork from a later step, retry the run, or use resend to "
            "send them once more, under new keys."
        )


@dataclass(eq=False, repr=False)
class RunFailed(UserError):
    """The run has no result, because it failed. `__cause__` is the run's error, if known.

    `happened` is the message without the advice; you can show it to end users.
    """

    code: ClassVar[str] = "run_failed"
    run: str
    reason: str
    error: str
    advice: str = ""

    @property
    def happened(self) -> str:
        """What happened, without the advice."""
        return f"run {self.run} failed ({self.reason})" + (f": {self.error}" if self.error else "")

    def __str__(self) -> str:
        advice = self.advice or f"See its history: onward runs show {quote(self.run)}"
        return f"{closed(self.happened)} {advice}"


@dataclass(eq=False, repr=False)
class RunCancelled(UserError):
    """The run has no result, because it was cancelled or missed its deadline."""

    code: ClassVar[str] = "run_cancelled"
    run: str
    state: str
    reason: str

    @property
    def happened(self) -> str:
        """What happened, without the advice."""
        words = {"cancelled": "was cancelled", "timed_out": "has timed out"}
        happened = words.get(self.state, f"is {self.state}")
        why = f" ({self.reason})" if self.reason else ""
        return f"run {self.run} has no result: it {happened}{why}"

    def __str__(self) -> str:
        return f"{self.happened}. Start another run if you still need the result."


@dataclass(eq=False, repr=False)
class RunPaused(UserError):
    """The run has no result yet, because it is paused and needs an operator."""

    code: ClassVar[str] = "run_paused"
    run: str
    reason: str
    error: str = ""

    def __str__(self) -> str:
        why = f": {self.error}" if self.error else ""
        return f"{closed(f'run {self.run} is paused ({self.reason}){why}')} {self._next_move()}"

    def _next_move(self) -> str:
        run = quote(self.run)
        match self.reason:
            case "approval" if self.error:  # a handler raised NeedsApproval
                return f"Once it is approved, resume it: onward runs resume {run} (or cancel it)."
            case "reconciliation" | "approval":
                return f"List the effects that await your decision: onward effects list --run {run}"
            case "divergence":
                return f"See the diff: onward runs show {run}"
        return f"Resume it: onward runs resume {run} (or cancel it)."
