"""The lease: who may write, and what became of a write."""

from __future__ import annotations

from itertools import product

import pytest

from onward.core.decision import Decision, Ignored, Moved, Refused
from onward.core.instant import DAY, SECOND
from onward.core.lease import (
    GAPS_A_LEASE,
    LEASE,
    MAX_AHEAD,
    RENEW_EVERY,
    STALL,
    STALL_LIMIT,
    Fact,
    Fate,
    Lease,
    Left,
    LoopState,
    Renewed,
    Row,
    TakenOver,
    Write,
    advance,
    clipped,
    expirable,
    fate,
    loop_state,
    may_renew,
    may_share,
    may_write,
    renewed,
    stall_after,
    taken,
    unknown,
)
from onward.core.run import RunState
from onward.core.value import changed

NOW = 100 * SECOND
HELD = Lease(NOW - LEASE, 0)
LATE = Lease(NOW - LEASE - 1, 0)
STEADY = Lease(NOW, NOW - LEASE)
FRESH = Lease(NOW, NOW - LEASE + 1)
CUT_OFF = Lease(NOW - LEASE, 0)
AHEAD = Lease(NOW + 1, 0)

DECISIONS: dict[tuple[Lease | None, Fact], Decision[Lease | None]] = {
    (HELD, Renewed()): Moved(Lease(NOW, NOW)),
    (HELD, TakenOver(STEADY)): Refused("its worker may be alive", until=NOW + 1),
    (HELD, TakenOver(FRESH)): Refused("its worker may be alive", until=NOW + 1),
    (HELD, Left()): Moved(None),
    (LATE, Renewed()): Moved(Lease(NOW, NOW)),
    (LATE, TakenOver(STEADY)): Moved(None),
    (LATE, TakenOver(FRESH)): Refused("its worker may be alive", until=NOW + 1),
    (LATE, Left()): Moved(None),
    (None, Renewed()): Refused("it was taken over"),
    (None, Left()): Ignored("it is gone"),
    **{(None, TakenOver(by)): Ignored("it is gone") for by in (STEADY, FRESH, CUT_OFF, None)},
    **{
        (lease, TakenOver(by)): Refused("the other worker may have been cut off itself")
        for lease, by in product([HELD, LATE], [CUT_OFF, AHEAD, None])
    },
}


@pytest.mark.parametrize(("lease", "fact"), list(DECISIONS))
def test_every_fact_about_every_lease_is_decided(lease: Lease | None, fact: Fact) -> None:
    assert advance(lease, fact, now=NOW) == DECISIONS[lease, fact]


def test_renewing_counts_from_now_and_does_not_pile_up() -> None:
    assert advance(taken(now=NOW), Renewed(), now=NOW) == Moved(taken(now=NOW))


@pytest.mark.parametrize("age", range(-1, LEASE + SECOND, SECOND // 2))
def test_a_renewal_after_more_than_half_a_lease_or_before_the_last_begins_anew(age: int) -> None:
    lease = Lease(NOW - age, 7)

    is_steady = 0 <= age <= LEASE // 2

    assert renewed(lease, now=NOW) == Lease(NOW, 7 if is_steady else NOW)


@pytest.mark.parametrize("other", [LEASE // 3, LEASE, 3 * LEASE])
def test_of_two_lengths_the_longer_counts(other: int) -> None:
    longer = max(LEASE, other)
    by = Lease(NOW, NOW - longer, other)

    assert not expirable(Lease(NOW - longer, 0), by, now=NOW)
    assert expirable(Lease(NOW - longer - 1, 0), by, now=NOW)
    assert not expirable(Lease(0, 0), changed(by, steady_since=NOW - longer + 1), now=NOW)


def test_a_lease_that_a_clock_ahead_has_renewed_counts_from_now() -> None:
    assert clipped(Lease(NOW + DAY, NOW + DAY), now=NOW) == taken(now=NOW)
    assert clipped(Lease(NOW + MAX_AHEAD, 0), now=NOW) == Lease(NOW + MAX_AHEAD, 0)


def test_a_refused_takeover_succeeds_at_the_instant_it_names() -> None:
    refused = advance(HELD, TakenOver(STEADY), now=NOW)
    assert isinstance(refused, Refused)
    assert refused.until is not None

    assert not expirable(HELD, STEADY, now=refused.until - 1)
    assert advance(HELD, TakenOver(STEADY), now=refused.until) == Moved(None)


def test_a_worker_renews_twice_within_its_lease() -> None:
    assert 2 * RENEW_EVERY < LEASE


def test_a_worker_renews_in_time_though_the_database_was_away_for_a_gap_that_nobody_sees() -> None:
    assert RENEW_EVERY + LEASE // GAPS_A_LEASE < LEASE


def test_a_worker_stops_renewing_for_a_loop_that_stands_still() -> None:
    assert may_renew(last_tick=NOW, now=NOW + STALL_LIMIT - 1)
    assert not may_renew(last_tick=NOW, now=NOW + STALL_LIMIT)


@pytest.mark.parametrize(
    ("blocked", "state"),
    [
        (0, LoopState.ALIVE),
        (STALL - 1, LoopState.ALIVE),
        (STALL, LoopState.STALLED),
        (STALL_LIMIT - 1, LoopState.STALLED),
        (STALL_LIMIT, LoopState.STUCK),
    ],
)
def test_a_blocked_loop_is_stalled_and_then_stuck(blocked: int, state: LoopState) -> None:
    assert loop_state(blocked) is state


def test_a_worker_that_is_blocked_again_and_again_releases_runs_later() -> None:
    waits = [stall_after(releases) for releases in range(5)]

    assert waits == [STALL, 2 * STALL, 4 * STALL, 8 * STALL, 8 * STALL]


def test_runs_are_shared_only_with_another_worker_that_is_alive() -> None:
    lease = taken(now=NOW)

    assert not may_share([("me", lease)], "me", now=NOW)
    assert may_share([("me", lease), ("other", lease)], "me", now=NOW + LEASE)
    assert not may_share([("me", lease), ("other", lease)], "me", now=NOW + LEASE + 1)


def test_an_audit_releases_what_the_worker_does_not_know() -> None:
    assert unknown(["c", "a", "b"], {"a"}) == ("c", "b")


def test_only_the_holder_of_the_fence_and_of_a_lease_may_write() -> None:
    row = Row(RunState.RUNNING, fence=2, inbox=0)

    assert may_write(row, 2, leased=True)
    assert not may_write(row, 1, leased=True)
    assert not may_write(row, 2, leased=False)
    assert not may_write(None, 2, leased=True)


RUNNING = Row(RunState.RUNNING, fence=2, inbox=5)
RECORD = Write(fence=2)
PARK = Write(fence=2, moves=True, seen=5)
PARK_TOO_SOON = Write(fence=2, moves=True, seen=4)
FINISH = Write(fence=2, moves=True)
WRITES = [RECORD, PARK, PARK_TOO_SOON, FINISH]


@pytest.mark.parametrize(
    ("write", "answer"),
    [
        (RECORD, Fate.DONE),
        (PARK, Fate.DONE),
        (PARK_TOO_SOON, Fate.BUSY),
        (FINISH, Fate.DONE),
    ],
)
def test_the_owner_of_a_running_run_writes_unless_it_parks_over_a_message(
    write: Write, answer: Fate
) -> None:
    assert fate(RUNNING, write, leased=True) is answer


@pytest.mark.parametrize("write", WRITES)
def test_a_worker_without_a_lease_writes_nothing(write: Write) -> None:
    assert fate(RUNNING, write, leased=False) is Fate.LOST


@pytest.mark.parametrize("write", WRITES)
def test_a_run_that_is_gone_or_has_another_fence_is_lost(write: Write) -> None:
    assert fate(None, write, leased=True) is Fate.LOST
    assert fate(Row(RunState.RUNNING, fence=3, inbox=5), write, leased=True) is Fate.LOST
    assert fate(Row(RunState.WAITING, fence=1, inbox=5), write, leased=True) is Fate.LOST


@pytest.mark.parametrize("state", [state for state in RunState if state is not RunState.RUNNING])
@pytest.mark.parametrize("write", WRITES)
def test_a_repeated_move_finds_itself_done_and_a_record_finds_itself_lost(
    state: RunState, write: Write
) -> None:
    row = Row(state, fence=2, inbox=9)

    assert fate(row, write, leased=True) is (Fate.DONE if write.moves else Fate.LOST)
