"""The inbox: what others send to a run, which runs it wakes, and which wait takes it.

A message never changes history. It raises the run's inbox number, wakes it where that helps, and
lies there until the owner looks.
"""

from __future__ import annotations

from collections import defaultdict, deque
from enum import StrEnum
from typing import TYPE_CHECKING, TypeAlias

from onward.core.decision import Moved
from onward.core.run import PAUSES, Reason, RunState, RunStatus, Woken, advance
from onward.core.value import Value

if TYPE_CHECKING:
    from collections.abc import Iterable

    from onward.core.instant import Instant


class MessageKind(StrEnum):
    """What a message says; the values are the words in the database."""

    SIGNAL = "signal"
    CHILD = "child"
    VERDICT = "verdict"
    CANCEL = "cancel"
    PAUSE = "pause"
    RESUME = "resume"


# A resume leaves an uncertain effect alone: only a verdict may answer for the outside world.
_WAKES: dict[MessageKind, frozenset[Reason]] = {
    MessageKind.SIGNAL: frozenset(),
    MessageKind.CHILD: frozenset(),
    MessageKind.VERDICT: frozenset({Reason.RECONCILIATION, Reason.APPROVAL}),
    MessageKind.CANCEL: PAUSES,
    MessageKind.PAUSE: frozenset(),
    MessageKind.RESUME: PAUSES - {Reason.RECONCILIATION},
}


def wakes(kind: MessageKind) -> frozenset[Reason]:
    """Return the reasons for which a paused run is woken by such a message."""
    return _WAKES[kind]


def wakes_unstarted(kind: MessageKind) -> bool:
    """Return whether such a message wakes even a run that was never claimed: to end it unbegun."""
    return kind is MessageKind.CANCEL


def wake(
    state: RunState, reason: Reason | None, kind: MessageKind, *, started: bool = True
) -> RunState:
    """Return the state of a run once the message has arrived.

    A run that was never claimed (`started` is false) waits for its first time: a message does not
    start it early, it finds it then. Only a cancel wakes it, for nothing has to be waited for then.
    """
    run = RunStatus(state, reason, fence=int(started))
    match advance(run, Woken(wakes(kind), wakes_unstarted(kind)), now=0):
        case Moved(to):
            return to.state
        case _:
            return state


# --- waits ----------------------------------------------------------------------------------------


class Message(Value):
    """A message as the owner reads it; `seq` is its inbox number, `id` was made by the sender."""

    seq: int
    id: str
    name: str


class InboxWait(Value):
    """An open wait for a message of one name, in the order the body asked."""

    identity: str
    name: str
    due: Instant | None = None


class Arrived(Value):
    """The wait ends with this message."""

    wait: InboxWait
    message: Message


class WaitTimedOut(Value):
    """The wait ends without a message; one that comes later stays in the inbox."""

    wait: InboxWait


Outcome: TypeAlias = Arrived | WaitTimedOut


def settle(
    waits: Iterable[InboxWait], messages: Iterable[Message], *, now: Instant
) -> tuple[Outcome, ...]:
    """Return how waits end, one outcome each; a wait that goes on is not in the answer.

    Per name the oldest message goes to the oldest wait. A message that is here wins over a due
    time that has passed: what was accepted is not lost to a clock. A repeated id counts once.
    `waits` are the open ones in the order asked, `messages` what no wait has taken yet.
    """
    by_name: defaultdict[str, deque[Message]] = defaultdict(deque)
    seen: set[str] = set()
    for message in sorted(messages, key=lambda message: message.seq):
        if message.id not in seen:
            seen.add(message.id)
            by_name[message.name].append(message)
    outcomes: list[Outcome] = []
    for wait in waits:
        if by_name[wait.name]:
            outcomes.append(Arrived(wait, by_name[wait.name].popleft()))
        elif wait.due is not None and wait.due <= now:
            outcomes.append(WaitTimedOut(wait))
    return tuple(outcomes)
