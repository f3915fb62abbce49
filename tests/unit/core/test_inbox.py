"""The inbox: what wakes whom, and which wait takes which message."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onward.core.inbox import (
    Arrived,
    InboxWait,
    Message,
    MessageKind,
    WaitTimedOut,
    settle,
    wake,
    wakes,
)
from onward.core.run import PAUSES, REASONS, TERMINAL, Reason, RunState

NOW = 100
STANDINGS = [(state, reason) for state in RunState for reason in sorted(REASONS[state], key=str)]


@pytest.mark.parametrize(("standing", "kind"), list(product(STANDINGS, MessageKind)))
def test_every_message_to_every_run_is_decided(
    standing: tuple[RunState, Reason | None], kind: MessageKind
) -> None:
    state, reason = standing

    after = wake(state, reason, kind)

    if state is RunState.WAITING or (state is RunState.PAUSED and reason in wakes(kind)):
        assert after is RunState.READY
    else:
        assert after is state


@pytest.mark.parametrize("kind", [k for k in MessageKind if k is not MessageKind.CANCEL])
def test_a_run_that_was_never_claimed_is_not_woken(kind: MessageKind) -> None:
    assert wake(RunState.WAITING, None, kind, started=False) is RunState.WAITING


def test_a_run_that_was_never_claimed_is_woken_by_a_cancel() -> None:
    assert wake(RunState.WAITING, None, MessageKind.CANCEL, started=False) is RunState.READY
    assert wake(RunState.READY, None, MessageKind.CANCEL, started=False) is RunState.READY


def test_no_message_changes_a_run_that_has_ended() -> None:
    for state, kind in product(TERMINAL, MessageKind):
        assert wake(state, None, kind) is state


@pytest.mark.parametrize(
    ("kind", "reasons"),
    [
        (MessageKind.SIGNAL, frozenset()),
        (MessageKind.CHILD, frozenset()),
        (MessageKind.PAUSE, frozenset()),
        (MessageKind.VERDICT, frozenset({Reason.RECONCILIATION, Reason.APPROVAL})),
        (MessageKind.CANCEL, PAUSES),
        (MessageKind.RESUME, PAUSES - {Reason.RECONCILIATION}),
    ],
)
def test_a_message_stirs_the_pauses_that_it_can_end(
    kind: MessageKind, reasons: frozenset[Reason]
) -> None:
    assert wakes(kind) == reasons


def test_messages_of_a_name_go_to_the_oldest_wait_in_inbox_order() -> None:
    first, second, other = InboxWait("1", "go"), InboxWait("2", "go"), InboxWait("3", "stop")
    messages = [Message(7, "c", "stop"), Message(5, "b", "go"), Message(2, "a", "go")]

    assert settle([first, second, other], messages, now=NOW) == (
        Arrived(first, Message(2, "a", "go")),
        Arrived(second, Message(5, "b", "go")),
        Arrived(other, Message(7, "c", "stop")),
    )


def test_a_message_that_is_here_wins_over_a_due_time_that_has_passed() -> None:
    wait = InboxWait("1", "go", due=NOW - 1)

    assert settle([wait], [Message(1, "a", "go")], now=NOW) == (
        Arrived(wait, Message(1, "a", "go")),
    )


def test_a_wait_times_out_at_its_due_time_and_not_before() -> None:
    wait = InboxWait("1", "go", due=NOW)

    assert settle([wait], [], now=NOW - 1) == ()
    assert settle([wait], [], now=NOW) == (WaitTimedOut(wait),)


def test_a_wait_without_a_due_time_goes_on() -> None:
    assert settle([InboxWait("1", "go")], [Message(1, "a", "other")], now=NOW) == ()


def test_a_repeated_message_counts_once() -> None:
    waits = [InboxWait("1", "go"), InboxWait("2", "go")]
    messages = [Message(1, "a", "go"), Message(2, "a", "go")]

    assert settle(waits, messages, now=NOW) == (Arrived(waits[0], messages[0]),)


names = st.sampled_from(["go", "stop"])


@given(
    st.lists(st.tuples(names, st.none() | st.integers(0, 2 * NOW)), max_size=8),
    st.lists(st.tuples(st.integers(0, 5), names), max_size=8),
)
def test_no_wait_ends_twice_and_no_message_is_taken_twice_or_out_of_order(
    asked: list[tuple[str, int | None]], sent: list[tuple[int, str]]
) -> None:
    waits = [InboxWait(str(n), name, due) for n, (name, due) in enumerate(asked)]
    messages = [Message(n, f"{i}-{name}", name) for n, (i, name) in enumerate(sent)]

    outcomes = settle(waits, messages, now=NOW)

    ended = [outcome.wait for outcome in outcomes]
    assert len(set(ended)) == len(ended)
    arrived = [outcome for outcome in outcomes if isinstance(outcome, Arrived)]
    for name in ("go", "stop"):
        taken = [outcome.message.seq for outcome in arrived if outcome.wait.name == name]
        assert taken == sorted(set(taken))
    assert len({outcome.message.id for outcome in arrived}) == len(arrived)
    assert all(outcome.wait.name == outcome.message.name for outcome in arrived)
