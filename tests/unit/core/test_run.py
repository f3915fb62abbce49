"""The run: every pair of state and fact is decided, and what has ended stays as it is."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onward.core.decision import Ignored, Moved, Refused
from onward.core.run import (
    FAILURES,
    MAX_CRASHES,
    OPEN,
    PAUSES,
    REASONS,
    TERMINAL,
    CancelAsked,
    CancelForced,
    Claimed,
    Disowned,
    Fact,
    Freed,
    Held,
    Parked,
    Paused,
    Raised,
    Reason,
    Recorded,
    Released,
    Returned,
    RunState,
    RunStatus,
    Superseded,
    Unwound,
    Woken,
    advance,
    born,
    suspect,
)
from onward.errors import InvariantBroken

NOW = 1_000

READY = RunStatus(RunState.READY, due=NOW, fence=3)
RUNNING = RunStatus(RunState.RUNNING, fence=3)
WAITING = RunStatus(RunState.WAITING, fence=3)
DUE = RunStatus(RunState.WAITING, due=NOW, fence=3)
LATER = RunStatus(RunState.WAITING, due=NOW + 1, fence=3)
DELAYED = RunStatus(RunState.WAITING, due=NOW + 1, fence=0)
PAUSED = RunStatus(RunState.PAUSED, Reason.OPERATOR, fence=3)
PAUSED_UNSTARTED = RunStatus(RunState.PAUSED, Reason.OPERATOR, fence=0)
DIVERGED = RunStatus(RunState.PAUSED, Reason.DIVERGENCE, fence=3)
UNCERTAIN = RunStatus(RunState.PAUSED, Reason.RECONCILIATION, fence=3)
OPEN_RUNS = {
    "ready": READY,
    "running": RUNNING,
    "waiting": WAITING,
    "due": DUE,
    "later": LATER,
    "delayed": DELAYED,
    "paused": PAUSED,
    "paused unstarted": PAUSED_UNSTARTED,
    "diverged": DIVERGED,
    "uncertain": UNCERTAIN,
}
ENDED = [
    RunStatus(state, reason, fence=3)
    for state in RunState
    if state in TERMINAL
    for reason in sorted(REASONS[state], key=str)
]

FACTS: dict[str, Fact] = {
    "claimed": Claimed(),
    "claimed, vanished": Claimed(vanished=True),
    "claimed, other code": Claimed(other_code=True),
    "recorded": Recorded(),
    "parked": Parked(due=NOW + 5),
    "paused": Paused(Reason.APPROVAL),
    "released": Released(),
    "returned": Returned(),
    "continued": Returned(continued=True),
    "raised": Raised(),
    "unwound": Unwound(),
    "unwound, deadline": Unwound(Reason.DEADLINE),
    "disowned": Disowned(),
    "woken": Woken(),
    "woken, operator": Woken(frozenset({Reason.OPERATOR})),
    "woken, unstarted": Woken(unstarted=True),
    "held": Held(),
    "freed": Freed(NOW),
    "freed, early": Freed(NOW + 9),
    "cancel": CancelAsked(),
    "deadline": CancelAsked(Reason.DEADLINE),
    "forced": CancelForced(),
    "retried": Superseded(),
    "forked": Superseded(forked=True),
}

TAKEN = RunStatus(RunState.RUNNING, fence=4)
AWAKE = RunStatus(RunState.READY, due=NOW, fence=3)
FORCED = RunStatus(RunState.CANCELLED, Reason.FORCED, fence=4)

MOVES: dict[tuple[str, str], RunStatus] = {
    **{(name, "forced"): FORCED for name, run in OPEN_RUNS.items() if run.fence},
    **{
        (name, "forced"): RunStatus(RunState.CANCELLED, Reason.FORCED, fence=1)
        for name in ("delayed", "paused unstarted")
    },
    **{
        (run, claim): TAKEN
        for run in ("ready", "due")
        for claim in ("claimed", "claimed, vanished", "claimed, other code")
    },
    ("running", "claimed, vanished"): RunStatus(RunState.RUNNING, fence=4, crashes=1),
    ("diverged", "claimed, other code"): TAKEN,
    ("running", "recorded"): RUNNING,
    ("running", "parked"): RunStatus(RunState.WAITING, due=NOW + 5, fence=3),
    ("running", "paused"): RunStatus(RunState.PAUSED, Reason.APPROVAL, fence=3),
    ("running", "released"): AWAKE,
    ("running", "returned"): RunStatus(RunState.SUCCEEDED, fence=3),
    ("running", "continued"): RunStatus(RunState.SUCCEEDED, Reason.CONTINUED, fence=3),
    ("running", "raised"): RunStatus(RunState.FAILED, Reason.LOGIC, fence=3),
    ("running", "unwound"): RunStatus(RunState.CANCELLED, fence=3),
    ("running", "unwound, deadline"): RunStatus(RunState.TIMED_OUT, Reason.DEADLINE, fence=3),
    ("running", "disowned"): RunStatus(RunState.READY, due=NOW, fence=4),
    **{
        (run, wake): AWAKE
        for run in ("waiting", "due", "later")
        for wake in ("woken", "woken, operator", "woken, unstarted", "cancel", "deadline")
    },
    ("paused", "woken, operator"): AWAKE,
    ("delayed", "woken, unstarted"): RunStatus(RunState.READY, due=NOW),
    **{
        (run, wake): AWAKE
        for run in ("paused", "diverged", "uncertain")
        for wake in ("cancel", "deadline")
    },
    **{
        (run, "cancel"): RunStatus(RunState.CANCELLED, fence=1)
        for run in ("delayed", "paused unstarted")
    },
    **{
        (run, "deadline"): RunStatus(RunState.TIMED_OUT, Reason.DEADLINE, fence=1)
        for run in ("delayed", "paused unstarted")
    },
    **{(run, "held"): PAUSED for run in ("ready", "waiting", "due", "later")},
    ("delayed", "held"): PAUSED_UNSTARTED,
    **{("paused", freed): AWAKE for freed in ("freed", "freed, early")},
    ("paused unstarted", "freed"): RunStatus(RunState.READY, due=NOW),
    ("paused unstarted", "freed, early"): RunStatus(RunState.WAITING, due=NOW + 9),
    **{
        (name, "forked"): RunStatus(RunState.FAILED, run.reason, fence=run.fence)
        for name, run in OPEN_RUNS.items()
        if run.state is RunState.PAUSED and name != "uncertain"
    },
    **{
        (name, "retried"): RunStatus(RunState.FAILED, run.reason, fence=run.fence)
        for name, run in OPEN_RUNS.items()
        if run.state is RunState.PAUSED
        and run.reason not in (Reason.OPERATOR, Reason.RECONCILIATION)
    },
}
KEPT = {
    *(
        (name, "held")
        for name, run in OPEN_RUNS.items()
        if run.state in (RunState.RUNNING, RunState.PAUSED)
    ),
    *(
        (name, freed)
        for name, run in OPEN_RUNS.items()
        if run.reason is not Reason.OPERATOR
        for freed in ("freed", "freed, early")
    ),
    *(("paused unstarted", wake) for wake in ("woken", "woken, operator", "woken, unstarted")),
    *((run, "woken") for run in ("ready", "running", "delayed", "paused")),
    *((run, "woken") for run in ("diverged", "uncertain")),
    *((run, "woken, operator") for run in ("ready", "running", "delayed")),
    *((run, "woken, operator") for run in ("diverged", "uncertain")),
    *((run, "woken, unstarted") for run in ("ready", "running", "paused")),
    *((run, "woken, unstarted") for run in ("diverged", "uncertain")),
    *((run, wake) for run in ("ready", "running") for wake in ("cancel", "deadline")),
}


@pytest.mark.parametrize(("run", "fact"), list(product(OPEN_RUNS, FACTS)))
def test_every_fact_about_an_open_run_is_decided(run: str, fact: str) -> None:
    decision = advance(OPEN_RUNS[run], FACTS[fact], now=NOW)

    if (run, fact) in MOVES:
        assert decision == Moved(MOVES[run, fact])
    elif (run, fact) in KEPT:
        assert isinstance(decision, Ignored)
    else:
        assert isinstance(decision, Refused)


@pytest.mark.parametrize("run", ENDED, ids=lambda run: f"{run.state}-{run.reason}")
@pytest.mark.parametrize("fact", FACTS.values(), ids=FACTS)
def test_no_fact_changes_a_run_that_has_ended(run: RunStatus, fact: Fact) -> None:
    assert isinstance(advance(run, fact, now=NOW), Ignored)


runs = st.one_of(
    [
        st.tuples(
            st.just(state),
            st.sampled_from(sorted(REASONS[state], key=str)),
            st.none() | st.integers(0, 2 * NOW),
            st.integers(1 if state is RunState.RUNNING else 0, 5),
            st.integers(0, MAX_CRASHES - 1),
        ).map(lambda fields: RunStatus(*fields))
        for state in RunState
    ]
)


@given(runs, st.lists(st.sampled_from(sorted(FACTS.items())), max_size=20))
def test_a_run_always_has_a_reason_that_fits_its_state(
    run: RunStatus, facts: list[tuple[str, Fact]]
) -> None:
    for _, fact in facts:
        match advance(run, fact, now=NOW):
            case Moved(to):
                assert to.reason in REASONS[to.state]
                assert to.fence >= run.fence
                assert run.state not in TERMINAL
                run = to
            case _:
                pass


@given(runs, st.sampled_from(sorted(FACTS.items())))
def test_nobody_but_the_owner_takes_a_running_run_away_under_its_fence(
    run: RunStatus, named: tuple[str, Fact]
) -> None:
    _, fact = named
    by_owner = isinstance(fact, Recorded | Parked | Paused | Released | Returned | Raised | Unwound)
    match advance(run, fact, now=NOW):
        case Moved(to) if run.state is RunState.RUNNING:
            assert (to.fence == run.fence) is by_owner
        case _:
            pass


def test_a_run_fails_as_crashed_when_its_fifth_worker_vanished() -> None:
    run = RunStatus(RunState.RUNNING, fence=1)
    for crashes in range(1, MAX_CRASHES):
        decision = advance(run, Claimed(vanished=True), now=NOW)
        assert isinstance(decision, Moved)
        run = decision.to
        assert (run.state, run.crashes) == (RunState.RUNNING, crashes)

    assert advance(run, Claimed(vanished=True), now=NOW) == Moved(
        RunStatus(RunState.FAILED, Reason.CRASHED, fence=MAX_CRASHES + 2, crashes=MAX_CRASHES)
    )


def test_a_new_record_clears_the_crashes() -> None:
    run = RunStatus(RunState.RUNNING, fence=1, crashes=4)

    assert advance(run, Recorded(), now=NOW) == Moved(RunStatus(RunState.RUNNING, fence=1))


def test_a_wake_is_no_crash() -> None:
    run = RunStatus(RunState.WAITING, due=NOW, fence=1, crashes=3)

    assert advance(run, Claimed(), now=NOW) == Moved(
        RunStatus(RunState.RUNNING, fence=2, crashes=3)
    )


@pytest.mark.parametrize(("crashes", "answer"), [(0, False), (1, False), (2, True), (4, True)])
def test_a_run_is_suspect_from_its_second_crash(crashes: int, answer: bool) -> None:
    assert suspect(crashes) is answer


def test_a_run_that_is_not_due_says_from_when_it_is() -> None:
    assert advance(LATER, Claimed(), now=NOW) == Refused("it is not due", until=NOW + 1)


def test_a_message_does_not_start_a_delayed_run_before_its_time() -> None:
    delayed = born(now=NOW, at=NOW + 60)

    assert isinstance(advance(delayed, Woken(PAUSES), now=NOW), Ignored)


def test_a_run_that_never_started_is_cancelled_at_once() -> None:
    assert advance(born(now=NOW), CancelAsked(Reason.PARENT), now=NOW) == Moved(
        RunStatus(RunState.CANCELLED, Reason.PARENT, fence=1)
    )


@pytest.mark.parametrize("at", [None, NOW - 1, NOW])
def test_a_run_whose_time_has_come_is_born_ready(at: int | None) -> None:
    assert born(now=NOW, at=at) == RunStatus(RunState.READY, due=NOW)


def test_a_run_with_a_time_ahead_is_born_waiting() -> None:
    assert born(now=NOW, at=NOW + 1) == RunStatus(RunState.WAITING, due=NOW + 1)


@pytest.mark.parametrize(
    "fact",
    [
        *(Paused(reason) for reason in Reason if reason not in PAUSES),
        *(Raised(reason) for reason in Reason if reason not in FAILURES),
        Unwound(Reason.LOGIC),
        CancelAsked(Reason.LOGIC),
    ],
)
def test_a_fact_that_contradicts_itself_is_a_bug(fact: Fact) -> None:
    with pytest.raises(InvariantBroken):
        advance(RUNNING, fact, now=NOW)


def test_every_state_is_open_or_terminal_and_has_its_reasons() -> None:
    assert OPEN | TERMINAL == set(RunState) == set(REASONS)
    assert not OPEN & TERMINAL
    assert set().union(*REASONS.values()) == {*Reason, None}
