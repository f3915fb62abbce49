"""The request that a run stops: why, how a record keeps it, and how long cleanup may take."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from onward.codec import decode, encode
from onward.core.instant import MINUTE
from onward.core.replay import LATE_MAX, LateStart
from onward.core.run import Reason, RunState
from onward.engine.payloads import pack, unpack
from onward.errors import Undecodable
from onward.model.runs import Move

if TYPE_CHECKING:
    from onward.core.instant import Duration, Instant
    from onward.core.replay import Record
    from onward.model.messages import InboxRow
    from onward.model.runs import ClaimedRun
    from onward.runtime.body.waits import RunInbox
    from onward.runtime.execution.loaded_history import LoadedHistory

GRACE: Duration = MINUTE
"""How long a body that was cancelled may take to clean up."""

_REASONS = frozenset(map(str, Reason))


class Stop(NamedTuple):
    """The request that a run stops: why, and how long it may clean up."""

    why: Reason
    grace: Duration

    @property
    def move(self) -> Move:
        """The last move of the run."""
        state = RunState.TIMED_OUT if self.why is Reason.DEADLINE else RunState.CANCELLED
        return Move(state, self.why)


TIME_IS_UP = Stop(Reason.DEADLINE, GRACE)


def read_stop(message: InboxRow) -> Stop:
    """Return the request in a message."""
    # A newer sender may give a reason that this version does not know.
    why = Reason(message.name) if message.name in _REASONS else Reason.OPERATOR
    try:
        grace = GRACE if message.payload is None else decode(unpack(message.payload), int)
    except Undecodable:
        grace = GRACE
    return Stop(why, grace)


def wanted_stop(
    inbox: RunInbox, deadline: Instant | None, now: Instant
) -> tuple[Stop, int | None] | None:
    """Return the request that a run stops, and the number of its message, if there is one."""
    cancel = inbox.take_cancel()
    if cancel is not None:
        return read_stop(cancel), cancel.seq
    return (TIME_IS_UP, None) if deadline is not None and deadline <= now else None


def keep_stop(stop: Stop) -> bytes:
    """Return the request as a record keeps it."""
    return pack(encode({"why": str(stop.why), "grace": stop.grace}))


def recalled(record: Record) -> Stop:
    """Return the request that a record keeps."""
    kept = decode(unpack(record.payload.payload))
    return Stop(Reason(kept["why"]), kept["grace"])


def grace_ends(record: Record) -> Instant:
    """Return until when the cleanup of a cancelled body may take."""
    at: Instant = record.payload.at
    return at + recalled(record).grace


def late_cleanup(run: ClaimedRun, loaded: LoadedHistory) -> LateStart | None:
    """Return since when no worker had a run that was cleaning up, if that was long."""
    if not loaded.is_stopping:
        return None
    since = run.ready_at or loaded.last_at
    is_long = run.claimed_at - since > LATE_MAX
    return LateStart(since, is_replayed=True) if is_long else None
