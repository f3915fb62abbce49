"""Runs that other runs start under ids of the user's choosing, and the results of such runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from onward.core.chain import Link
from onward.core.run import TERMINAL, RunState
from onward.engine.starting import ask_to_end, check_started
from onward.errors import Conflict
from onward.store.runs.replacing import replace

if TYPE_CHECKING:
    from onward.model.runs import NewRun, RunEnd, RunOwner, RunRow, Started
    from onward.store.store import Store


async def start_beside(
    store: Store, owner: RunOwner, run: NewRun, on_conflict: str
) -> Started | None:
    """Start a run, or find the one that has the id; None: try again, that one is about to end.

    It never waits itself: it acts for a run, which may hold what the other one needs.

    Raises:
        Conflict: the id belongs to another run that may not stand for this one.
        LeaseLost: the run for which it is started is not the owner's any more.
    """
    started = await store.start(run, owner)
    if started.created or on_conflict != "replace":
        return check_started(run, started, on_conflict)
    if not started.is_deleted and not await ask_to_end(store, started.uid, owner):
        return None
    return await _in_place_of(store, owner, started.uid, run)


async def start_child(store: Store, owner: RunOwner, run: NewRun) -> Started | None:
    """Start a child under an id that must be free; None: try again, its run is about to end.

    A child of an earlier attempt of the same parent is adopted if it has succeeded, or is open and
    is not cancelled with its parent. Otherwise this one takes its place.

    Raises:
        Conflict: the id belongs to another run.
        LeaseLost: the parent is not the owner's any more.
    """
    started = await store.start(run, owner)
    if started.created:
        return started
    if started.is_deleted:
        raise Conflict(
            run.id,
            "its run ended long ago and was deleted, together with its result",
            "Choose another id",
        )
    other = await store.run(started.uid)
    if not await _is_elder(store, other, run):
        raise Conflict(
            run.id, "it belongs to a run that is not a child of this run", "Choose another id"
        )
    if other.state == RunState.SUCCEEDED or (
        other.state not in TERMINAL and not other.cancel_with_parent
    ):
        return check_started(run, started, "return")
    if other.state not in TERMINAL:
        return None  # it is being cancelled with its parent
    return await _in_place_of(store, owner, other.uid, run)


async def end_of(store: Store, uid: str) -> RunEnd | None:
    """Return how a run ended, or the run that continues it; None if that is open."""
    end = await store.end(uid)
    while end.follower is not None and end.follower_link != Link.REPLACE:
        end = await store.end(end.follower)
    return end if end.state in TERMINAL else None


async def _in_place_of(store: Store, owner: RunOwner, old: str, run: NewRun) -> Started | None:
    started = await replace(store, old, run, owner)
    return started if started.created else None


async def _is_elder(store: Store, other: RunRow, run: NewRun) -> bool:
    """Return whether a run was started by the same call of an earlier attempt of the parent."""
    if run.parent is None or other.parent_identity != run.parent_identity:
        return False
    parent = await store.run(run.parent)
    while parent.link in (Link.RETRY, Link.FORK) and parent.follows is not None:
        before = await store.run(parent.follows)
        if before.id != parent.id:
            return False  # a fork beside another, whose children are its own
        if before.uid == other.parent:
            return True
        parent = before
    return False
