"""Slots: the instants at which a schedule fires, and the disposition of each.

Every slot that has passed gets exactly one disposition, also if it passed while no process ran.
When cron fires is not known here: its slots come in as an iterator.
"""

from __future__ import annotations

from collections import deque
from enum import StrEnum
from typing import TYPE_CHECKING, assert_never

from onward.core.digest import digest
from onward.core.instant import DAY, MINUTE, show
from onward.core.value import Value
from onward.errors import BadInput, InvariantBroken

if TYPE_CHECKING:
    from collections.abc import Iterator

    from onward.core.instant import Duration, Instant

MAX_CATCH_UP = 1_000
ON_TIME_WITHIN: Duration = MINUTE
AHEAD_TOLERATED: Duration = MINUTE
"""How far a schedule may be ahead of the clock, which was then set back by so much."""
SLOTS_KEPT: Duration = 90 * DAY
"""How long the disposition of a slot is kept, at least."""
NEWEST_KEPT = 100
"""How many of the newest rows of a schedule are kept, however old they are."""


class CatchUp(StrEnum):
    """Which of the slots that passed unseen are still started."""

    SKIP = "skip"
    LATEST = "latest"
    ALL = "all"


class Overlap(StrEnum):
    """What happens to a slot while a run of the schedule is open."""

    ALLOW = "allow"
    SKIP = "skip"
    COALESCE = "coalesce"
    REPLACE = "replace"


class Disposition(StrEnum):
    """The disposition of a slot; the values are stored in the database."""

    STARTED = "started"
    MISSED = "missed"
    CAPPED = "capped"
    OVERLAPPED = "overlapped"
    COALESCED = "coalesced"
    PAUSED = "paused"
    BACKFILLED = "backfilled"
    TRIGGERED = "triggered"


class Rules(Value):
    """How a schedule treats slots; `cap` bounds `CatchUp.ALL`."""

    catch_up: CatchUp = CatchUp.LATEST
    overlap: Overlap = Overlap.ALLOW
    cap: int = 100

    def __post_init__(self) -> None:
        if not 1 <= self.cap <= MAX_CATCH_UP:
            raise BadInput(
                f"max_catch_up={self.cap}",
                f"is not between 1 and {MAX_CATCH_UP}",
                'Use a number in this range, or catch_up="skip" to start no runs for missed slots.',
            )


# --- which slots have passed ----------------------------------------------------------------------


class Due(Value):
    """The slots that have passed and have no disposition yet.

    A month of missed seconds is a number here, not a list: only the newest are spelled out.
    """

    count: int
    first: Instant | None
    newest: tuple[Instant, ...]
    following: Instant | None


def due_slots(slots: Iterator[Instant], *, now: Instant) -> Due:
    """Return what has passed of slots that come in rising order; the iterator may end."""
    newest: deque[Instant] = deque(maxlen=MAX_CATCH_UP + 1)
    count, first = 0, None
    for slot in slots:
        if newest and slot <= newest[-1]:
            raise InvariantBroken(f"a schedule went back from {newest[-1]} to {slot}")
        if slot > now:
            return Due(count, first, tuple(newest), slot)
        first = slot if first is None else first
        count += 1
        newest.append(slot)
    return Due(count, first, tuple(newest), None)


def slot_after(instant: Instant, *, anchor: Instant, every: Duration) -> Instant:
    """Return the first slot of an interval that is later than `instant`.

    Slots lie at `anchor`, one `every` later, and so on, never before; so nothing drifts.
    """
    if every < 1:
        raise BadInput(f"interval {show(every)}", "is not a positive duration", 'Try "5m".')
    if instant < anchor:
        return anchor
    return anchor + ((instant - anchor) // every + 1) * every


def due_interval(*, anchor: Instant, every: Duration, since: Instant, now: Instant) -> Due:
    """Return the slots of an interval later than `since` that have passed, at any distance."""
    first = slot_after(since, anchor=anchor, every=every)
    passed = range(first, now + 1, every)
    if not passed:
        return Due(0, None, (), first)
    newest = tuple(passed[-(MAX_CATCH_UP + 1) :])
    return Due(len(passed), first, newest, passed[-1] + every)


def without(due: Due, taken: tuple[Instant, ...]) -> Due:
    """Return the slots that have passed but for those that have a run already.

    There are such slots if the clock was ahead for a while: `taken` are all of them that are due.
    """
    if not taken:
        return due
    has_older = due.count > len(due.newest)  # then the first of the newest stays, as their end
    gone = set(taken).difference(due.newest[:1] if has_older else ())
    newest = tuple(slot for slot in due.newest if slot not in gone)
    if not newest:
        return Due(0, None, (), due.following)
    return Due(due.count - len(gone), due.first if has_older else newest[0], newest, due.following)


def anchor_by(now: Instant, *, anchor: Instant, every: Duration) -> Instant:
    """Return the anchor of the same grid that is not later than `now`."""
    return anchor - max(0, -(-(anchor - now) // every)) * every


# --- dispositions ---------------------------------------------------------------------------------


class Span(Value):
    """Neighbouring slots with the same disposition, from `first` to `last`."""

    first: Instant
    last: Instant
    count: int
    disposition: Disposition


class Plan(Value):
    """What to write for a schedule, oldest slot first.

    `held` is a slot that waits for the open runs to end; it and what follows are looked at again
    then. `replaces` says to cancel the open runs. `next_due` is when to look again.
    """

    spans: tuple[Span, ...] = ()
    held: Instant | None = None
    replaces: bool = False
    next_due: Instant | None = None

    @property
    def starts(self) -> tuple[Instant, ...]:
        """Return the slots that get a run; each of their spans has one slot."""
        return tuple(s.first for s in self.spans if s.disposition is Disposition.STARTED)

    def first_part(self, starts: int) -> Plan:
        """Return the beginning of this plan with at most so many starts.

        What it leaves out is due at once, and planned again.
        """
        if len(self.starts) <= starts:
            return self
        following = self.starts[starts]
        spans = tuple(span for span in self.spans if span.last < following)
        return Plan(spans, next_due=following)


def plan(
    due: Due,
    rules: Rules,
    *,
    now: Instant,
    open_run: bool,
    paused: bool = False,
    held: bool = False,
) -> Plan:
    """Return one disposition for every slot that has passed.

    `open_run` says that a run of this schedule has not ended; `paused` that the schedule rests;
    `held` that the first of the slots came on time and was held since.
    """
    if due.first is None:
        return Plan(next_due=due.following)
    if paused:
        span = Span(due.first, due.newest[-1], due.count, Disposition.PAUSED)
        return Plan((span,), next_due=due.following)
    chosen = _caught_up(due, rules, now, held=held)
    older = _older(due, chosen, rules)
    waits = open_run and rules.overlap in (Overlap.COALESCE, Overlap.REPLACE)
    if waits and chosen:
        spans = (*older, *_overlapping(chosen, rules.overlap, open_run=False)[:-1])
        replaces = rules.overlap is Overlap.REPLACE
        return Plan(_merged(spans), chosen[-1], replaces, due.following)
    spans = (*older, *_overlapping(chosen, rules.overlap, open_run=open_run))
    return Plan(_merged(spans), next_due=due.following)


def _caught_up(due: Due, rules: Rules, now: Instant, *, held: bool) -> tuple[Instant, ...]:
    known = due.newest[1:] if due.count > len(due.newest) else due.newest
    match rules.catch_up:
        case CatchUp.ALL:
            return known[-rules.cap :]
        case CatchUp.SKIP if now - due.newest[-1] > ON_TIME_WITHIN and not held:
            return ()
        case _:
            return known[-1:]


def _older(due: Due, chosen: tuple[Instant, ...], rules: Rules) -> tuple[Span, ...]:
    rest = due.count - len(chosen)
    if not rest or due.first is None:
        return ()
    last = due.newest[-len(chosen) - 1]
    if rules.overlap is Overlap.COALESCE and chosen:
        return (Span(due.first, last, rest, Disposition.COALESCED),)
    capped = rules.catch_up is CatchUp.ALL
    return (Span(due.first, last, rest, Disposition.CAPPED if capped else Disposition.MISSED),)


def _overlapping(
    chosen: tuple[Instant, ...], overlap: Overlap, *, open_run: bool
) -> tuple[Span, ...]:
    starting = _starting(chosen, overlap, open_run=open_run)
    otherwise = Disposition.COALESCED if overlap is Overlap.COALESCE else Disposition.OVERLAPPED
    return tuple(
        _one(slot, Disposition.STARTED if slot in starting else otherwise) for slot in chosen
    )


def _starting(
    chosen: tuple[Instant, ...], overlap: Overlap, *, open_run: bool
) -> tuple[Instant, ...]:
    match overlap:
        case Overlap.ALLOW:
            return chosen
        case Overlap.SKIP:
            return () if open_run else chosen[:1]
        case Overlap.COALESCE | Overlap.REPLACE:
            return chosen[-1:]
    assert_never(overlap)


def _one(slot: Instant, disposition: Disposition) -> Span:
    return Span(slot, slot, 1, disposition)


def _merged(spans: tuple[Span, ...]) -> tuple[Span, ...]:
    """Join neighbours with the same disposition; a slot that gets a run stays by itself."""
    joined: list[Span] = []
    for span in spans:
        last = joined[-1] if joined else None
        if (
            last is not None
            and last.disposition is span.disposition
            and span.disposition is not Disposition.STARTED
        ):
            joined[-1] = Span(last.first, span.last, last.count + span.count, span.disposition)
        else:
            joined.append(span)
    return tuple(joined)


# --- the start of a slot --------------------------------------------------------------------------


def jittered(schedule: str, slot: Instant, jitter: Duration) -> Instant:
    """Return when the run of a slot begins: at its time or up to `jitter` later.

    It depends on the slot alone, so every worker comes to the same answer.
    """
    return slot + int(digest("jitter", schedule, str(slot)), 16) % (jitter + 1)
