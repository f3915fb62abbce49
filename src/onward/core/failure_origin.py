"""The failure origin: which failed calls a retry makes again, and which results it keeps.

A retry copies history up to a position, the cut, and runs the code from there. The cut is the first
of the failures that ended the run, so every failed call after it is made again. Results that were
requested before the cut and arrived after it are kept; what was requested later may be a result of
the failure, and is requested again.

Which failures ended the run:

1. Those whose errors the run's error is, contains, or was raised from. If there are none, because
   the code raised an error of its own, it is the last one.
2. Every earlier failure since which the run has made no progress. After an error of the code's own
   it has made progress if it requested something that reached others: an effect, or another run.
   Otherwise any call that succeeded will do, such as a fallback.
3. Every failure that came while a call of 1, 2 or 3 was under way, unless the branch that it was
   handed to has made progress.

A failure that is none of these was dealt with: it stays as it is, and so does its fallback.
"""

from __future__ import annotations

import json
from bisect import bisect_left
from collections import defaultdict
from typing import TYPE_CHECKING

from onward.core.replay.record import RecordKind
from onward.core.value import Value

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence


class FailedCall(Value):
    """Where a retry begins, and which later results it keeps, by the identities of the calls."""

    identity: str
    beside: tuple[str, ...] = ()

    def kept(self) -> str:
        """Return it as one text."""
        return json.dumps([self.identity, *self.beside])


def read_failed_call(kept: str | None) -> FailedCall | None:
    """Return the failed_call that a text stands for."""
    if kept is None:
        return None
    identity, *beside = json.loads(kept)
    return FailedCall(identity, tuple(beside))


class CallOutcome(Value):
    """How a call of a body ended.

    Args:
        identity: The call.
        asked: Up to which position history was read when it was requested.
        seq: The position of its outcome; None if its code was never handed one.
        is_good: It succeeded, and no part of it failed.
        has_result: Its record is a success, though items of a map in it may have failed.
        branch: The path of the task that requested it.
        kind: What was requested.
        reaches_out: It has, or may have, changed something outside the run.
    """

    identity: str
    asked: int
    seq: int | None
    is_good: bool = False
    has_result: bool = False
    branch: str = ""
    kind: RecordKind = RecordKind.STEP
    reaches_out: bool = False

    @property
    def is_progress(self) -> bool:
        """Say whether a run that requested this has made progress by it."""
        return self.reaches_out or (self.is_good and self.kind is not RecordKind.TIMER)


def failed_call_of(
    outcomes: Iterable[CallOutcome], causes: Iterable[CallOutcome] = ()
) -> FailedCall | None:
    """Return where a retry of a run that failed begins, and which later results it keeps.

    Args:
        outcomes: What is known of its calls. Successes before its first failure may be left out,
            unless they were requested before it and arrived after it.
        causes: Those whose errors the run's error is, contains, or was raised from.
    """
    known = list(outcomes)
    failed, ended = _failed(known), list(causes)
    if ended:
        got_on = [each.asked for each in known if each.is_progress]
    elif failed:
        ended, got_on = failed[-1:], [each.asked for each in known if each.reaches_out]
    else:
        return None
    return _at(_first(ended, failed, _progress(known, sorted(got_on))), known)


def stopped_call_of(
    outcomes: Iterable[CallOutcome], under_way: Sequence[CallOutcome], stopped: int
) -> FailedCall | None:
    """Return where a retry begins of a run that was stopped at this position of its history.

    None: at the stop. But calls that had failed while others were under way, and so were not dealt
    with when those were stopped, are made again, too.
    """
    known = list(outcomes)
    cut_off = [CallOutcome(each.identity, each.asked, stopped) for each in under_way]
    if not cut_off:
        return None
    # The run has made progress since every failure: it was not stopped because of one.
    origin = _first(cut_off, _failed(known), _progress(known, range(stopped)))
    return None if origin.seq == stopped else _at(origin, known)


def _failed(known: Iterable[CallOutcome]) -> list[CallOutcome]:
    """Return the calls that failed, in the order in which their code was handed that."""
    return sorted((each for each in known if each.seq and not each.is_good), key=_seq)


def _at(origin: CallOutcome, known: Iterable[CallOutcome]) -> FailedCall:
    """Return the failed call, with the calls made before it failed that have a result all the same.

    That is so, too, for a call whose result its code was never handed, if it comes to have one.
    """
    cut = origin.seq or 0
    beside = [
        each.identity
        for each in known
        if each.asked < cut and (each.seq is None or (each.has_result and each.seq >= cut))
    ]
    return FailedCall(origin.identity, tuple(dict.fromkeys(beside)))


class _Progress(Value):
    """Positions at which a run made progress: it requested what succeeded, or reached others."""

    since_any: Sequence[int]
    """Those that count for every failure before them, in order."""
    by_branch: Mapping[str, Sequence[int]]
    branches: Mapping[int, Sequence[str]]
    """The branches that requested something at a position."""

    def is_between(self, seq: int, cut: int) -> bool:
        """Say whether the run made progress after a failure and before another."""
        first = _first_from(self.since_any, seq)
        return first is not None and first < cut

    def of_branch(self, failure: CallOutcome, seq: int) -> int | None:
        """Return when the branch of a failure made progress; those around it may have, too."""
        at_once = self.branches.get(seq, ())
        if any(_are_related(failure.branch, branch) for branch in at_once):
            return seq
        return _first_from(self.by_branch.get(failure.branch, ()), seq)


def _progress(known: Iterable[CallOutcome], since_any: Sequence[int]) -> _Progress:
    by_branch: defaultdict[str, list[int]] = defaultdict(list)
    branches: defaultdict[int, list[str]] = defaultdict(list)
    for each in sorted(known, key=lambda each: each.asked):
        if each.is_progress:
            by_branch[each.branch].append(each.asked)
            branches[each.asked].append(each.branch)
    return _Progress(since_any, by_branch, branches)


def _first(
    ended: Sequence[CallOutcome], failed: Sequence[CallOutcome], progress: _Progress
) -> CallOutcome:
    """Return the first of the failures that ended a run: it began with these."""
    # From the last to the first: what came while another was under way comes after that one.
    included = sorted(ended, key=lambda each: -_seq(each))
    origin, under_way_since = included[-1], min(each.asked for each in ended)
    for each in reversed(failed):
        seq = _seq(each)
        if seq >= _seq(origin):
            continue
        is_open = not progress.is_between(seq, _seq(origin))
        if is_open or (under_way_since < seq and _is_together(each, included, progress)):
            origin, under_way_since = each, min(under_way_since, each.asked)
            included.append(each)
    return origin


def _is_together(
    failure: CallOutcome, included: Sequence[CallOutcome], progress: _Progress
) -> bool:
    """Say whether one of these was under way from this failure until they failed.

    They count only if the branch of the failure had made no progress before that.
    """
    seq = _seq(failure)
    went_on = progress.of_branch(failure, seq)
    for each in reversed(included):
        if went_on is not None and _seq(each) > went_on:
            return False
        if each.asked < seq:
            return True
    return False


def _seq(outcome: CallOutcome) -> int:
    return outcome.seq or 0


def _first_from(positions: Sequence[int], seq: int) -> int | None:
    """Return the first of these positions that is not before another."""
    at = bisect_left(positions, seq)
    return positions[at] if at < len(positions) else None


def _are_related(one: str, other: str) -> bool:
    """Say whether one of two branches is the other, or is below it."""
    return _is_below(one, other) or _is_below(other, one)


def _is_below(branch: str, above: str) -> bool:
    return not above or branch == above or branch.startswith(f"{above}.")
