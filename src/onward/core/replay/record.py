"""A record: one durable call of a run, as history keeps it."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Any

from onward.core.value import Value

if TYPE_CHECKING:
    from onward.core.instant import Instant


RECORDS_WARN = 10_000
MAX_RECORDS = 50_000


class RecordKind(StrEnum):
    """What was called; the values are the words in the database."""

    STEP = "step"
    EFFECT = "effect"
    CHILD = "child"
    TIMER = "timer"
    SIGNAL = "signal"
    PUBLISH = "publish"
    START = "start"
    NOTE = "note"
    MEMO = "memo"
    PATCH = "patch"
    CANCEL = "cancel"
    CLOCK = "clock"


# What reached others: it must not silently vanish from the code, nor be done again.
GRAVE = frozenset(
    {
        RecordKind.EFFECT,
        RecordKind.CHILD,
        RecordKind.SIGNAL,
        RecordKind.PUBLISH,
        RecordKind.START,
    }
)


class RecordState(StrEnum):
    """How the call stands; everything but `open` is closed for good."""

    OPEN = "open"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    TIMED_OUT = "timed_out"
    CANCELLED = "cancelled"


class Record(Value):
    """One attempt of one durable call.

    `seq` is the position at which it is handed over, None while it has none: an open record, or
    a failed attempt that is to be tried again. `args_hash` is None where there is nothing to
    compare. `payload` and `error` are the codec's business; the core only passes them on.
    """

    identity: str
    attempt: int
    seq: int | None
    kind: RecordKind
    name: str
    state: RecordState
    args_hash: str | None = None
    version: str | None = None
    due: Instant | None = None
    payload: Any = None
    error: Any = None
