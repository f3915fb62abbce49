"""What workers offer, what an engine answers them, and why none of them takes a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from onward.core.flow import FlowId
from onward.core.instant import SECOND, Duration, Instant, instant_text, show
from onward.core.lease import GAPS_A_LEASE
from onward.model.flow import DeclaredLimits
from onward.model.messages import InboxRow
from onward.model.pipelines import PipelineSpec
from onward.model.records import RecordRow
from onward.model.runs import ClaimedRun, RunRow
from onward.model.schedules import ScheduleSpec


class LostWorker(NamedTuple):
    """A worker of the same process that lost its lease, and the runs it had, with their fences."""

    worker: str
    held: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Registration:
    """What a worker says of itself when it joins."""

    worker: str
    host: str
    pid: int
    version: str | None
    queues: tuple[str, ...]
    tags: tuple[str, ...]
    names: tuple[str, ...]
    """The workflows, steps and maps whose runs it takes."""
    codes: Mapping[str, str] = field(default_factory=dict)
    """The mark of the code of each name."""
    limits: Mapping[FlowId, DeclaredLimits] = field(default_factory=dict)
    """The limits that its code declares."""
    schedules: tuple[ScheduleSpec, ...] = ()
    """The schedules that its code declares."""
    slots: int = 0
    """How many runs may execute at a time."""
    pipelines: tuple[PipelineSpec, ...] = ()
    """The pipelines that its code declares."""

    @property
    def offer(self) -> WorkerOffer:
        """Return what decides which runs it can take."""
        return WorkerOffer(
            frozenset(self.queues), frozenset(self.names), self.version, frozenset(self.tags)
        )


class ClaimAnswer(NamedTuple):
    """The answer to a claim.

    `changed` are those of the runs to which something was sent while the claim was answered.
    `was_repeated`: the claim was sent again because no reply came, so the first one may have
    claimed runs that no reply names. `may_be_more`: it found as many as it could take.
    """

    runs: Sequence[ClaimedRun]
    changed: frozenset[str] = frozenset()
    was_repeated: bool = False
    may_be_more: bool = False


class LoadedRun(NamedTuple):
    """What was read of a run, or the error that reading it raised."""

    history: Sequence[RecordRow] = ()
    inbox: Sequence[InboxRow] = ()
    failure: Exception | None = None
    read_at: Instant = 0
    """The database's time just before; 0 if nothing depends on it."""


class News(NamedTuple):
    """Runs of a worker that may have changed; `everything`: any of them may have."""

    runs: tuple[str, ...] = ()
    everything: bool = False


class Unserved(NamedTuple):
    """A run that no live worker can take, and why."""

    run: RunRow
    why: str


class WorkerRow(NamedTuple):
    """A worker as operators see it; `renewed_at` is None if it has no lease."""

    worker: str
    host: str
    pid: int
    version: str | None
    queues: str
    tags: str
    names: str
    slots: int
    draining: int
    started_at: Instant
    left_at: Instant | None
    renewed_at: Instant | None
    is_alive: int
    running: int


class Renewal(NamedTuple):
    """When a worker last renewed its lease, if it has one, and whether it is alive by that."""

    worker: str
    at: Instant | None = None
    is_alive: bool = False
    length: Duration = 0
    now: Instant = 0

    @property
    def is_late(self) -> bool:
        """Whether a worker that is still alive should have renewed its lease by now."""
        if self.at is None or not self.is_alive:
            return False
        return self.now - self.at > self.length // GAPS_A_LEASE

    @property
    def silence(self) -> str:
        """Return for how long the lease was not renewed."""
        return show((self.now - (self.at or self.now)) // SECOND * SECOND)

    @property
    def why_gone(self) -> str:
        """Return what says that a worker is not alive."""
        if self.at is None:
            return f"its worker {self.worker} has lost its lease"
        since = instant_text(self.at - self.at % SECOND).replace("T", " ")
        return f"its worker {self.worker} has not renewed its lease since {since}"


class RenewedLease(NamedTuple):
    """The answer to the renewal of a lease.

    `until` is when it expires; None means that it is lost. `drains`: the worker is to take no more
    runs and leave.
    """

    until: Instant | None
    drains: bool = False

    @property
    def is_kept(self) -> bool:
        """Whether the worker still has its lease."""
        return self.until is not None


class RunNeeds(NamedTuple):
    """What decides whether a worker can take a run."""

    queue: str
    name: str
    version: str | None
    tags: str


class WorkerOffer(NamedTuple):
    """What a live worker takes."""

    queues: frozenset[str]
    names: frozenset[str]
    version: str | None
    tags: frozenset[str]
    worker: str = ""


def why_not(kind: RunNeeds, servers: list[WorkerOffer]) -> str | None:
    """Return why none of these workers takes runs of a kind; None if one does."""
    able = [server for server in servers if kind.queue in server.queues]
    if not able:
        return f"no worker serves queue {kind.queue!r}"
    able = [server for server in able if kind.name in server.names]
    elsewhere = next((server for server in servers if kind.name in server.names), None)
    if not able and elsewhere is not None:
        return (
            f"no worker on queue {kind.queue!r} knows workflow {kind.name!r}; "
            f"worker {elsewhere.worker} on queue {min(elsewhere.queues)!r} does"
        )
    if not able:
        return f"no worker knows workflow {kind.name!r}"
    able = [server for server in able if kind.version in (None, server.version)]
    if not able:
        return f"no worker has version {kind.version!r}"
    tags = kind.tags.split()
    if tags and not any(server.tags.intersection(tags) for server in able):
        return f"no worker has one of the tags {', '.join(map(repr, tags))}"
    return None
