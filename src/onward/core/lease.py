"""The lease: who may write, until when, and what became of a write.

A worker is alive while its lease row is there. Being past its time is no loss by itself: only
whoever deletes the row takes the right to write away, and every batch of writes holds the row.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, TypeAlias, assert_never

from onward.core.decision import Decision, Ignored, Moved, Refused
from onward.core.instant import MINUTE, SECOND
from onward.core.run import RunState
from onward.core.value import Value

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from onward.core.instant import Duration, Instant

LEASE: Duration = 15 * SECOND
RENEW_EVERY: Duration = 5 * SECOND
AUDIT_EVERY: Duration = 30 * SECOND
LOOP_STALL_MOST: Duration = 5 * MINUTE


class Lease(Value):
    """A worker's lease row; None stands for a row that is not there."""

    until: Instant


class Renewed(Value):
    """The worker says that it lives."""


class TakenOver(Value):
    """Someone wants the runs of a worker that seems gone."""


class Left(Value):
    """The worker leaves by itself."""


Fact: TypeAlias = Renewed | TakenOver | Left


def taken(*, now: Instant) -> Lease:
    """Return the lease of a worker that starts."""
    return Lease(now + LEASE)


def expired(lease: Lease, *, now: Instant) -> bool:
    """Return whether others may delete the lease."""
    return lease.until < now


def advance(lease: Lease | None, fact: Fact, *, now: Instant) -> Decision[Lease | None]:
    """Return the lease row after `fact`; a row that is gone never comes back."""
    if lease is None:
        return Refused("it was taken over") if isinstance(fact, Renewed) else Ignored("it is gone")
    match fact:
        case Renewed():
            return Moved(taken(now=now))
        case Left():
            return Moved(None)
        case TakenOver() if expired(lease, now=now):
            return Moved(None)
        case TakenOver():
            return Refused("its worker is alive", until=lease.until + 1)
    assert_never(fact)


def may_renew(*, last_tick: Instant, now: Instant) -> bool:
    """Return whether the renewing thread may go on: not for an event loop that stands still."""
    return now - last_tick < LOOP_STALL_MOST


def adoptable(state: RunState, *, leased: bool) -> bool:
    """Return whether a run may be taken from its worker, whose lease row is there or not."""
    return state is RunState.RUNNING and not leased


def unknown(listed: Iterable[str], known: Collection[str]) -> tuple[str, ...]:
    """Return the runs in a worker's name that it does not know, and so must release."""
    return tuple(uid for uid in listed if uid not in known)


# --- what became of a write -----------------------------------------------------------------------


class Fate(StrEnum):
    """What became of one member of a batch of writes."""

    DONE = "done"
    BUSY = "busy"
    LOST = "lost"


class Row(Value):
    """The run's row as a commit found it."""

    state: RunState
    fence: int
    inbox: int


class Write(Value):
    """What an owner wanted to commit for one run.

    `moves` says that it changes the run's own state; `seen` is the inbox number it had seen, where
    the move may only happen if nothing has arrived since.
    """

    fence: int
    moves: bool = False
    seen: int | None = None


def may_write(row: Row | None, fence: int, *, leased: bool) -> bool:
    """Return whether the holder of `fence` still owns the run."""
    return leased and row is not None and row.fence == fence


def fate(row: Row | None, write: Write, *, leased: bool) -> Fate:
    """Return what became of a write, whether this is its first try or a repeated one.

    A run that left `running` under the write's own fence was moved by this very write: everyone
    else who changes a running run raises its fence. So a lost reply is recognised.
    """
    if row is None or not may_write(row, write.fence, leased=leased):
        return Fate.LOST
    if row.state is not RunState.RUNNING:
        return Fate.DONE if write.moves else Fate.LOST
    if write.seen is not None and write.seen != row.inbox:
        return Fate.BUSY
    return Fate.DONE
