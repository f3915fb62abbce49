"""The lease: which worker may write, until when, and the fate of a write.

A worker is alive while its lease row exists. A lease that is past its time is not lost yet: only
deleting the row takes the right to write away, and every batch of writes locks the row.

A worker that cannot reach the database cannot renew, so a lease that ran out says that a worker is
gone only if the database could be reached meanwhile. The worker that deletes it knows: it renewed
its own lease all that time, without a gap. An outage of less than a gap (half a lease) delays the
renewals of the others (every third of one) by less than they have left; after a longer one no
worker is without a gap for one lease length, and by then all live workers have renewed. Both
hold for clocks that step, too: a large step looks like a gap.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, TypeAlias, assert_never

from onward.core.decision import Decision, Ignored, Moved, Refused
from onward.core.instant import DAY, HOUR, MINUTE, SECOND
from onward.core.run import RunState
from onward.core.value import Value, changed

if TYPE_CHECKING:
    from collections.abc import Container, Iterable

    from onward.core.instant import Duration, Instant

LEASE: Duration = 15 * SECOND
MAX_REMOTE_LEASE: Duration = HOUR
"""The longest lease of a remote worker: if its key is revoked, its runs wait until it expires."""

RENEW_EVERY: Duration = 5 * SECOND
AUDIT_EVERY: Duration = 30 * SECOND

STALL: Duration = 10 * SECOND
"""A worker whose event loop has been blocked for this long lets others continue its runs."""

MAX_STALLS_DOUBLED = 3
"""How often that time doubles, for a worker that is blocked again and again."""

STALLS_QUIET = 10
"""After how many times that time without being blocked it is what it was at first."""

STALL_LIMIT: Duration = 5 * MINUTE
"""A worker whose event loop has been blocked for this long does not renew its lease."""

GONE_WORKERS_KEPT: Duration = DAY
"""How long operators can see a worker that left or died."""

GAPS_A_LEASE = 2
"""Renewals further apart than this part of a lease have a gap between them."""

MAX_AHEAD: Duration = SECOND
"""A lease that was renewed later than this from now was renewed by a clock that was ahead."""


class Lease(Value):
    """A worker's lease row; None stands for a row that is not there.

    All instants are the database's. `steady_since` is when the worker began to renew without a gap.
    """

    renewed_at: Instant
    steady_since: Instant
    length: Duration = LEASE

    @property
    def until(self) -> Instant:
        """When it runs out."""
        return self.renewed_at + self.length


class Renewed(Value):
    """The worker renews its lease."""


class TakenOver(Value):
    """Another worker wants the runs of one that seems gone; `by` is its own lease."""

    by: Lease | None


class Left(Value):
    """The worker leaves by itself."""


Fact: TypeAlias = Renewed | TakenOver | Left


def taken(*, now: Instant, length: Duration = LEASE) -> Lease:
    """Return the lease of a worker that starts."""
    return Lease(now, now, length)


def is_steady(lease: Lease, *, now: Instant) -> bool:
    """Return whether the worker has renewed its lease less than a gap ago."""
    age = now - lease.renewed_at
    return age >= 0 and age * GAPS_A_LEASE <= lease.length


def renewed(lease: Lease, *, now: Instant) -> Lease:
    """Return the lease after a renewal."""
    steady_since = lease.steady_since if is_steady(lease, now=now) else now
    return changed(lease, renewed_at=now, steady_since=steady_since)


def expirable_at(lease: Lease, by: Lease) -> Instant:
    """Return from when the holder of `by` may delete the lease, if neither is renewed before.

    The longer of both lengths counts: a worker that renews rarely cannot know of short outages.
    """
    length = max(lease.length, by.length)
    return max(lease.renewed_at + 1, by.steady_since) + length


def expirable(lease: Lease, by: Lease | None, *, now: Instant) -> bool:
    """Return whether the holder of `by` may delete the lease."""
    return by is not None and is_steady(by, now=now) and now >= expirable_at(lease, by)


def clipped(lease: Lease, *, now: Instant) -> Lease:
    """Return the lease as it counts from now on, also if it was renewed by a clock ahead of now.

    Otherwise a worker that died while the clock was a day ahead would be alive for a day.
    """
    if lease.renewed_at <= now + MAX_AHEAD:
        return lease
    return changed(lease, renewed_at=now, steady_since=now)


def advance(lease: Lease | None, fact: Fact, *, now: Instant) -> Decision[Lease | None]:
    """Return the lease row after `fact`; a row that is gone never comes back."""
    if lease is None:
        return Refused("it was taken over") if isinstance(fact, Renewed) else Ignored("it is gone")
    match fact:
        case Renewed():
            return Moved(renewed(lease, now=now))
        case Left():
            return Moved(None)
        case TakenOver(by):
            return _taken_over(lease, by, now)
    assert_never(fact)


def _taken_over(lease: Lease, by: Lease | None, now: Instant) -> Decision[Lease | None]:
    if by is None or not is_steady(by, now=now):
        return Refused("the other worker may have been cut off itself")
    if not expirable(lease, by, now=now):
        return Refused("its worker may be alive", until=expirable_at(lease, by))
    return Moved(None)


def may_renew(*, last_tick: int, now: int, limit: Duration = STALL_LIMIT) -> bool:
    """Return whether the lease may be renewed: not for an event loop that has stalled.

    Both are readings of a steady clock.
    """
    return now - last_tick < limit


class LoopState(StrEnum):
    """What a worker does about its event loop."""

    ALIVE = "alive"
    STALLED = "stalled"
    """It lets other workers continue its runs, but for the one that blocks the loop."""
    STUCK = "stuck"
    """It gives up that run as well: the lease is left to run out, or the process ends."""


def loop_state(
    blocked: Duration, *, stall: Duration = STALL, limit: Duration = STALL_LIMIT
) -> LoopState:
    """Return the state of an event loop that has been blocked for so long."""
    if blocked >= limit:
        return LoopState.STUCK
    return LoopState.STALLED if blocked >= stall else LoopState.ALIVE


def stall_after(releases: int, stall: Duration = STALL) -> Duration:
    """Return for how long the loop of a worker that released runs so often must be blocked.

    Each release repeats work. Workers that are blocked again and again would do nothing else.
    """
    return stall << min(releases, MAX_STALLS_DOUBLED)


def may_share(leases: Iterable[tuple[str, Lease]], worker: str, *, now: Instant) -> bool:
    """Return whether any other worker is alive that could continue the runs of this one."""
    return any(name != worker and lease.until >= now for name, lease in leases)


def unknown(listed: Iterable[str], known: Container[str]) -> tuple[str, ...]:
    """Return the runs in a worker's name that it does not know, and so must release."""
    return tuple(uid for uid in listed if uid not in known)


# --- the fate of a write --------------------------------------------------------------------------


class Fate(StrEnum):
    """The fate of one commit of a batch."""

    DONE = "done"
    BUSY = "busy"
    LOST = "lost"


class Row(Value):
    """The run's row as a commit found it; `worker` is its owner while it is running."""

    state: RunState
    fence: int
    inbox: int
    worker: str | None = None


class Write(Value):
    """What an owner wanted to commit for one run.

    `moves` says that it changes the run's own state; `seen` is the inbox number it had seen, where
    the move may only happen if nothing has arrived since; `worker` is the owner.
    """

    fence: int
    moves: bool = False
    seen: int | None = None
    worker: str | None = None


def may_write(row: Row | None, fence: int, *, leased: bool) -> bool:
    """Return whether the holder of `fence` still owns the run."""
    return leased and row is not None and row.fence == fence


def fate(row: Row | None, write: Write, *, leased: bool) -> Fate:
    """Return the fate of a write, whether this is its first try or a repeated one.

    `leased` says whether the worker that writes has its lease. In a batch of several workers, each
    write depends on the lease of its own worker.

    A run that left `running` under the write's own fence was moved by this very write: everyone
    else who changes a running run raises its fence. So a lost reply is recognised.
    """
    if row is None or not may_write(row, write.fence, leased=leased):
        return Fate.LOST
    if row.state is not RunState.RUNNING:
        return Fate.DONE if write.moves else Fate.LOST
    if row.worker != write.worker:  # a fence is easily guessed
        return Fate.LOST
    if write.seen is not None and write.seen != row.inbox:
        return Fate.BUSY
    return Fate.DONE
