"""Retention: which runs may be deleted, and when.

Runs that need each other are deleted together. These are a run, its children, and the runs that
retry or fork it: a retry of one finds effects that another has sent, and must not send them again.
A run that continues or replaces another needs nothing of it, so the older one may go first.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import TYPE_CHECKING, Any, TypeAlias

from onward.core.chain import Link
from onward.core.instant import DAY, Duration, DurationLike, duration
from onward.core.run import TERMINAL, RunState
from onward.core.value import Value, changed
from onward.errors import BadInput

if TYPE_CHECKING:
    from collections.abc import Iterable

    from onward.core.instant import Instant

ENDED = (RunState.SUCCEEDED, RunState.CANCELLED, RunState.FAILED, RunState.TIMED_OUT)
"""The states of runs that may be deleted, in the order in which they are looked through."""

RetentionLike: TypeAlias = Mapping[str, DurationLike | None] | DurationLike | None
"""Durations by final state, one duration for all states, or None to keep all runs."""

_NEEDED = (Link.RETRY, Link.FORK)


class Retention(Value):
    """How long runs are kept after their end, by state; None: until they are deleted by hand.

    `ids` is how long after its end a run's id is recognised, even if the run is deleted earlier.
    """

    succeeded: Duration | None = 7 * DAY
    failed: Duration | None = 30 * DAY
    cancelled: Duration | None = 7 * DAY
    timed_out: Duration | None = 30 * DAY
    ids: Duration = 30 * DAY

    def of(self, state: RunState) -> Duration | None:
        """Return how long a run is kept that ended in this state."""
        kept: Duration | None = getattr(self, state.value)
        return kept


DEFAULT_RETENTION = Retention()


def read_retention(given: RetentionLike) -> Retention | None:
    """Return what an app was given as its retention: None deletes nothing.

    Args:
        given: How long to keep runs by state, or one duration for all of them.

    Raises:
        BadInput: a key is no final state, or a duration is malformed.
    """
    if given is None:
        return None
    if not isinstance(given, Mapping):
        kept = duration(given)
        return Retention(kept, kept, kept, kept)
    wanted: dict[str, Any] = {}
    for name, value in given.items():
        if name not in Retention.__match_args__:
            known = ", ".join(Retention.__match_args__)
            raise BadInput(f"retention key {name!r}", "is not known", f"Use one of: {known}")
        if value is None and name == "ids":
            raise BadInput("retention of ids", "is None", 'Pass a duration, such as "365d"')
        wanted[name] = None if value is None else duration(value)
    return changed(DEFAULT_RETENTION, **wanted)


class WhyKept(StrEnum):
    """Why a run is not deleted."""

    OPEN = "open"  # it has not ended
    UNSETTLED = "unsettled"  # it has an effect that is not settled, or an event that it reserved
    SENDABLE = "sendable"  # an effect of it can still arrive, or its receiver still knows the key
    STATE = "state"  # runs of this state are kept
    AGE = "age"  # it ended too recently
    OLDER = "older"  # an older run under its id is kept
    RELATED = "related"  # a run that belongs to it is kept


class RunFacts(Value):
    """What is known of a run when it is to be decided whether it may be deleted."""

    uid: str
    id: str
    state: RunState
    finished_at: Instant | None = None
    parent: str | None = None
    cancel_with_parent: bool = False
    follows: str | None = None
    link: Link | None = None
    unsettled: bool = False
    """Whether it has an effect that is not settled, or an event that it reserved."""
    sendable_until: Instant | None = None
    """Until when an effect of it can arrive, or is known to its receiver."""

    @property
    def needs(self) -> tuple[str, ...]:
        """The runs without which this one must not be, if they are there."""
        parent = () if self.parent is None else (self.parent,)
        return (
            parent
            if self.follows is None or self.link not in _NEEDED
            else (
                *parent,
                self.follows,
            )
        )


def why_kept(
    run: RunFacts, keep: Retention, *, now: Instant, counts_itself: bool = True
) -> WhyKept | None:
    """Return why a run by itself is kept; None if it may be deleted.

    `counts_itself` is False for a run that is part of another one's story: a child that ends with
    its parent, or a run that was retried. Then the age of that one decides.
    """
    if run.state not in TERMINAL or run.finished_at is None:
        return WhyKept.OPEN
    if run.unsettled:
        return WhyKept.UNSETTLED
    if run.sendable_until is not None and run.sendable_until > now:
        return WhyKept.SENDABLE
    if not counts_itself:
        return None
    length = keep.of(run.state)
    if length is None:
        return WhyKept.STATE
    return WhyKept.AGE if run.finished_at + length > now else None


def decide(runs: Iterable[RunFacts], keep: Retention, *, now: Instant) -> dict[str, WhyKept | None]:
    """Return for each run why it is kept; None if it may be deleted, with all that need it.

    Args:
        runs: Runs, with all that they need, that need them, or that they follow, as far as those
            are there.
        keep: How long runs are kept.
        now: The time.
    """
    given = {run.uid: run for run in runs}
    retried = {run.follows for run in given.values() if _is_retry(run, given)}
    kept = {
        run.uid: why_kept(
            run,
            keep,
            now=now,
            counts_itself=not (
                run.uid in retried or (run.cancel_with_parent and run.parent in given)
            ),
        )
        for run in given.values()
    }
    together = families_of(given)
    waits = True
    while waits:  # until no decision changes another
        waits = False
        for family in together:
            if any(kept[uid] is None for uid in family):
                why = _why_family_kept([given[uid] for uid in family], given, kept)
                if why is not None:
                    kept |= {uid: kept[uid] or why for uid in family}
                    waits = True
    return kept


def _why_family_kept(
    family: list[RunFacts], given: Mapping[str, RunFacts], kept: Mapping[str, WhyKept | None]
) -> WhyKept | None:
    if any(kept[run.uid] is not None for run in family):
        return WhyKept.RELATED
    older = (run.follows for run in family if _is_later(run, given))
    # Otherwise an id would have runs and none of them would be the newest.
    return (
        WhyKept.OLDER if any(uid is not None and kept[uid] is not None for uid in older) else None
    )


def _is_retry(run: RunFacts, given: Mapping[str, RunFacts]) -> bool:
    """Return whether a run took the place of another by a retry or a fork."""
    return _is_later(run, given) and run.link in _NEEDED


def _is_later(run: RunFacts, given: Mapping[str, RunFacts]) -> bool:
    """Return whether a run follows another under its id that is still there."""
    older = None if run.follows is None else given.get(run.follows)
    return older is not None and older.id == run.id


def families_of(given: Mapping[str, RunFacts]) -> list[list[str]]:
    """Return the runs that are deleted together."""
    head = {uid: uid for uid in given}

    def find(uid: str) -> str:
        while head[uid] != uid:
            head[uid] = head[head[uid]]
            uid = head[uid]
        return uid

    for run in given.values():
        for other in run.needs:
            if other in given:
                head[find(run.uid)] = find(other)
    families: dict[str, list[str]] = {}
    for uid in given:
        families.setdefault(find(uid), []).append(uid)
    return list(families.values())
