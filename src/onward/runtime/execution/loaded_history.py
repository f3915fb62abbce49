"""The history of a run, read once and sorted by which part of the runtime needs it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from onward.core.replay import Record, RecordKind, RecordState
from onward.engine.notes import read_noted
from onward.errors import Undecodable, UnreadableRow
from onward.runtime.body.calls import Awaited, TimerCall
from onward.runtime.body.children import ChildCall, StartCall, bound_child
from onward.runtime.body.chunk_data import failed_items
from onward.runtime.body.notes import step_notes
from onward.runtime.execution.journal import Kept
from onward.runtime.reading import newer, record_of, unreadable

if TYPE_CHECKING:
    from collections.abc import Iterable

    from onward.core.instant import Instant
    from onward.engine.notes import Noted
    from onward.model.records import RecordRow
    from onward.runtime.body.calls import Call

# Looked up: enum construction dominated this loop.
_KINDS = {str(kind): kind for kind in RecordKind}
_STATES = {str(state): state for state in RecordState}
MEMO = "=memo."
"""The prefix of the identity of an outcome from the run that this one retries."""

_CHILDREN = frozenset({RecordKind.CHILD, RecordKind.STEP})


class LoadedHistory:
    """The history of a run."""

    __slots__ = (
        "bound",
        "is_stopping",
        "last",
        "last_at",
        "memos",
        "messages",
        "notes",
        "records",
        "signals",
        "tried",
    )

    def __init__(self) -> None:
        self.records: list[Record] = []
        """Its records for the replay machine; notes are not among them."""
        self.is_stopping = False
        """Whether the run was cancelled."""
        self.last = 0
        """The last position that is taken."""
        self.last_at: Instant = 0
        """The time of its last record."""
        self.messages: set[int] = set()
        """The numbers of the messages that it has recorded."""
        self.signals: dict[str, int] = {}
        """The numbers of recorded signals, by the identity of their waits."""
        self.notes: dict[str, bytes] = {}
        """The notes of the run, by identity."""
        self.memos: dict[str, RecordRow] = {}
        """Outcomes of calls in the run that this one retries, by identity."""
        self.bound: list[str] = []
        """Runs that end with this one, even if its code no longer calls them."""
        self.tried: dict[str, Instant] = {}
        """When the first attempt began of each call without an outcome."""

    @property
    def has_open_effects(self) -> bool:
        """Whether it began effects that had not settled."""
        return any(
            record.kind is RecordKind.EFFECT and record.seq is None for record in self.records
        )

    def memo_of(self, call: Call) -> RecordRow | None:
        """Return the earlier outcome of this call, if the current code can use it.

        A chunk of a map with failed items is run again, with the outcomes of the others.
        """
        memo = self.memos.get(call.identity)
        if memo is None or memo.name != f"{call.kind} {call.name}":
            return None
        if memo.args_hash != call.args_hash:
            return None
        if _is_of_use(call, memo):
            return memo
        if isinstance(call, ChildCall) and memo.payload is not None:
            call.skip_known(memo.payload)
        return None

    def noted_by(self, call: Call) -> Noted | None:
        """Return what a call had noted in the run that this one retries."""
        memo = self.memos.get(step_notes(call.identity))
        return None if memo is None or memo.payload is None else read_noted(memo.payload)[1]


def _is_of_use(call: Call, memo: RecordRow) -> bool:
    if isinstance(call, TimerCall):
        return call.is_sleep  # a limit starts again
    if isinstance(call, StartCall) and memo.payload is not None:
        return bound_child(memo.payload) is None  # one that ends with its parent has ended
    if not isinstance(call, Awaited):
        return False
    try:
        value = call.value(_record(memo, call.kind))
    except Undecodable:
        return False
    return not failed_items(value)


EMPTY_HISTORY = LoadedHistory()
"""The history of a run that has just begun; it must not be changed."""


def read_history(history: Iterable[RecordRow]) -> LoadedHistory:
    """Sort the records of a history."""
    loaded = LoadedHistory()
    for row in history:
        kind = _known(row)
        if kind is RecordKind.NOTE:
            if row.payload is not None:
                loaded.notes[row.identity] = row.payload
        elif kind is RecordKind.MEMO:
            loaded.memos[row.identity.removeprefix(MEMO)] = row
        else:
            loaded.records.append(_record(row, kind))
            try:
                _sort_in(loaded, row, kind)
            except (KeyError, TypeError, ValueError) as error:
                raise unreadable(record_of(row), error) from error
    return loaded


def _known(row: RecordRow) -> RecordKind:
    """Return the kind of a record.

    Raises:
        NewerRow: its kind or its state is one that this version does not know.
    """
    kind = _KINDS.get(row.kind)
    if kind is None:
        raise newer(record_of(row), "kind", row.kind)
    if row.state not in _STATES:
        raise newer(record_of(row), "state", row.state)
    return kind


def _sort_in(loaded: LoadedHistory, row: RecordRow, kind: RecordKind) -> None:
    loaded.last_at = max(loaded.last_at, row.closed_at or row.opened_at)
    if row.seq is None:
        if row.attempt == 1:
            loaded.tried[row.identity] = row.opened_at
    elif row.seq > loaded.last:
        loaded.last = row.seq
    else:  # they come in order
        raise UnreadableRow(record_of(row), f"another record has the same position, {row.seq}")
    if kind is RecordKind.CANCEL:
        loaded.is_stopping = True
    if row.message is not None:
        loaded.messages.add(row.message)
        if kind is RecordKind.SIGNAL:
            loaded.signals[row.identity] = row.message
    is_start = kind is RecordKind.START and row.seq is not None
    is_wait = kind in _CHILDREN and row.state == RecordState.OPEN
    if (is_start or is_wait) and row.error is None and row.payload is not None:
        child = bound_child(row.payload)
        if child is not None:
            loaded.bound.append(child)


def _record(row: RecordRow, kind: RecordKind) -> Record:
    """Return a row of history as a record of the replay machine."""
    return Record(
        row.identity,
        row.attempt,
        row.seq,
        kind,
        row.name,
        _STATES[row.state],
        row.args_hash,
        row.version,
        row.due,
        Kept(row.payload, row.error, row.closed_at or 0, row.args),
    )
