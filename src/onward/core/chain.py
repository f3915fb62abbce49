"""The chain: runs that follow each other under one id.

A run that has ended never changes. Retry, fork, continue and replace make a new run that points
back at the old one; the id is the name of the newest.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, assert_never

from onward.core.decision import Decision, Moved, Refused
from onward.core.digest import digest
from onward.core.replay.record import RecordKind
from onward.core.run import TERMINAL, Returned, RunState, RunStatus, Superseded, advance
from onward.core.value import Value
from onward.errors import InvariantBroken

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from onward.core.instant import Instant
    from onward.core.replay.record import Record


class Link(StrEnum):
    """How a new run follows an old one."""

    RETRY = "retry_of"
    CONTINUE = "continued_from"
    FORK = "forked_from"
    REPLACE = "replaces"


class Carried(StrEnum):
    """What a new run takes over from the old one."""

    HISTORY = "history"
    SIGNALS = "signals"
    ATTRIBUTES = "attributes"
    DEADLINE = "deadline"


class Member(Value):
    """One run of a chain; the first follows none."""

    uid: str
    follows: str | None = None


def tip(members: Iterable[Member]) -> str:
    """Return the uid of the newest run.

    Raises:
        InvariantBroken: the runs are not one line from a first to a newest.
    """
    line = list(members)
    after = {member.follows: member.uid for member in line}
    at, steps = None, 0
    while at in after and steps < len(line):
        at, steps = after[at], steps + 1
    if at is None or steps != len(line) or len(after) != len(line):
        raise InvariantBroken(f"{len(line)} runs with one id do not form a simple chain")
    return at


def follow(
    run: RunStatus, link: Link, *, now: Instant, newest: bool = True, unsettled: bool = False
) -> Decision[RunStatus]:
    """Return a run as it is when another follows it; unchanged if it has ended.

    `newest` says that nothing follows the run yet, `unsettled` that it has open branches,
    children or effects.
    """
    if not newest:
        return Refused(
            "it was already retried, forked or continued; act on the newest run with its id"
        )
    if link is Link.CONTINUE:
        if unsettled:
            return Refused("it has open branches or effects; await them before continue_as_new")
        return advance(run, Returned(continued=True), now=now)
    if run.state not in TERMINAL:
        if link is Link.REPLACE:
            return Refused(f"it is {run.state}; it can be replaced only when it has ended")
        return advance(run, Superseded(forked=link is Link.FORK), now=now)
    if link is Link.RETRY and run.state is RunState.SUCCEEDED:
        return Refused("it has succeeded; fork it to run a part of it again")
    return Moved(run)


def is_same_start(link: Link) -> bool:
    """Return whether the new run goes on with what the start of the old one began.

    Then that start, repeated, means the new run, whatever arguments this one has.
    """
    return link is not Link.REPLACE


def origin(link: Link, old: str, old_origin: str | None) -> str | None:
    """Return what the effect keys of the new run are made of; None: of its own uid.

    A retry keeps it: it is the same work again, so an effect that happened must not happen twice.
    After the others the same identity means another effect. But if a child goes on as a new run,
    and its parent does all of it again, that is the same work, too.
    """
    if link is Link.RETRY:
        return old_origin or old
    if link is Link.CONTINUE and old_origin is not None:
        return digest("continued", old_origin)
    return None


def child_origin(parent: str, identity: str) -> str:
    """Return the origin of a child that ends with its parent, which has this origin or uid.

    It is the same when the parent is retried and asks for the child again.
    """
    return digest("child", parent, identity)


def carried(link: Link) -> frozenset[Carried]:
    """Return what the new run takes over."""
    match link:
        case Link.RETRY | Link.FORK:
            return frozenset({Carried.HISTORY, Carried.SIGNALS, Carried.ATTRIBUTES})
        case Link.CONTINUE:
            return frozenset({Carried.SIGNALS, Carried.ATTRIBUTES, Carried.DEADLINE})
        case Link.REPLACE:
            return frozenset()
    assert_never(link)


def retry_cut(records: Sequence[Record], *, failed_call: str | None = None) -> int | None:
    """Return the position from which a retry runs again; None copies the whole history.

    That is the call whose error ended the run, by its identity `failed_call`. Where it is not
    known: the cancel. If a run was ended for another reason, its code had handled what
    failed.
    """
    placed = [(record.seq, record) for record in records if record.seq is not None]
    placed.sort(key=lambda pair: pair[0])
    named = [seq for seq, record in placed if record.identity == failed_call]
    cancels = [seq for seq, record in placed if record.kind is RecordKind.CANCEL]
    return next(iter(named or cancels), None)


def copied(records: Sequence[Record], *, cut: int | None) -> tuple[Record, ...]:
    """Return the part of a history that a retry or a fork begins with.

    These are the calls handed over before `cut`, with their failed attempts; what was open is
    asked anew. Signals taken by the others go back to the inbox.
    """
    kept = {
        record.identity
        for record in records
        if record.seq is not None and (cut is None or record.seq < cut)
    }
    return tuple(record for record in records if record.identity in kept)
