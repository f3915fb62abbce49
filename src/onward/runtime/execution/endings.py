"""How a run ends: what becomes of it, and whom it tells."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from onward.codec import decode, encode, encode_error
from onward.core.instant import MINUTE
from onward.core.replay import LATE_MAX, LateStart
from onward.core.run import Reason, RunState
from onward.engine.payloads import pack, unpack
from onward.errors import BadInput, Undecodable
from onward.model.ends import child_end, to_parent
from onward.model.runs import Move
from onward.runtime.body.effects import EffectCall
from onward.telemetry.interrupts import raise_interrupt

if TYPE_CHECKING:
    import asyncio

    from onward.core.instant import Duration, Instant
    from onward.core.replay import Record
    from onward.model.messages import InboxRow, NewMessage
    from onward.model.runs import ClaimedRun
    from onward.runtime.body.body import Body
    from onward.runtime.body.waits import Mailbox
    from onward.runtime.definition import Shape
    from onward.runtime.execution.loaded_history import LoadedHistory

GRACE: Duration = MINUTE
"""How long a body that was cancelled may take to clean up."""


_REASONS = frozenset(map(str, Reason))

CONTINUED = Move(RunState.SUCCEEDED, Reason.CONTINUED)
"""What becomes of a run that goes on as a new one."""


class ContinueAsNew(BaseException):
    """A body goes on as a new run, with other arguments."""

    def __init__(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        super().__init__()
        self.arguments = args, kwargs


class Overtaken(Exception):
    """Something arrived for a run that must be looked at before another follows it."""


class Stop(NamedTuple):
    """The wish that a run stops: why, and how long it may clean up."""

    why: Reason
    grace: Duration

    @property
    def move(self) -> Move:
        """What becomes of the run."""
        state = RunState.TIMED_OUT if self.why is Reason.DEADLINE else RunState.CANCELLED
        return Move(state, self.why)


TIME_IS_UP = Stop(Reason.DEADLINE, GRACE)


def read_stop(letter: InboxRow) -> Stop:
    """Return what a message says that wants a run to stop."""
    # Whatever else a newer sender says, it wants the run to stop.
    why = Reason(letter.name) if letter.name in _REASONS else Reason.OPERATOR
    try:
        grace = GRACE if letter.payload is None else decode(unpack(letter.payload), int)
    except Undecodable:
        grace = GRACE
    return Stop(why, grace)


def wanted_stop(
    mail: Mailbox, deadline: Instant | None, now: Instant
) -> tuple[Stop, int | None] | None:
    """Return why a run is to stop, and the number of the message that says so, if it is to."""
    cancel = mail.take_cancel()
    if cancel is not None:
        return read_stop(cancel), cancel.seq
    return (TIME_IS_UP, None) if deadline is not None and deadline <= now else None


def keep_stop(stop: Stop) -> bytes:
    """Return the wish as a record keeps it."""
    return pack(encode({"why": str(stop.why), "grace": stop.grace}))


def recalled(record: Record) -> Stop:
    """Return the wish that a record keeps."""
    kept = decode(unpack(record.payload.payload))
    return Stop(Reason(kept["why"]), kept["grace"])


def grace_ends(record: Record) -> Instant:
    """Return until when the cleanup of a cancelled body may take."""
    at: Instant = record.payload.at
    return at + recalled(record).grace


def late_cleanup(run: ClaimedRun, past: LoadedHistory) -> LateStart | None:
    """Return since when no worker had a run that was cleaning up, if that was long."""
    if not past.is_stopping:
        return None
    since = run.ready_at or past.last_at
    is_long = run.claimed_at - since > LATE_MAX
    return LateStart(since, is_replayed=True) if is_long else None


def end_by_force(body: Body) -> Move:
    """Return what becomes of a run whose cleanup took longer than it may."""
    assert body.cancelled is not None
    return _stopped(body, recalled(body.cancelled))


def _stopped(body: Body, stop: Stop) -> Move:
    return stop.move._replace(failed_call=body.blame.stopped_call(body.calls.values()))


def end_of(body: Body, shape: Shape) -> Move:
    """Return what a body that has ended means for its run.

    One that was told to stop is cancelled whatever it returns, but an error in its cleanup counts.
    """
    main = body.main
    stop = None if body.cancelled is None else recalled(body.cancelled)
    if main.cancelled():
        return Move(RunState.CANCELLED) if stop is None else _stopped(body, stop)
    error = main.exception()
    if stop is not None and (error is None or isinstance(error, ContinueAsNew)):
        return _stopped(body, stop)
    if error is None:
        try:
            return Move(RunState.SUCCEEDED, result=pack(shape.encode_result(main.result())))
        except BaseException as refused:  # noqa: BLE001 - a result that cannot be kept is a failure
            raise_interrupt(refused)
            error = refused
    return failure(body, error)


def failure(body: Body, error: BaseException) -> Move:
    """Return what becomes of a run whose body ends with an error."""
    return Move(
        RunState.FAILED,
        Reason.LOGIC,
        error=pack(encode_error(error)),
        failed_call=body.blame.failed_call(error, body.calls.values()),
    )


def farewell(run: ClaimedRun, move: Move) -> tuple[NewMessage, ...]:
    """Return what is sent when a run ends: to its parent, if it has one."""
    if run.parent is None or run.parent_identity is None:
        return ()
    end = child_end(move.state, move.reason, move.result, move.error)
    return (to_parent(run.parent, run.parent_identity, end),)


def leaves_plans(body: Body, *, has_open_effects: bool) -> bool:
    """Return whether a run may end with effects that were planned and never sent."""
    if body.diverged is not None:  # its code did not ask for them
        return has_open_effects
    effects = (call for call in body.calls.values() if isinstance(call, EffectCall))
    return any(call.may_be_planned for call in effects)


def check_alone(body: Body) -> None:
    """Refuse to go on as a new run while something of the old one is under way.

    Raises:
        BadInput: other branches, children or steps are not over.
    """
    if body.has_open_branches:
        raise BadInput(
            "continue_as_new",
            "was called while other branches of the run were not over",
            "Await them first",
        )


def asks_to_continue(main: asyncio.Task[Any]) -> ContinueAsNew | None:
    """Return the wish of a body that has ended to go on as a new run, if that is how it ended."""
    error = None if main.cancelled() else main.exception()
    return error if isinstance(error, ContinueAsNew) else None
