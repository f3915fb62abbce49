"""A run's stay in the memory of one worker: when it may begin work, leaves, and is forgotten.

This is no state of the run, which `core.run` has: it begins with a claim and ends when the worker
has nothing more to do with the run. Every fact is decided in every state.
"""

from __future__ import annotations

from enum import StrEnum

from onward.core.value import Value


class StayState(StrEnum):
    """What a worker may still do for a run."""

    LIVE = "live"
    """Its body runs, and new work may begin."""
    DRAINING = "draining"
    """Its worker stops: what is under way ends, and nothing new begins."""
    LEAVING = "leaving"
    """Its move is decided and is being written, or was: its body may be kept."""
    CLOSING = "closing"
    """The same while its worker stops."""
    GONE = "gone"
    """It has left: all that still happens in its name comes too late."""


IDLE = frozenset({StayState.LEAVING, StayState.CLOSING, StayState.GONE})
"""Where nothing more is asked of the body."""

STOPPING = frozenset({StayState.DRAINING, StayState.CLOSING})
"""Where its worker stops."""


class StayFact(StrEnum):
    """What happens to a run in a worker."""

    WORKER_STOPS = "worker_stops"
    NOTHING_LEFT = "nothing_left"
    """Nothing is being worked on: it waits for a time, a message or an operator."""
    HELD = "held"
    """Nothing is being worked on, and a pause holds it."""
    HELD_BACK = "held_back"
    """Nothing is being worked on, and work was asked for that was not begun."""
    DECIDED = "decided"
    """Its move is being written: it parks, pauses, ends or is released."""
    MESSAGE_FIRST = "message_first"
    """A message arrived before it could park."""
    CLAIMED_AGAIN = "claimed_again"
    """Its worker claimed it again while its body was kept."""
    LEFT = "left"
    """Its move is written, or its lease was lost."""


class StayAction(StrEnum):
    """What the worker does about a fact."""

    NOTHING = "nothing"
    STOP = "stop"
    """Ask nothing more of the body."""
    PARK = "park"
    PAUSE = "pause"
    RELEASE = "release"
    LOOK = "look"
    """Read the inbox, and go on."""
    GO_ON = "go_on"
    FORGET = "forget"


class StayDecision(Value):
    """The state after a fact, and what to do."""

    to: StayState
    action: StayAction


def advance(state: StayState, fact: StayFact) -> StayDecision:
    """Return what a fact means for a run in a worker's memory."""
    return _DECISIONS[state, fact]


_LIVE, _DRAINING, _LEAVING, _CLOSING, _GONE = StayState
_OPEN_TO_LEAVING = {_LIVE: _LEAVING, _DRAINING: _CLOSING}
_LEAVING_TO_OPEN = {after: before for before, after in _OPEN_TO_LEAVING.items()}

_DECISIONS: dict[tuple[StayState, StayFact], StayDecision] = {
    # Nothing that is known too late changes anything.
    (state, fact): StayDecision(state, StayAction.NOTHING)
    for state in StayState
    for fact in StayFact
}
for _open, _left in _OPEN_TO_LEAVING.items():
    _DECISIONS |= {
        (_open, StayFact.WORKER_STOPS): StayDecision(_DRAINING, StayAction.NOTHING),
        (_left, StayFact.WORKER_STOPS): StayDecision(_CLOSING, StayAction.NOTHING),
        (_open, StayFact.NOTHING_LEFT): StayDecision(_open, StayAction.PARK),
        (_open, StayFact.HELD): StayDecision(_open, StayAction.PAUSE),
        # In a worker that goes on, it is held back by a pause, and begins when that ends.
        (_LIVE, StayFact.HELD_BACK): StayDecision(_LIVE, StayAction.PAUSE),
        (_DRAINING, StayFact.HELD_BACK): StayDecision(_DRAINING, StayAction.RELEASE),
        (_open, StayFact.DECIDED): StayDecision(_left, StayAction.STOP),
        # It may be decided anew: that it ends, though it was to park, after an error.
        (_left, StayFact.DECIDED): StayDecision(_left, StayAction.STOP),
        (_left, StayFact.MESSAGE_FIRST): StayDecision(_open, StayAction.LOOK),
        (_left, StayFact.CLAIMED_AGAIN): StayDecision(_open, StayAction.GO_ON),
        (_open, StayFact.LEFT): StayDecision(_GONE, StayAction.FORGET),
        (_left, StayFact.LEFT): StayDecision(_GONE, StayAction.FORGET),
    }
