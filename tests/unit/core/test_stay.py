"""A run's stay in a worker: every fact is decided in every state."""

from __future__ import annotations

from itertools import product

import pytest

from onward.core.stay import (
    IDLE,
    STOPPING,
    StayAction,
    StayDecision,
    StayFact,
    StayState,
    advance,
)

LIVE, DRAINING, LEAVING, CLOSING, GONE = StayState
NOTHING, STOP, PARK, PAUSE, RELEASE, LOOK, GO_ON, FORGET = StayAction

DECISIONS: dict[StayFact, dict[StayState, tuple[StayState, StayAction]]] = {
    StayFact.WORKER_STOPS: {
        LIVE: (DRAINING, NOTHING),
        DRAINING: (DRAINING, NOTHING),
        LEAVING: (CLOSING, NOTHING),
        CLOSING: (CLOSING, NOTHING),
        GONE: (GONE, NOTHING),
    },
    StayFact.NOTHING_LEFT: {
        LIVE: (LIVE, PARK),
        DRAINING: (DRAINING, PARK),
        LEAVING: (LEAVING, NOTHING),
        CLOSING: (CLOSING, NOTHING),
        GONE: (GONE, NOTHING),
    },
    StayFact.HELD: {
        LIVE: (LIVE, PAUSE),
        DRAINING: (DRAINING, PAUSE),
        LEAVING: (LEAVING, NOTHING),
        CLOSING: (CLOSING, NOTHING),
        GONE: (GONE, NOTHING),
    },
    StayFact.HELD_BACK: {
        LIVE: (LIVE, PAUSE),
        DRAINING: (DRAINING, RELEASE),
        LEAVING: (LEAVING, NOTHING),
        CLOSING: (CLOSING, NOTHING),
        GONE: (GONE, NOTHING),
    },
    StayFact.DECIDED: {
        LIVE: (LEAVING, STOP),
        DRAINING: (CLOSING, STOP),
        LEAVING: (LEAVING, STOP),
        CLOSING: (CLOSING, STOP),
        GONE: (GONE, NOTHING),
    },
    StayFact.MESSAGE_FIRST: {
        LIVE: (LIVE, NOTHING),
        DRAINING: (DRAINING, NOTHING),
        LEAVING: (LIVE, LOOK),
        CLOSING: (DRAINING, LOOK),
        GONE: (GONE, NOTHING),
    },
    StayFact.CLAIMED_AGAIN: {
        LIVE: (LIVE, NOTHING),
        DRAINING: (DRAINING, NOTHING),
        LEAVING: (LIVE, GO_ON),
        CLOSING: (DRAINING, GO_ON),
        GONE: (GONE, NOTHING),
    },
    StayFact.LEFT: {
        LIVE: (GONE, FORGET),
        DRAINING: (GONE, FORGET),
        LEAVING: (GONE, FORGET),
        CLOSING: (GONE, FORGET),
        GONE: (GONE, NOTHING),
    },
}


@pytest.mark.parametrize(("state", "fact"), list(product(StayState, StayFact)))
def test_every_fact_is_decided_in_every_state(state: StayState, fact: StayFact) -> None:
    assert advance(state, fact) == StayDecision(*DECISIONS[fact][state])


@pytest.mark.parametrize("fact", StayFact)
def test_a_run_that_has_left_stays_gone(fact: StayFact) -> None:
    assert advance(GONE, fact) == StayDecision(GONE, NOTHING)


def test_a_worker_that_stops_is_not_forgotten_when_a_message_is_first() -> None:
    after_stop = advance(LEAVING, StayFact.WORKER_STOPS).to

    assert advance(after_stop, StayFact.MESSAGE_FIRST).to in STOPPING - IDLE
