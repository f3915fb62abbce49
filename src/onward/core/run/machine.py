"""The machine of runs: what can happen to one, and where that moves it."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias, assert_never

from onward.core.decision import Decision, Ignored, Moved, Refused
from onward.core.run.state import (
    CANCELS,
    FAILURES,
    PAUSES,
    TERMINAL,
    Reason,
    RunState,
    in_words,
)
from onward.core.run.suspects import MAX_CRASHES
from onward.core.value import Value, changed
from onward.errors import InvariantBroken

if TYPE_CHECKING:
    from onward.core.instant import Instant


class RunStatus(Value):
    """The part of a run that its machine decides on.

    `due` is when a waiting run may go on, and since when a ready one could.
    """

    state: RunState
    reason: Reason | None = None
    due: Instant | None = None
    fence: int = 0
    crashes: int = 0


# --- facts ----------------------------------------------------------------------------------------


class Claimed(Value):
    """A worker asks for the run.

    `vanished`: the worker that had it has no lease any more. `other_code`: the asking worker has
    another version than the one that parked it.
    """

    vanished: bool = False
    other_code: bool = False


class Recorded(Value):
    """The owner wrote a new record: the run gets on."""


class Parked(Value):
    """Nothing can move before a message comes or `due` has passed."""

    due: Instant | None = None


class Paused(Value):
    """The owner stops here for `reason`; no time ends that."""

    reason: Reason


class Released(Value):
    """The owner gives the run back unfinished: it drains."""


class Returned(Value):
    """The body returned; `continued` when it goes on as a new run."""

    continued: bool = False


class Raised(Value):
    """The body, or the engine in it, raised an exception that was not caught."""

    reason: Reason = Reason.LOGIC


class Unwound(Value):
    """A cancelled body has run its cleanup, or the grace for it is over."""

    why: Reason | None = None


class Disowned(Value):
    """A worker found the run in its name but does not know it: the reply to its claim was lost."""


class Woken(Value):
    """A message arrived; it ends any wait, and a pause for one of the reasons in `wakes`.

    `unstarted`: it also ends the wait of a run that was never claimed.
    """

    wakes: frozenset[Reason] = frozenset()
    unstarted: bool = False


class Held(Value):
    """Someone paused the run, or one that it works for: nothing new may begin."""


class Freed(Value):
    """Nothing holds the run any more; `scheduled_at` is when it was to start."""

    scheduled_at: Instant


class CancelAsked(Value):
    """Someone wants the run to stop, with cleanup; a deadline is a cancel too."""

    why: Reason | None = None


class CancelForced(Value):
    """Someone ends the run at once, without cleanup."""


class Superseded(Value):
    """A retry or, with `forked`, a fork takes the run's place."""

    forked: bool = False


OwnFact: TypeAlias = Recorded | Parked | Paused | Released | Returned | Raised | Unwound
Fact: TypeAlias = (
    OwnFact | Claimed | Disowned | Woken | Held | Freed | CancelAsked | CancelForced | Superseded
)


# --- the machine ----------------------------------------------------------------------------------


def born(*, now: Instant, at: Instant | None = None) -> RunStatus:
    """Return a run as it starts: ready, or waiting for its time, as `ready` never lies ahead."""
    if at is None or at <= now:
        return RunStatus(RunState.READY, due=now)
    return RunStatus(RunState.WAITING, due=at)


def advance(run: RunStatus, fact: Fact, *, now: Instant) -> Decision[RunStatus]:
    """Return `run` as it is after `fact`.

    Raises:
        InvariantBroken: the fact contradicts itself, such as a pause for a reason to fail.
    """
    if run.state in TERMINAL:
        return Ignored(f"it {in_words(run.state)}")
    match fact:
        case Claimed():
            return _claimed(run, fact, now)
        case Woken():
            return _woken(run, fact, now)
        case Held() | Freed():
            return _held(run) if isinstance(fact, Held) else _freed(run, fact, now)
        case CancelAsked():
            return _cancel_asked(run, fact.why, now)
        case CancelForced():
            return Moved(_ended(run, RunState.CANCELLED, Reason.FORCED))
        case Superseded():
            return _superseded(run, fact)
        case _ if run.state is not RunState.RUNNING:
            return Refused(f"it is {run.state}, so the worker that reports this does not own it")
        case Disowned():
            return Moved(changed(run, state=RunState.READY, due=now, fence=run.fence + 1))
        case _:
            return Moved(_reported(run, fact, now))


def _claimed(run: RunStatus, fact: Claimed, now: Instant) -> Decision[RunStatus]:
    match run.state:
        case RunState.RUNNING if not fact.vanished:
            return Refused("its worker is alive")
        case RunState.RUNNING:
            taken = _taken(changed(run, crashes=run.crashes + 1))
            is_poison = taken.crashes >= MAX_CRASHES  # the worker that claims it ends it at once
            return Moved(_ended(taken, RunState.FAILED, Reason.CRASHED) if is_poison else taken)
        case RunState.PAUSED if run.reason is Reason.DIVERGENCE and fact.other_code:
            return Moved(_taken(run))
        case RunState.PAUSED:
            return Refused(f"it is paused for {run.reason}")
        case RunState.WAITING if run.due is None:
            return Refused("it is waiting for a message")
        case _ if run.due is not None and run.due > now:
            return Refused("it is not due", until=run.due)
        case _:
            return Moved(_taken(run))


def _woken(run: RunStatus, fact: Woken, now: Instant) -> Decision[RunStatus]:
    # A delayed start is kept: few messages are worth beginning a run before its time.
    if run.fence == 0 and not fact.unstarted:
        return Ignored("it has not started and will find the message")
    if run.state is RunState.WAITING or (run.state is RunState.PAUSED and run.reason in fact.wakes):
        return Moved(_put(run, RunState.READY, due=now))
    return Ignored(f"it is {run.state} and will find the message")


def _held(run: RunStatus) -> Decision[RunStatus]:
    if run.state in (RunState.READY, RunState.WAITING):
        return Moved(_put(run, RunState.PAUSED, Reason.OPERATOR))
    return Ignored(f"it is {run.state}; its owner reads the message, or it is already paused")


def _freed(run: RunStatus, fact: Freed, now: Instant) -> Decision[RunStatus]:
    if run.state is not RunState.PAUSED or run.reason is not Reason.OPERATOR:
        return Ignored(f"it is {run.state} for another reason")
    if run.fence == 0 and fact.scheduled_at > now:
        return Moved(_put(run, RunState.WAITING, due=fact.scheduled_at))
    return Moved(_put(run, RunState.READY, due=now))


def _cancel_asked(run: RunStatus, why: Reason | None, now: Instant) -> Decision[RunStatus]:
    stopped = _cancelled(run, why)
    if run.fence == 0:  # never claimed: there is no body that could clean up
        return Moved(changed(stopped, fence=run.fence + 1))
    return _woken(run, Woken(PAUSES), now)


def _superseded(run: RunStatus, fact: Superseded) -> Decision[RunStatus]:
    if run.state is not RunState.PAUSED and not fact.forked:
        return Refused(f"it is {run.state} and has not failed; wait until it ends, or cancel it")
    if run.state is not RunState.PAUSED:
        return Refused(f"it is {run.state}; cancel or pause it first")
    if run.reason is Reason.RECONCILIATION:
        return Refused("one of its effects is uncertain; resolve that effect first")
    # A retry would cancel its open children, and repeat what they have completed.
    if run.reason is Reason.OPERATOR and not fact.forked:
        return Refused("it is paused and has not failed; resume it")
    return Moved(_put(run, RunState.FAILED, run.reason))


def _reported(run: RunStatus, fact: OwnFact, now: Instant) -> RunStatus:
    if isinstance(fact, Released):
        return _put(run, RunState.READY, due=now)
    run = changed(run, crashes=0)  # it has made progress
    match fact:
        case Recorded():
            return run
        case Parked(due):
            return _put(run, RunState.WAITING, due=due)
        case Paused(reason):
            if reason not in PAUSES:
                raise InvariantBroken(f"a run cannot pause with the reason {reason}")
            return _put(run, RunState.PAUSED, reason)
        case Returned(continued):
            return _put(run, RunState.SUCCEEDED, Reason.CONTINUED if continued else None)
        case Raised(reason):
            if reason not in FAILURES:
                raise InvariantBroken(f"a run cannot fail with the reason {reason}")
            return _put(run, RunState.FAILED, reason)
        case Unwound(why):
            return _cancelled(run, why)
    assert_never(fact)


def _cancelled(run: RunStatus, why: Reason | None) -> RunStatus:
    if why is Reason.DEADLINE:
        return _put(run, RunState.TIMED_OUT, why)
    if why not in CANCELS:
        raise InvariantBroken(f"a cancellation cannot have the reason {why}")
    return _put(run, RunState.CANCELLED, why)


def _put(
    run: RunStatus, state: RunState, reason: Reason | None = None, due: Instant | None = None
) -> RunStatus:
    return changed(run, state=state, reason=reason, due=due)


def _taken(run: RunStatus) -> RunStatus:
    return changed(run, state=RunState.RUNNING, reason=None, due=None, fence=run.fence + 1)


def _ended(run: RunStatus, state: RunState, reason: Reason) -> RunStatus:
    # Not by its owner, who must find itself lost.
    return RunStatus(state, reason, fence=run.fence + 1, crashes=run.crashes)
