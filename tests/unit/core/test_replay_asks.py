"""Replay: what a single call means, one decision at a time."""

from __future__ import annotations

import pytest

from onward.core.replay import (
    ROOT,
    Answer,
    Ask,
    Clash,
    Deliver,
    Difference,
    Diverged,
    Ended,
    Fresh,
    Frontier,
    HeldBack,
    Joined,
    Passed,
    Patched,
    Policy,
    Read,
    Record,
    RecordKind,
    RecordState,
    Replay,
    Resume,
    Standing,
    Wait,
    patch_identity,
)
from tests.unit.core.records import STEP, a_record, a_step

# --- asking ---------------------------------------------------------------------------------------


def test_a_call_in_history_is_read() -> None:
    replay = Replay([a_record(":a#1", 1)])

    assert replay.ask(a_step("a")) == Read(":a#1")


def test_a_call_not_in_history_is_held_until_the_frontier() -> None:
    replay = Replay([a_record(":a#1", 1)])
    replay.ask(a_step("a", branch="1"))
    assert replay.ask(a_step("b", branch="0")) == HeldBack("0:b#1")
    assert replay.ask(a_step("c", branch="1")) == HeldBack("1:c#1")

    assert replay.next() == Passed(a_record(":a#1", 1))
    assert replay.next() == Frontier((Fresh("1:a#1"), Fresh("0:b#1"), Fresh("1:c#1")))
    assert replay.live
    assert replay.next() == Wait()


def test_a_new_run_is_live_from_its_first_call() -> None:
    replay = Replay()

    assert replay.live
    assert replay.ask(a_step("a")) == Fresh(":a#1")


def test_what_is_open_is_resumed_and_released_at_the_frontier_in_the_order_asked() -> None:
    timer = a_record("0:nap#1", None, RecordKind.TIMER)
    failed = a_record("1:a#1", None, state=RecordState.FAILED)
    replay = Replay([timer, failed])

    assert replay.ask(Ask("1", STEP, "a", args_hash="args")) == Resume(failed)
    assert replay.ask(a_step("b", branch="2")) == HeldBack("2:b#1")
    assert replay.ask(Ask("0", RecordKind.TIMER, "nap", args_hash="args")) == Resume(timer)
    assert replay.next() == Frontier((Resume(failed), Fresh("2:b#1"), Resume(timer)))


def test_what_is_open_is_resumed_at_once_after_the_frontier() -> None:
    timer = a_record(":nap#1", None, RecordKind.TIMER)
    replay = Replay([timer])
    assert replay.next() == Frontier(())

    assert replay.ask(Ask(ROOT, RecordKind.TIMER, "nap", args_hash="args")) == Resume(timer)
    replay.recorded(a_record(":nap#1", 1, RecordKind.TIMER))
    assert replay.next() == Deliver(a_record(":nap#1", 1, RecordKind.TIMER))


def test_the_last_attempt_is_the_one_that_counts() -> None:
    failed = a_record(":a#1", None, attempt=1, state=RecordState.FAILED)
    closed = a_record(":a#1", 1, attempt=2)
    replay = Replay([closed, failed])
    replay.ask(a_step("a"))

    assert replay.next() == Deliver(closed)


@pytest.mark.parametrize(
    ("ask", "difference"),
    [
        (Ask(ROOT, RecordKind.EFFECT, "a", None, "args"), Difference.KIND),
        (Ask(ROOT, STEP, "a", None, "other"), Difference.ARGUMENTS),
    ],
)
@pytest.mark.parametrize("policy", Policy)
@pytest.mark.parametrize("seq", [1, None])
def test_another_kind_or_other_arguments_diverge_under_both_policies(
    ask: Ask, difference: Difference, policy: Policy, seq: int | None
) -> None:
    record = a_record(":a#1", seq)

    assert Replay([record], policy=policy).ask(ask) == Diverged(difference, record, ask)


def test_another_name_at_an_identity_diverges() -> None:
    record = a_record(":a#1", 1, name="b")

    assert Replay([record]).ask(a_step("a")) == Diverged(Difference.NAME, record, a_step("a"))


@pytest.mark.parametrize(
    "ask",
    [
        Ask(ROOT, STEP, "a", None, "other", compare=False),
        Ask(ROOT, STEP, "a", None, None),
    ],
)
def test_arguments_that_are_not_to_be_compared_do_not_diverge(ask: Ask) -> None:
    assert Replay([a_record(":a#1", 1)]).ask(ask) == Read(":a#1")


def test_a_record_without_arguments_is_not_compared() -> None:
    record = Record(":a#1", 1, 1, STEP, "a", RecordState.SUCCEEDED)

    assert Replay([record]).ask(a_step("a")) == Read(":a#1")


# --- keys -----------------------------------------------------------------------------------------


def test_a_key_asked_twice_is_the_same_call() -> None:
    replay = Replay()
    assert replay.ask(a_step("a", key="k")) == Fresh("a=k")

    assert replay.ask(a_step("a", key="k", branch="1")) == Joined("a=k", None)


def test_a_key_asked_again_after_its_delivery_is_answered_at_once() -> None:
    record = a_record("a=k", 1)
    replay = Replay([record])
    replay.ask(a_step("a", key="k"))
    assert replay.next() == Deliver(record)

    assert replay.ask(a_step("a", key="k")) == Joined("a=k", record)


def test_a_key_asked_twice_with_other_arguments_is_an_error() -> None:
    first, other = a_step("a", key="k"), a_step("a", key="k", args="other")
    replay = Replay()
    replay.ask(first)

    assert replay.ask(other) == Clash("a=k", first, other)


def test_a_key_asked_twice_for_another_kind_is_an_error() -> None:
    first, other = a_step("a", key="k"), Ask(ROOT, RecordKind.CHILD, "a", "k", "args")
    replay = Replay()
    replay.ask(first)

    assert replay.ask(other) == Clash("a=k", first, other)


def test_a_key_asked_twice_without_comparing_is_the_same_call() -> None:
    replay = Replay()
    replay.ask(a_step("a", key="k"))

    answer = replay.ask(Ask(ROOT, STEP, "a", "k", "other", compare=False))

    assert answer == Joined("a=k", None)


@pytest.mark.parametrize(
    ("history", "answer"),
    [
        ([], Fresh("a=k")),
        ([a_record(":b#1", 1)], HeldBack("a=k")),
        ([a_record("a=k", 1)], Read("a=k")),
        ([a_record("a=k", None)], Resume(a_record("a=k", None))),
    ],
    ids=["live", "before the frontier", "in history", "begun"],
)
def test_a_key_that_was_given_up_and_is_asked_again_is_done_again(
    history: list[Record], answer: Answer
) -> None:
    replay = Replay(history)
    assert replay.ask(a_step("a", key="k")) == answer
    replay.give_up("a=k")

    assert replay.ask(a_step("a", key="k")) == answer
    assert replay.ask(a_step("a", key="k")) == Joined("a=k", None)


def test_a_key_that_was_given_up_before_its_delivery_is_answered_at_once_after_it() -> None:
    record = a_record("a=k", 1)
    replay = Replay([record])
    replay.ask(a_step("a", key="k"))
    replay.give_up("a=k")
    assert replay.next() == Deliver(record)

    assert replay.ask(a_step("a", key="k")) == Joined("a=k", record)


# --- patches --------------------------------------------------------------------------------------

MARK = a_record(patch_identity("v2"), 1, RecordKind.PATCH, name="v2")


def test_a_new_run_takes_the_new_way_and_marks_it() -> None:
    replay = Replay()

    assert replay.patched("v2") == Patched(new=True, identity=patch_identity("v2"))
    assert replay.patched("v2") == Patched(new=True)
    replay.recorded(MARK)
    assert replay.next() == Wait()


def test_a_marked_run_takes_the_new_way_again() -> None:
    replay = Replay([MARK], policy=Policy.STRICT)

    assert replay.patched("v2") == Patched(new=True)
    assert replay.next() == Frontier(())
    assert replay.end() == Ended(())


def test_a_run_that_passed_by_before_the_patch_keeps_the_old_way() -> None:
    replay = Replay([a_record(":a#1", 1)])
    assert replay.patched("v2") == Patched(new=False)
    replay.ask(a_step("a"))
    assert [replay.next(), replay.next()] == [Deliver(a_record(":a#1", 1)), Frontier(())]

    assert replay.patched("v2") == Patched(new=False)


def test_a_run_that_still_has_to_read_what_it_passed_over_keeps_the_old_way() -> None:
    replay = Replay([a_record(":a#1", 1)])
    assert replay.next() == Passed(a_record(":a#1", 1))
    replay.ask(a_step("a"))

    assert replay.patched("v2") == Patched(new=False)


def test_a_run_at_its_frontier_takes_the_new_way() -> None:
    replay = Replay([a_record(":a#1", 1)])
    replay.ask(a_step("a"))
    replay.next()

    assert replay.patched("v2") == Patched(new=True, identity=patch_identity("v2"))


def test_a_run_that_waits_behind_a_patch_keeps_the_old_way() -> None:
    replay = Replay([a_record(":a#1", 1), a_record(":b#1", None)])
    replay.ask(a_step("a"))
    replay.next()

    assert replay.patched("v2") == Patched(new=False)


def test_a_branch_takes_the_new_way_while_others_still_have_results_to_come() -> None:
    replay = Replay([a_record("0:a#1", 1), a_record("1:a#1", 2)])
    replay.ask(a_step("a", branch="0"))
    replay.ask(a_step("a", branch="1"))
    replay.next()

    assert replay.patched("v2").new


def test_a_live_run_takes_the_new_way_whatever_it_was_told_at_once() -> None:
    replay = Replay()
    replay.ask(a_step("a", branch="0"))
    replay.ask(a_step("a", branch="1"))
    replay.recorded(a_record("0:a#1", 1))
    replay.recorded(a_record("1:a#1", 2))
    replay.next()

    assert replay.patched("v2").new


def test_a_mark_that_nobody_asks_for_does_not_keep_a_run_on_the_old_way() -> None:
    replay = Replay([MARK])

    assert replay.patched("v3").new


def test_a_mark_that_nobody_asks_for_any_more_is_passed_over() -> None:
    assert Replay([MARK]).next() == Passed(MARK)


# --- how a call stands ----------------------------------------------------------------------------


def test_a_call_stands_where_code_and_history_have_brought_it() -> None:
    record = a_record("a=k", 1)
    replay = Replay([record])
    seen = [replay.standing("b=k"), replay.standing("a=k")]
    replay.next()
    seen.append(replay.standing("a=k"))
    replay.ask(a_step("a", key="k"))
    replay.ask(a_step("b", key="k"))
    seen += [replay.standing("a=k"), replay.standing("b=k")]
    replay.next()
    seen.append(replay.standing("a=k"))
    replay.next()
    seen.append(replay.standing("b=k"))

    assert seen == [
        Standing.UNKNOWN,
        Standing.RECORDED,
        Standing.PASSED,
        Standing.READ,
        Standing.HELD,
        Standing.DELIVERED,
        Standing.UNDER_WAY,
    ]


def test_a_call_without_a_key_is_forgotten_once_it_is_delivered() -> None:
    replay = Replay([a_record(":a#1", 1)])
    replay.ask(a_step("a"))
    replay.next()

    assert replay.standing(":a#1") is Standing.UNKNOWN


@pytest.mark.parametrize(
    ("diverged", "text"),
    [
        (
            Diverged(Difference.ARGUMENTS, a_record(":a#1", 1), a_step("a")),
            "the history has step 'a' (:a#1) with different arguments than the code passes now",
        ),
        (
            Diverged(Difference.UNREAD, a_record(":a#1", 1)),
            "the history has step 'a' (:a#1), but the code ended without making this call",
        ),
        (
            Diverged(Difference.UNREAD, a_record(":a#1", 1), a_step("b")),
            "the history has step 'a' (:a#1), but the code now has step 'b' instead",
        ),
        (
            Diverged(Difference.KIND, a_record(":a#1", 1), Ask(ROOT, RecordKind.CHILD, "a")),
            "the history has step 'a' (:a#1) where the code now has child 'a'",
        ),
        (
            Diverged(Difference.ORDER, a_record(":a#1", 1)),
            "the history has step 'a' (:a#1) where the code now has something else",
        ),
    ],
)
def test_a_divergence_says_what_is_recorded_and_what_is_asked(
    diverged: Diverged, text: str
) -> None:
    assert str(diverged) == text
