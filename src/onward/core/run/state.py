"""The words for how a run stands and why; their values are those in the database."""

from __future__ import annotations

from enum import StrEnum


class RunState(StrEnum):
    """How a run stands; the values are the words in the database."""

    READY = "ready"
    RUNNING = "running"
    WAITING = "waiting"
    PAUSED = "paused"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"
    TIMED_OUT = "timed_out"


OPEN = frozenset({RunState.READY, RunState.RUNNING, RunState.WAITING, RunState.PAUSED})
TERMINAL = frozenset(RunState) - OPEN
DEAD = frozenset({RunState.FAILED, RunState.TIMED_OUT})
"""Ends after which an operator retries the run, or discards it."""


_IN_WORDS = {
    RunState.SUCCEEDED: "has succeeded",
    RunState.FAILED: "has failed",
    RunState.CANCELLED: "was cancelled",
    RunState.TIMED_OUT: "has timed out",
}


def in_words(state: str) -> str:
    """Return a state as the predicate of a sentence: `is running`, `has succeeded`."""
    return _IN_WORDS.get(RunState(state), f"is {state}")


class Reason(StrEnum):
    """Why a run is in its state."""

    APPROVAL = "approval"
    RECONCILIATION = "reconciliation"
    DIVERGENCE = "divergence"
    PRECONDITION = "precondition"
    OPERATOR = "operator"
    LOGIC = "logic"
    TRANSIENT = "transient"
    INTERNAL = "internal"
    CRASHED = "crashed"
    CONTINUED = "continued"
    REPLACED = "replaced"
    DEADLINE = "deadline"
    FORCED = "forced"
    PARENT = "parent"


class RunKind(StrEnum):
    """What a run executes."""

    WORKFLOW = "workflow"
    STEP = "step"
    MAP = "map"
    PRODUCER = "producer"
    CONSUMER = "consumer"


PAUSES = frozenset(
    {
        Reason.APPROVAL,
        Reason.RECONCILIATION,
        Reason.DIVERGENCE,
        Reason.PRECONDITION,
        Reason.OPERATOR,
        Reason.INTERNAL,
    }
)
# A pause that a retry superseded ends as failed and keeps its reason. One that waits for
# reconciliation cannot be superseded: the effect may have happened.
# A transient failure of a handler is followed by another run, until it has been tried often enough.
FAILURES = (PAUSES - {Reason.RECONCILIATION}) | {
    Reason.LOGIC,
    Reason.CRASHED,
    Reason.TRANSIENT,
}
CANCELS = frozenset({None, Reason.OPERATOR, Reason.REPLACED, Reason.PARENT})

REASONS: dict[RunState, frozenset[Reason | None]] = {
    RunState.READY: frozenset({None}),
    RunState.RUNNING: frozenset({None}),
    RunState.WAITING: frozenset({None}),
    RunState.PAUSED: PAUSES,
    RunState.SUCCEEDED: frozenset({None, Reason.CONTINUED}),
    RunState.FAILED: FAILURES,
    RunState.CANCELLED: CANCELS | {Reason.FORCED},
    RunState.TIMED_OUT: frozenset({Reason.DEADLINE}),
}
