"""What a worker may write about a run that it owns, as tables.

An embedded worker writes what its code says. A server checks a remote worker against these.
"""

from __future__ import annotations

from enum import StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from onward.core.effect import EffectState
from onward.core.run import CANCELS, FAILURES, PAUSES, Reason, RunKind, RunState

if TYPE_CHECKING:
    from collections.abc import Mapping


class OwnerCall(StrEnum):
    """The calls by which an owner moves its run."""

    COMMIT = "commit"
    RETRY = "retry"
    CONTINUE = "continue_run"
    END_HANDLER = "end_handler"
    GIVE_UP = "give_up"


_STOPPED: Final[Mapping[RunState, frozenset[Reason | None]]] = {
    RunState.CANCELLED: CANCELS,
    RunState.TIMED_OUT: frozenset({Reason.DEADLINE}),
}

OWNER_MOVES: Final[Mapping[OwnerCall, Mapping[RunState, frozenset[Reason | None]]]] = (
    MappingProxyType(
        {
            OwnerCall.COMMIT: {
                RunState.RUNNING: frozenset({None}),
                RunState.READY: frozenset({None}),
                RunState.WAITING: frozenset({None}),
                RunState.PAUSED: PAUSES,
                RunState.SUCCEEDED: frozenset({None}),
                RunState.FAILED: frozenset({Reason.LOGIC, Reason.INTERNAL}),
                **_STOPPED,
            },
            OwnerCall.RETRY: {RunState.FAILED: frozenset({Reason.LOGIC})},
            OwnerCall.CONTINUE: {RunState.SUCCEEDED: frozenset({Reason.CONTINUED})},
            OwnerCall.END_HANDLER: {RunState.FAILED: FAILURES, **_STOPPED},
            OwnerCall.GIVE_UP: {
                RunState.FAILED: frozenset({Reason.CRASHED, Reason.INTERNAL}),
                **_STOPPED,
            },
        }
    )
)
"""The states to which an owner may move its run by each call, and the reasons for them."""

OWNER_EFFECTS: Final = frozenset(EffectState) - {EffectState.SKIPPED}
"""The states that an owner may give an effect; only an operator skips one."""

APPROVED_ONLY: Final = frozenset(
    {
        EffectState.IN_FLIGHT,
        EffectState.APPLIED,
        EffectState.NEEDS_RECONCILE,
        EffectState.INDETERMINATE,
    }
)
"""The states of an effect that was sent, for which it must have been approved."""

CHILD_KINDS: Final = frozenset({RunKind.WORKFLOW, RunKind.STEP, RunKind.MAP})
"""What an owner may start for its run; runs of handlers are launched by the engine."""
