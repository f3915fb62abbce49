"""Records of a run's history as they are written and read."""

from __future__ import annotations

from typing import NamedTuple

from onward.core.instant import Duration, Instant


class NewRecord(NamedTuple):
    """A record of a run's history: opened, or closed with its outcome.

    `took` is how long a call lasted of which nothing was written when it began. For a wait that is
    opened, it is how long before `due` the wait began: if the database's clock is set forward
    before the row is written, both times are from before, and the wait keeps its length.
    """

    run: str
    identity: str
    attempt: int
    seq: int | None
    kind: str
    name: str
    state: str
    args_hash: str | None = None
    version: str | None = None
    due: Instant | None = None
    due_in: Duration | None = None
    message: int | None = None
    payload: bytes | None = None
    error: bytes | None = None
    took: Duration = 0
    args: bytes | None = None


class RecordRow(NamedTuple):
    """A record of history as it was stored."""

    run: str
    identity: str
    attempt: int
    seq: int | None
    kind: str
    name: str
    state: str
    args_hash: str | None
    version: str | None
    due: Instant | None
    message: int | None
    payload: bytes | None
    error: bytes | None
    opened_at: Instant
    closed_at: Instant | None
    args: bytes | None = None
