"""Replay: what comes next, live and replayed, and what must not be left unread."""

from __future__ import annotations

from itertools import product

import pytest

from onward.core.replay import (
    CANCEL_IDENTITY,
    GRAVE,
    ROOT,
    Ask,
    Deliver,
    Difference,
    Diverged,
    Ended,
    Fresh,
    Frontier,
    HeldBack,
    Passed,
    Policy,
    Read,
    Record,
    RecordKind,
    RecordState,
    Replay,
    Resume,
    Wait,
)
from onward.errors import InvariantBroken
from tests.unit.core.records import a_record, a_step

# --- delivery -------------------------------------------------------------------------------------


def test_records_are_delivered_in_history_order_whatever_the_order_of_asking() -> None:
    history = [a_record("1:b#1", 2), a_record("0:a#1", 1)]
    replay = Replay(history)
    replay.ask(a_step("b", branch="1"))
    replay.ask(a_step("a", branch="0"))

    assert [replay.next(), replay.next()] == [Deliver(history[1]), Deliver(history[0])]


def test_passed_records_that_are_asked_for_later_come_first_and_in_order() -> None:
    a, b, c = (a_record(f":{name}#1", seq) for seq, name in enumerate("abc", 1))
    replay = Replay([a, b, c])
    replay.ask(a_step("c"))
    assert [replay.next(), replay.next()] == [Passed(a), Passed(b)]
    assert replay.ask(a_step("b")) == Read(":b#1")
    assert replay.ask(a_step("a")) == Read(":a#1")

    assert [replay.next(), replay.next(), replay.next()] == [Deliver(a), Deliver(b), Deliver(c)]


def test_a_branch_that_goes_on_to_an_open_wait_has_left_a_child_behind() -> None:
    child = a_record(":order#1", 1, RecordKind.CHILD)
    wait = a_record(":go#1", None, RecordKind.SIGNAL)
    replay = Replay([child, wait])
    asked = Ask("", RecordKind.SIGNAL, "go", None, "args")
    assert replay.ask(asked) == Resume(wait)

    assert [replay.next(), replay.next()] == [
        Passed(child),
        Diverged(Difference.UNREAD, child, asked),
    ]


def test_strict_diverges_where_nobody_asked_for_what_comes_next() -> None:
    record = a_record(":a#1", 1)
    replay = Replay([record], policy=Policy.STRICT)
    replay.ask(a_step("b"))

    assert replay.next() == Diverged(Difference.ORDER, record, a_step("b"))
    assert replay.next() == Diverged(Difference.ORDER, record, a_step("b"))


def test_strict_diverges_where_the_body_asks_for_something_later() -> None:
    a, b, c = (a_record(f":{name}#1", seq) for seq, name in enumerate("abc", 1))
    replay = Replay([a, b, c], policy=Policy.STRICT)
    replay.ask(a_step("c"))
    replay.ask(a_step("b"))

    assert replay.next() == Diverged(Difference.ORDER, a, a_step("b"))


def test_strict_diverges_where_the_body_asks_for_nothing() -> None:
    record = a_record(":a#1", 1)

    assert Replay([record], policy=Policy.STRICT).next() == Diverged(Difference.ORDER, record)


def test_a_cancel_is_delivered_though_nobody_asked() -> None:
    cancel = a_record(CANCEL_IDENTITY, 1, RecordKind.CANCEL)
    replay = Replay([cancel], policy=Policy.STRICT)

    assert replay.next() == Deliver(cancel)
    assert replay.end() == Ended(())


def test_a_cancel_that_was_not_reached_does_not_keep_a_run_from_ending_and_is_told() -> None:
    cancel = a_record(CANCEL_IDENTITY, 1, RecordKind.CANCEL)

    assert Replay([cancel], policy=Policy.STRICT).end() == Ended((), unheard=cancel)


def test_a_cancel_is_recorded_live_without_being_asked_for() -> None:
    replay = Replay()
    cancel = a_record(CANCEL_IDENTITY, 1, RecordKind.CANCEL)

    replay.recorded(cancel)

    assert replay.next() == Deliver(cancel)


# --- live -----------------------------------------------------------------------------------------


def test_live_records_are_delivered_in_the_order_they_were_written() -> None:
    replay = Replay()
    replay.ask(a_step("a"))
    replay.ask(a_step("b"))
    b, a = a_record(":b#1", replay.take_position()), a_record(":a#1", replay.take_position())
    replay.recorded(b)
    replay.recorded(a)

    assert [replay.next(), replay.next(), replay.next()] == [Deliver(b), Deliver(a), Wait()]


def test_a_failed_attempt_is_not_delivered() -> None:
    replay = Replay()
    replay.ask(a_step("a"))
    replay.recorded(a_record(":a#1", None, state=RecordState.FAILED))
    assert replay.next() == Wait()

    replay.recorded(a_record(":a#1", 1, attempt=2))

    assert replay.next() == Deliver(a_record(":a#1", 1, attempt=2))


def test_positions_go_on_where_history_ended() -> None:
    replay = Replay([a_record(":a#1", 4)])

    assert [replay.take_position(), replay.take_position()] == [5, 6]


def test_a_history_is_as_long_as_the_positions_that_were_handed_out() -> None:
    replay = Replay([a_record(":a#1", 4)])
    assert replay.length == 4

    replay.take_position()

    assert replay.length == 5


def test_a_position_that_is_in_history_is_not_handed_out() -> None:
    replay = Replay()
    replay.ask(a_step("a"))
    replay.recorded(a_record(":a#1", 1))

    assert replay.take_position() == 2


def test_a_record_that_nobody_asked_for_is_a_bug() -> None:
    with pytest.raises(InvariantBroken):
        Replay().recorded(a_record(":a#1", 1))


def test_a_record_that_is_not_the_next_is_a_bug() -> None:
    replay = Replay()
    replay.ask(a_step("a"))

    with pytest.raises(InvariantBroken):
        replay.recorded(a_record(":a#1", 2))


def test_a_record_before_the_frontier_is_a_bug() -> None:
    replay = Replay([a_record(":a#1", 1)])
    replay.ask(a_step("b"))

    with pytest.raises(InvariantBroken):
        replay.recorded(a_record(":b#1", 2))


def test_a_cancel_may_be_recorded_before_the_frontier_and_is_delivered_there() -> None:
    replay = Replay([a_record(":a#1", 1)])
    replay.ask(a_step("a"))
    replay.take_position()
    cancel = a_record(CANCEL_IDENTITY, 2, RecordKind.CANCEL)
    replay.recorded(cancel)

    assert replay.next() == Deliver(a_record(":a#1", 1))
    assert replay.next() == Deliver(cancel)
    assert isinstance(replay.next(), Frontier)


def test_a_call_that_is_recorded_after_its_end_is_a_bug() -> None:
    replay = Replay()
    replay.ask(a_step("a", key="k"))
    replay.recorded(a_record("a=k", 1))

    with pytest.raises(InvariantBroken):
        replay.recorded(a_record("a=k", 2, attempt=2))


@pytest.mark.parametrize(
    "history",
    [
        [a_record(":a#1", 1), a_record(":b#1", 1)],
        [a_record(":a#1", 0)],
        [a_record(":a#1", 1), a_record(":a#1", None, attempt=2)],
    ],
)
def test_a_history_that_contradicts_itself_is_a_bug(history: list[Record]) -> None:
    with pytest.raises(InvariantBroken):
        Replay(history)


# --- what reached others --------------------------------------------------------------------------


@pytest.mark.parametrize(("kind", "seq"), list(product(RecordKind, [1, None])))
def test_a_branch_that_goes_on_to_new_things_must_have_read_what_reached_others(
    kind: RecordKind, seq: int | None
) -> None:
    record = a_record("0:old#1", seq, kind)
    replay = Replay([record])
    replay.ask(a_step("new", branch="0"))
    turns = [replay.next(), replay.next()]
    is_awaited = kind is RecordKind.SIGNAL and seq is None  # it has not come yet

    if kind in GRAVE and not is_awaited:
        assert turns[1] == Diverged(Difference.UNREAD, record, a_step("new", branch="0"))
        assert not replay.live
    else:
        assert Frontier((Fresh("0:new#1"),)) in turns


@pytest.mark.parametrize("kind", sorted(GRAVE))
def test_what_another_branch_has_not_read_holds_nobody_up_but_the_end(kind: RecordKind) -> None:
    record = a_record("0:old#1", 1, kind)
    replay = Replay([record])
    replay.ask(a_step("new", branch="1"))

    assert [replay.next(), replay.next()] == [Passed(record), Frontier((Fresh("1:new#1"),))]
    assert replay.end() == Diverged(Difference.UNREAD, record)


def test_what_reached_others_under_a_key_could_belong_to_any_branch() -> None:
    record = a_record("pay=7", 1, RecordKind.EFFECT)
    replay = Replay([record])
    replay.ask(a_step("new", branch="1"))

    assert [replay.next(), replay.next()] == [
        Passed(record),
        Diverged(Difference.UNREAD, record, a_step("new", branch="1")),
    ]


def test_after_the_frontier_a_new_call_is_checked_at_once() -> None:
    record = a_record("0:old#1", 1, RecordKind.CHILD)
    replay = Replay([record])
    assert [replay.next(), replay.next()] == [Passed(record), Frontier(())]

    assert replay.ask(a_step("new", branch="1")) == Fresh("1:new#1")
    assert replay.ask(a_step("new", branch="0")) == Diverged(
        Difference.UNREAD, record, a_step("new", branch="0")
    )


def test_one_that_was_read_leaves_its_neighbours_unread() -> None:
    first, second = (a_record(f":pay#{n}", n, RecordKind.EFFECT) for n in (1, 2))
    replay = Replay([first, second])
    replay.ask(Ask(ROOT, RecordKind.EFFECT, "pay", args_hash="args"))
    assert replay.next() == Deliver(first)
    replay.ask(a_step("new"))

    assert [replay.next(), replay.next()] == [
        Passed(second),
        Diverged(Difference.UNREAD, second, a_step("new")),
    ]


def test_what_is_open_in_other_branches_is_asked_for_before_anything_new_is_done() -> None:
    # Without a frontier before the first call, the new call would be judged too early.
    child = a_record("order=1", None, RecordKind.CHILD)
    replay = Replay([child])

    assert replay.ask(a_step("in flight when it crashed", branch="0")).__class__ is HeldBack
    assert replay.ask(Ask("1", RecordKind.CHILD, "order", "1", "args")) == Resume(child)
    assert isinstance(replay.next(), Frontier)


def test_unread_steps_are_reported_at_the_end_and_strict_diverges() -> None:
    history = [a_record(":b#1", 2), a_record(":a#1", 1), a_record(":nap#1", None, RecordKind.TIMER)]

    assert Replay(history).end() == Ended((history[1], history[0], history[2]))
    assert Replay(history, policy=Policy.STRICT).end() == Diverged(Difference.UNREAD, history[1])
