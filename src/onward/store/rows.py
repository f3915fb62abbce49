"""What is written to the store and read from it, as plain tuples.

Rows are named tuples because they are the hot path: one is made per step, goes to SQLite as it is
and is turned into columns for Postgres by one `zip`. Fields stand in the order of the columns.
Payloads are bytes that carry the tag of their codec; the store never looks into them.

A field that ends in `_in` is a duration from the commit's own time; the database adds its clock,
so that no worker's clock ever decides when something is due.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
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


class Owner(NamedTuple):
    """A worker that has a run, under the fence of its claim."""

    worker: str
    run: str
    fence: int


class Start(NamedTuple):
    """A start of a run: by a client, or for another run by the owner of that."""

    run: NewRun
    owner: Owner | None = None


class NewRecord(NamedTuple):
    """A record of a run's history: opened, or closed with its outcome."""

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


class Move(NamedTuple):
    """A change of the run's own row: it parks, pauses, ends, or is released.

    `seen` is the inbox number that the owner had seen: with it the move happens only if nothing
    has arrived since. A move to `running` keeps the run and clears its crashes. `culprit` is the
    call whose error ended it, `parked_by` the code that does not fit its history.
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
    culprit: str | None = None


class Message(NamedTuple):
    """Something for the inbox of a run; `message` is its id, unique in that inbox.

    `target` is the id of a run, which stands for its newest run, or if there is none a uid. With
    `by_uid`, and in a commit, it is always a uid. `stirs` holds the reasons for which a paused run
    is woken, each between commas (`,approval,operator,`).
    """

    target: str
    message: str
    kind: str
    name: str = ""
    payload: bytes | None = None
    stirs: str = ""
    by_uid: int = 0


class EffectWrite(NamedTuple):
    """A row of the ledger as it shall be. It is written if its version was one less before."""

    key: str
    run: str
    identity: str
    name: str
    title: str
    args: bytes
    args_hash: str
    state: str
    version: int
    attempt: int = 0
    asks: int = 0
    approved: int = 1
    reconciles: int = 0
    tries: int | None = None
    reach: Duration = 0
    start_by_in: Duration | None = None
    settle_in: Duration | None = None
    known_in: Duration | None = None
    due_in: Duration | None = None
    result: bytes | None = None
    error: bytes | None = None
    asked: int = 0


class EffectRow(NamedTuple):
    """A row of the ledger as it stands."""

    key: str
    run: str
    identity: str
    name: str
    title: str
    args: bytes
    args_hash: str
    state: str
    version: int
    attempt: int
    asks: int
    approved: int
    reconciles: int
    tries: int | None
    reach: Duration
    start_by: Instant | None
    settle_until: Instant | None
    known_until: Instant | None
    due: Instant | None
    result: bytes | None
    error: bytes | None
    verdict: str | None
    decided_by: str | None
    decided_why: str | None
    decided_at: Instant | None
    created_at: Instant
    updated_at: Instant
    read_at: Instant
    """What time the database had when this was read."""


class DeliveryMove(NamedTuple):
    """One event of one handler changes hands: reserved, consumed, skipped or released."""

    handler: str
    event: str
    was: str
    becomes: str
    reason: str | None = None


class Publish(NamedTuple):
    """An event for every handler that subscribes to the topic."""

    uid: str
    topic: str
    message: str
    payload: bytes
    key: str = ""


class HandlerState(NamedTuple):
    """The state that a handler returned; written if its version was one less before."""

    handler: str
    key: str
    version: int
    state: bytes | None
    wake_at: Instant | None = None


class Claimed(NamedTuple):
    """A run that this worker now owns, with what it needs to go on.

    `input` and `args_hash` are None only if its row of data is lost. `ready_at` is since when a
    worker could have claimed it, or 0 if the one that had it vanished.
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


class InboxRow(NamedTuple):
    """A message as the owner of a run reads it; a large one may come without its payload."""

    run: str
    seq: int
    message: str
    kind: str
    name: str
    payload: bytes | None
    sent_at: Instant
    is_omitted: int = 0


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
    """What a run was given and what came of it.

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
    culprit: str | None
    progress: bytes | None
    attributes: bytes | None
    follower: str | None
    follower_link: str | None


class NotesRow(NamedTuple):
    """What a run says of itself: the attributes that it began with, and what it noted since."""

    attributes: bytes | None
    notes: list[bytes]


class Started(NamedTuple):
    """The answer to a start: the run that it made or, if another has the id, the newest of that id.

    `start_hash` is the hash of the arguments of the start that began the run's chain.
    """

    uid: str
    created: bool
    name: str
    start_hash: str
    state: str


class Sent(NamedTuple):
    """The answer to a message: its number in the inbox, or why it has none."""

    uid: str | None
    seq: int | None
    queue: str
    fate: str  # delivered, duplicate, ended, absent
