"""Calls of a body that are runs of their own: children, runs it starts, and parts of a map.

A child tells its parent when it is over, by a message with the identity of the call that started
it. It is started in the same commit that writes the call into history, unless it has an id of the
user's choosing: whether that is free must be known first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from onward.codec import decode, decode_error, encode, encode_error
from onward.core.digest import digest
from onward.core.ids import RANDOM_BITS, uid7
from onward.core.replay import Record, RecordKind, RecordState
from onward.core.run import RunState
from onward.engine.ends import failure_of
from onward.engine.payloads import pack, unpack
from onward.errors import RunCancelled, RunFailed, TimedOut
from onward.runtime.calls import Awaited, Call

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from onward.codec import Payload
    from onward.core.instant import Instant
    from onward.store.ends import ChildEnd
    from onward.store.rows import Claimed, NewRun

    Decoder = Callable[[Payload], Any]

_STATES = {
    RunState.SUCCEEDED: RecordState.SUCCEEDED,
    RunState.FAILED: RecordState.FAILED,
    RunState.CANCELLED: RecordState.CANCELLED,
    RunState.TIMED_OUT: RecordState.TIMED_OUT,
}


def child_uid(parent: str, identity: str, now: Instant) -> str:
    """Return the uid of a child: the same in every replay, and sorted by when it was asked for."""
    bits = int(digest(parent, identity), 16) & ((1 << RANDOM_BITS) - 1)
    return uid7(now, bits)


class ChildCall(Awaited):
    """A wait for the end of another run, which this call starts unless it was started before."""

    kind = RecordKind.CHILD

    def __init__(  # noqa: PLR0913 - it is started here, or was before
        self,
        name: str,
        future: asyncio.Future[Any],
        decoder: Decoder,
        *,
        start: NewRun | None = None,
        child: str = "",
        started_by: str = "",
        asked_at: Instant = 0,
    ) -> None:
        super().__init__(name, future, None if start is None else start.args_hash)
        self._decoder = decoder
        self._start = start
        self._asked_at = asked_at
        self.child = child
        """The uid of the run that it waits for."""
        self.started_by = started_by
        """The identity under which that run tells its end."""

    @property
    def is_tied(self) -> bool:
        """Say whether the child is stopped when nobody waits for it any more."""
        return self._start is not None and bool(self._start.tied)

    @property
    def has_id(self) -> bool:
        """Say whether the user chose the id of the child, so that it may be taken."""
        return self._start is not None and bool(self._start.id)

    def start_row(self, parent: Claimed) -> NewRun | None:
        """Return the run to be started, or None if it was started before."""
        if self._start is None:
            return None
        return born(self._start, parent, self.identity, self._asked_at)

    def begin(self, run: NewRun | None) -> None:
        """Take note of the run that it waits for from now on."""
        self.is_kept = True
        if run is not None:
            self.child, self.started_by = run.uid, self.identity

    def take_up(self, record: Record) -> None:
        """Go on waiting for a child that was started before."""
        super().take_up(record)
        self.started_by = self.started_by or self.identity
        if record.payload.payload is not None:
            self.child = decode(unpack(record.payload.payload), str)

    def opening(self) -> bytes:
        """Return what an open record of it keeps: whom it waits for."""
        return pack(encode(self.child))

    def closing(self, end: ChildEnd) -> tuple[RecordState, bytes | None, bytes | None]:
        """Return how the record of it is closed: its state, payload and error."""
        state = _STATES[RunState(end.state)]
        match state:
            case RecordState.SUCCEEDED:
                return state, end.data, None
            case RecordState.FAILED if end.data:
                return state, None, end.data
            case RecordState.FAILED:
                error = RunFailed(self._shown, end.reason or "", "")
                return state, None, pack(encode_error(error))
            case _:
                return state, None, pack(encode(end.reason or ""))

    def value(self, record: Record) -> Any:
        """Return the child's result."""
        return self._decoder(unpack(record.payload.payload))

    def _resolve(self, future: asyncio.Future[Any], record: Record) -> None:
        if record.state is RecordState.SUCCEEDED:
            future.set_result(self.value(record))
        else:
            future.set_exception(self.error(record))

    def error(self, record: Record) -> BaseException:
        """Return what the body is told of a child that has no result."""
        kept = unpack(record.payload.error)
        if record.state is RecordState.FAILED:
            return failure_of(self._shown, decode_error(kept))
        return RunCancelled(self._shown, record.state, decode(kept, str))

    @property
    def _shown(self) -> str:
        return (self._start.id if self._start is not None else "") or f"of {self.name}"


class RoutedStepCall(ChildCall):
    """A call of a step that runs elsewhere; to the body it is a step like any other."""

    kind = RecordKind.STEP

    def error(self, record: Record) -> BaseException:
        """Return what the step raised."""
        kept = unpack(record.payload.error)
        if record.state is RecordState.FAILED:
            return decode_error(kept)
        if record.state is RecordState.TIMED_OUT:
            return TimedOut(f"step {self.name!r}", "its deadline")
        return RunCancelled(self._shown, record.state, decode(kept, str))


class StartCall(Awaited):
    """A start of another run, which goes on by itself."""

    kind = RecordKind.START

    def __init__(
        self,
        name: str,
        future: asyncio.Future[Any],
        start: NewRun,
        asked_at: Instant,
        on_conflict: str,
    ) -> None:
        super().__init__(name, future, start.args_hash)
        self._start = start
        self._asked_at = asked_at
        self.on_conflict = on_conflict

    @property
    def has_id(self) -> bool:
        """Say whether the user chose the id, so that it may be taken."""
        return bool(self._start.id)

    def start_row(self, parent: Claimed) -> NewRun:
        """Return the run to be started."""
        return born(self._start, parent, self.identity, self._asked_at)

    def closing(self, uid: str, run_id: str, *, is_child: bool) -> bytes:
        """Return what the record of it keeps."""
        return pack(encode({"uid": uid, "id": run_id, "is_child": is_child}))

    def value(self, record: Record) -> Any:
        """Return uid, id, whether it is a child, and the identity under which it tells its end."""
        kept = decode(unpack(record.payload.payload))
        return kept["uid"], kept["id"], kept["is_child"], record.identity


def born(start: NewRun, parent: Claimed, identity: str, asked_at: Instant) -> NewRun:
    """Return the row of a run that a body starts."""
    uid = child_uid(parent.uid, identity, asked_at)
    return start._replace(
        uid=uid,
        id=start.id or uid,
        parent=parent.uid,
        parent_identity=identity,
        root=parent.root or parent.uid,
        version=start.version or parent.version,
        trace=parent.trace,
    )


class PatchCall(Call):
    """A mark that code was changed; history keeps from where on it counts."""

    kind = RecordKind.PATCH

    def __init__(self, name: str, identity: str) -> None:
        super().__init__(name)
        self.identity = identity

    def is_abandoned(self) -> bool:
        """Say that nobody waits for it."""
        return True

    def hand_over(self, record: Record) -> None:
        """Do nothing: the body has gone on already."""
