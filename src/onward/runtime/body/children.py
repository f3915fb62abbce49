"""Calls of a body that are runs of their own: children, started runs, and chunks of a map.

A child reports its end to its parent, by a message with the identity of the call that started it.
It is started in the same commit that writes the call into history, unless it has an id of the
user's choosing: whether that is free must be known first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from onward.codec import decode, decode_error, encode, encode_error
from onward.core.chain import child_origin
from onward.core.digest import digest
from onward.core.ids import RANDOM_BITS, uid7
from onward.core.replay import Record, RecordKind, RecordState
from onward.core.run import RunKind, RunState
from onward.engine.ends import failure_of
from onward.engine.payloads import pack, unpack
from onward.errors import RunCancelled, RunFailed
from onward.runtime.body.calls import Awaited, Call, StepCall, step_error, whose
from onward.runtime.body.chunk_data import with_known_outcomes

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from onward.codec import Payload
    from onward.core.flow import FlowId
    from onward.core.instant import Instant
    from onward.model.ends import ChildEnd
    from onward.model.flow import DeclaredLimits
    from onward.model.runs import ClaimedRun, NewRun

    Decoder = Callable[[Payload], Any]

_STATES = {
    RunState.SUCCEEDED: RecordState.SUCCEEDED,
    RunState.FAILED: RecordState.FAILED,
    RunState.CANCELLED: RecordState.CANCELLED,
    RunState.TIMED_OUT: RecordState.TIMED_OUT,
}

NOTHING_DECLARED: Mapping[FlowId, DeclaredLimits] = {}

REFUSED = pack(encode("refused"))
"""The payload of a call whose run could not be started, beside the error that says why."""


def child_uid(parent: str, identity: str, now: Instant) -> str:
    """Return the uid of a child: the same in every replay, and sorted by the time of the call."""
    bits = int(digest(parent, identity), 16) & ((1 << RANDOM_BITS) - 1)
    return uid7(now, bits)


class ChildCall(Awaited):
    """A wait for the end of another run, which this call starts unless it was started before."""

    kind = RecordKind.CHILD

    def __init__(  # noqa: PLR0913 - it is started here, or was before
        self,
        name: str,
        decoder: Decoder,
        *,
        start: NewRun | None = None,
        child: str = "",
        started_by: str = "",
        is_reported: bool = True,
        asked_at: Instant = 0,
    ) -> None:
        super().__init__(name, None if start is None else start.args_hash)
        self._decoder = decoder
        self._start = start
        self._asked_at = asked_at
        self.child = child
        """The uid of the run that it waits for."""
        self.started_by = started_by
        """The identity under which that run reports its end."""
        self.is_reported = is_reported
        """Whether that run reports its end to this one; otherwise it is polled."""
        self.reaches_out = True
        """Whether the run may have effects."""
        self.declares: Mapping[FlowId, DeclaredLimits] = NOTHING_DECLARED
        """The limits to declare before the run is started."""

    @property
    def is_cancelled_with_parent(self) -> bool:
        """Whether the child is cancelled when it is no longer awaited."""
        return self._start is not None and bool(self._start.cancel_with_parent)

    @property
    def is_begun(self) -> bool:
        """Whether history has the uid of the awaited run."""
        return self.is_kept and bool(self.child)

    @property
    def only_listens(self) -> bool:
        """Whether it is about a run that continues without its parent."""
        return self._start is None and not self.is_cancelled_with_parent

    @property
    def has_id(self) -> bool:
        """Whether the user chose the id of the child, so that it may be taken."""
        return self._start is not None and bool(self._start.id)

    def skip_known(self, kept: bytes) -> None:
        """If it starts a chunk of a map, pass on the outcomes of an earlier one."""
        if self._start is not None and self._start.kind == RunKind.MAP:
            self._start = with_known_outcomes(self._start, kept)

    def start_row(self, parent: ClaimedRun) -> NewRun | None:
        """Return the run to be started, or None if it was started before."""
        if self._start is None:
            return None
        return born(self._start, parent, self.identity, self._asked_at)

    def begin(self, child: str | None, *, is_reported: bool = True) -> None:
        """Set the run that it waits for."""
        self.is_kept = True
        if child is not None:
            self.child, self.started_by, self.is_reported = child, self.identity, is_reported

    def take_up(self, record: Record) -> None:
        """Go on waiting for a child that was started before."""
        super().take_up(record)
        self.due = None  # an attempt that failed here was to be made again, but now it is elsewhere
        if record.payload.payload is not None:
            kept = decode(unpack(record.payload.payload))
            self.child, self.is_reported = kept["uid"], kept["is_reported"]
            # Not before: a message about the end of a run that is still being started stays unread.
            self.started_by = self.started_by or self.identity

    def opening(self) -> bytes:
        """Return the payload of its open record: the awaited run."""
        kept = {
            "uid": self.child,
            "is_reported": self.is_reported,
            "cancel_with_parent": self.is_cancelled_with_parent,
        }
        return pack(encode(kept))

    def closing(self, end: ChildEnd) -> tuple[RecordState, bytes | None, bytes | None]:
        """Return how the record of it is closed: its state, payload and error."""
        state = _STATES[RunState(end.state)]
        match state:
            case RecordState.SUCCEEDED:
                return state, end.data, None
            case RecordState.FAILED if end.data:
                return state, self._whose(end), end.data
            case RecordState.FAILED:
                error = RunFailed(self._run, end.reason or "", "")
                return state, self._whose(end), pack(encode_error(error))
            case _:
                return state, self._whose(end), None

    def _whose(self, end: ChildEnd) -> bytes:
        """Return what the record of a failure keeps beside the error: the run, and the reason."""
        return pack(encode({"run": self._run, "reason": end.reason or ""}))

    @property
    def _run(self) -> str:
        """The id of the child; if the user chose none, it is its uid."""
        return (self._start.id if self._start is not None else "") or self.child

    def value(self, record: Record) -> Any:
        """Return the child's result."""
        return self._decoder(unpack(record.payload.payload))

    def raised(self, record: Record) -> BaseException:
        """Return the error that the body gets for a child without a result."""
        if record.payload.payload == REFUSED:
            return decode_error(unpack(record.payload.error))  # it was never started
        run, reason = whose(record)
        if record.state is not RecordState.FAILED:
            return RunCancelled(run, str(record.state), reason)
        error = decode_error(unpack(record.payload.error))
        is_all = isinstance(error, RunFailed) and error.run == run  # what it raised is unknown
        return error if is_all else failure_of(run, error, reason)


class PartCall(ChildCall):
    """A wait for a run that does a part of some work: like a step, later code may leave it out."""

    kind = RecordKind.STEP
    compare = False


class RoutedStepCall(ChildCall):
    """A call of a step that runs elsewhere; to the body it is a step like any other."""

    kind = RecordKind.STEP

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.reaches_out = False

    @property
    def is_cancelled_with_parent(self) -> bool:
        """Whether the run of a step ends with the run that needs it: always."""
        return True

    def raised(self, record: Record) -> BaseException:
        """Return what the step raised."""
        return step_error(self.name, record)


def still_elsewhere(call: Call, record: Record) -> Call:
    """Return the call to wait for: a step that older code has sent elsewhere stays there."""
    sent = record.state is RecordState.OPEN and record.payload.payload is not None
    if not (sent and isinstance(call, StepCall)):
        return call
    there = RoutedStepCall(call.name, call.definition.shape.decode_result)
    there.future = call.future
    there.args_hash = call.args_hash
    return there


class StartCall(Awaited):
    """A start of another run, which continues on its own."""

    kind = RecordKind.START

    def __init__(
        self,
        name: str,
        start: NewRun,
        asked_at: Instant,
        on_conflict: str,
    ) -> None:
        super().__init__(name, start.args_hash)
        self._start = start
        self._asked_at = asked_at
        self.on_conflict = on_conflict
        self.declares: Mapping[FlowId, DeclaredLimits] = NOTHING_DECLARED
        """The limits to declare before the run is started."""

    @property
    def has_id(self) -> bool:
        """Whether the user chose the id, so that it may be taken."""
        return bool(self._start.id)

    def start_row(self, parent: ClaimedRun) -> NewRun:
        """Return the run to be started."""
        return born(self._start, parent, self.identity, self._asked_at)

    def closing(self, uid: str, run: NewRun) -> bytes:
        """Return what the record of it keeps: which run has the id, and whose child it is."""
        parent = run.parent if uid == run.uid else None
        is_bound = bool(run.cancel_with_parent) and parent is not None
        return pack(
            encode({"uid": uid, "id": run.id, "parent": parent, "cancel_with_parent": is_bound})
        )

    def value(self, record: Record) -> Any:
        """Return uid, id, whose child it is, and the identity under which it reports its end."""
        kept = decode(unpack(record.payload.payload))
        return kept["uid"], kept["id"], kept["parent"], record.identity


def bound_child(kept: bytes) -> str | None:
    """Return the run in the record of a start or a wait, if it ends with its parent."""
    child = decode(unpack(kept))
    uid: str = child["uid"]
    return uid if child["cancel_with_parent"] else None


def born(start: NewRun, parent: ClaimedRun, identity: str, asked_at: Instant) -> NewRun:
    """Return the row of a run that a body starts."""
    uid = child_uid(parent.uid, identity, asked_at)
    # A run that outlives its parent does not work for it.
    origin = (
        child_origin(parent.origin or parent.uid, identity) if start.cancel_with_parent else None
    )
    return start._replace(
        uid=uid,
        origin=origin,
        id=start.id or uid,
        parent=parent.uid,
        parent_identity=identity,
        root=parent.root or parent.uid,
        version=start.version or parent.version,
        trace=parent.trace,
    )


class PatchCall(Call):
    """A mark that code was changed; history keeps from which position on."""

    kind = RecordKind.PATCH

    def __init__(self, name: str, identity: str) -> None:
        super().__init__(name)
        self.identity = identity

    def is_abandoned(self) -> bool:
        """Whether the body no longer awaits it: it never does."""
        return True

    def hand_over(self, record: Record) -> None:
        """Do nothing: the body did not wait."""
