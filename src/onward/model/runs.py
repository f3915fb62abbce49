"""Runs as they are started, moved, claimed and read."""

from __future__ import annotations

from typing import NamedTuple

from onward.core.instant import Duration, Instant


class NewRun(NamedTuple):
    """A run to be started. `uid` is made by the client, so that a repeated start is recognised."""

    uid: str
    id: str
    name: str
    input: bytes
    args_hash: str
    kind: str = "workflow"
    queue: str = "default"
    version: str | None = None
    priority: int = 0
    flow_key: str | None = None
    tags: str = ""
    delay_in: Duration = 0
    due: Instant | None = None
    deadline: Instant | None = None
    deadline_in: Duration | None = None
    parent: str | None = None
    parent_identity: str | None = None
    root: str | None = None
    cancel_with_parent: int = 0
    follows: str | None = None
    link: str | None = None
    attempt: int = 1
    origin: str | None = None
    handler: str | None = None
    trace: str | None = None
    retry: str | None = None
    attributes: bytes | None = None


class RunOwner(NamedTuple):
    """A worker that has a run, under the fence of its claim."""

    worker: str
    run: str
    fence: int


class Start(NamedTuple):
    """A start of a run: by a client, or for another run by the owner of that."""

    run: NewRun
    owner: RunOwner | None = None


class Move(NamedTuple):
    """A change of the run's own row: it parks, pauses, ends, or is released.

    `seen` is the inbox number that the owner had seen: with it the move happens only if nothing
    has arrived since. A move to `running` keeps the run and clears its crashes. `failed_call` is
    the call whose error ended it, `parked_by` the code that does not fit its history. `progress` is
    what was said last, if it was not written before. Failures are grouped by `error_type` and
    `failed_step`.
    """

    state: str
    reason: str | None = None
    due: Instant | None = None
    due_in: Duration | None = None
    seq: int = 0
    seen: int | None = None
    phase: str | None = None
    parked_by: str | None = None
    result: bytes | None = None
    error: bytes | None = None
    failed_call: str | None = None
    progress: bytes | None = None
    error_type: str = ""
    failed_step: str = ""

    @property
    def has_time(self) -> bool:
        """Whether the run continues by itself at some time."""
        return self.due is not None or self.due_in is not None

    @property
    def has_data(self) -> bool:
        """Whether there is something to store apart from the run's row."""
        return not (
            self.result is None
            and self.error is None
            and self.failed_call is None
            and self.progress is None
        )


class ClaimedRun(NamedTuple):
    """A run that a worker now owns, with what it needs to execute it.

    `input` and `args_hash` are None only if its row of data is lost. `ready_at` is since when a
    worker could have claimed it, or 0 if the one that had it vanished, which is `taken_from`.
    """

    uid: str
    id: str
    kind: str
    name: str
    version: str | None
    queue: str
    fence: int
    inbox: int
    seq: int
    crashes: int
    deadline: Instant | None
    parent: str | None
    parent_identity: str | None
    root: str | None
    cancel_with_parent: int
    follows: str | None
    link: str | None
    attempt: int
    origin: str | None
    handler: str | None
    handler_key: str
    phase: str | None
    scheduled_at: Instant
    created_at: Instant
    started_at: Instant | None
    priority: int
    tags: str
    held_by: str
    input: bytes | None
    args_hash: str | None
    trace: str | None
    retry: str | None
    attributes: bytes | None
    beginning: str | None
    claimed_at: Instant = 0
    ready_at: Instant = 0
    taken_from: str | None = None


class RunRow(NamedTuple):
    """A run as it stands."""

    uid: str
    id: str
    newest: int
    kind: str
    name: str
    version: str | None
    queue: str
    priority: int
    flow_key: str | None
    tags: str
    state: str
    reason: str | None
    phase: str | None
    due: Instant | None
    deadline: Instant | None
    worker: str | None
    fence: int
    seq: int
    inbox: int
    crashes: int
    parent: str | None
    parent_identity: str | None
    root: str | None
    cancel_with_parent: int
    follows: str | None
    link: str | None
    attempt: int
    origin: str | None
    handler: str | None
    parked_by: str
    held_by: str
    scheduled_at: Instant
    created_at: Instant
    started_at: Instant | None
    finished_at: Instant | None
    updated_at: Instant


class RunEnd(NamedTuple):
    """The input and the outcome of a run.

    `follower` is the run that follows it under the same id, and `follower_link` says how.
    """

    uid: str
    state: str
    reason: str | None
    input: bytes
    args_hash: str
    result: bytes | None
    error: bytes | None
    id: str
    failed_call: str | None
    progress: bytes | None
    attributes: bytes | None
    follower: str | None
    follower_link: str | None


class EndState(NamedTuple):
    """The state of a run that has ended, or is paused."""

    uid: str
    state: str


class RunOutcome(NamedTuple):
    """What a list shows beside the row of a run: its error, and runs that it belongs to."""

    uid: str
    error: bytes | None = None
    parent_id: str | None = None
    follows_id: str | None = None
    follower: str | None = None
    follower_link: str | None = None
    error_type: str = ""
    failed_step: str = ""
    discarded_at: Instant | None = None
    discarded_by: str | None = None
    discarded_why: str | None = None


class NotesRow(NamedTuple):
    """What a run says of itself: the attributes that it began with, and what it noted since."""

    attributes: bytes | None
    notes: list[bytes]


class Started(NamedTuple):
    """The answer to a start: the run that it made or, if another has the id, the newest of that id.

    `start_hash` is the hash of the arguments of the start that began the run's chain. `is_deleted`
    means that only the id of the run is left.
    """

    uid: str
    created: bool
    name: str
    start_hash: str
    state: str
    is_deleted: bool = False


DELETED_RANK = 3
"""The rank of what is left of a deleted run, in the statements that find the run of an id."""


def found_run(wanted: str, uid: str, name: str, start_hash: str, state: str, rank: int) -> Started:
    """Return the answer to a start of the run `wanted` that found a run of that uid or id."""
    return Started(uid, uid == wanted, name, start_hash, state, rank == DELETED_RANK)
