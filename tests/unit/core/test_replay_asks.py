"""Replay: what a single call means, and what comes next, one decision at a time."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onward.core.replay import (
    CANCEL_IDENTITY,
    GRAVE,
    ROOT,
    Ask,
    Clash,
    Deliver,
    Difference,
    Diverged,
    Ended,
    Fresh,
    Frontier,
    Held,
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
    branch_of,
    escaped,
    keyed,
    patch_identity,
)
from onward.core.replay.identity import Naming
from onward.errors import InvariantBroken

STEP = RecordKind.STEP


def a_step(name: str, key: str | None = None, args: str | None = "args", branch: str = "") -> Ask:
    return Ask(branch, STEP, name, key, args)


def a_record(
    identity: str,
    seq: int | None,
    kind: RecordKind = STEP,
    *,
    attempt: int = 1,
    state: RecordState | None = None,
    name: str | None = None,
) -> Record:
    if state is None:
        state = RecordState.OPEN if seq is None else RecordState.SUCCEEDED
    called = name or identity.partition("=")[0].rpartition(":")[2].partition("#")[0]
    return Record(identity, attempt, seq, kind, called, state, "args")


# --- identity -------------------------------------------------------------------------------------


def test_calls_of_a_name_are_counted_within_their_branch() -> None:
    replay = Replay()

    answers = [
        replay.ask(a_step("a")),
        replay.ask(a_step("b")),
        replay.ask(a_step("a")),
        replay.ask(a_step("a", branch="0")),
    ]

    assert answers == [Fresh(":a#1"), Fresh(":b#1"), Fresh(":a#2"), Fresh("0:a#1")]


def test_branches_are_numbered_in_the_order_they_are_made() -> None:
    replay = Replay()
    first, second = replay.branch(ROOT), replay.branch(ROOT)

    inner = [replay.branch(first) for _ in range(3)]

    assert (first, second, inner) == ("0", "1", ["0.0", "0.1", "0.2"])


def test_a_seeded_branch_does_not_shift_the_numbers_of_others() -> None:
    replay = Replay()

    paths = [replay.branch(ROOT, seed) for seed in (None, "fetch", None, "fetch", "0")]

    assert paths == ["0", "@fetch", "1", "@fetch~2", "@0"]


def test_a_keyed_call_has_one_identity_in_all_branches() -> None:
    assert Replay().ask(a_step("a", key="7", branch="3.1")) == Fresh("a=7")


texts = st.text(st.sampled_from("ab:#=.%@~0"), min_size=1, max_size=6)


@given(st.lists(st.tuples(st.booleans(), texts, texts), unique=True, max_size=30))
def test_different_calls_never_share_an_identity(calls: list[tuple[bool, str, str]]) -> None:
    naming = Naming()
    identities = [
        keyed(name, other) if with_key else naming.call(naming.branch(ROOT, other), name)
        for with_key, name, other in calls
    ]

    assert len(set(identities)) == len(identities)
    assert CANCEL_IDENTITY not in identities
    assert not {patch_identity(name) for _, name, _ in calls} & set(identities)


@given(texts, texts)
def test_escaping_keeps_different_texts_different(one: str, other: str) -> None:
    assert (escaped(one) == escaped(other)) is (one == other)
    assert not set(escaped(one)) & set(":#=.@~")


@given(texts, texts)
def test_the_branch_of_a_call_is_read_from_its_identity(seed: str, name: str) -> None:
    naming = Naming()
    branch = naming.branch(naming.branch(ROOT), seed)

    assert branch_of(naming.call(branch, name)) == branch
    assert branch_of(naming.call(ROOT, name)) == ROOT
    assert branch_of(keyed(name, seed)) is None


# --- asking ---------------------------------------------------------------------------------------


def test_a_call_in_history_is_read() -> None:
    replay = Replay([a_record(":a#1", 1)])

    assert replay.ask(a_step("a")) == Read(":a#1")


def test_a_call_not_in_history_is_held_until_the_frontier() -> None:
    replay = Replay([a_record(":a#1", 1)])
    replay.ask(a_step("a", branch="1"))
    assert replay.ask(a_step("b", branch="0")) == Held("0:b#1")
    assert replay.ask(a_step("c", branch="1")) == Held("1:c#1")

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
    assert replay.ask(a_step("b", branch="2")) == Held("2:b#1")
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


def test_strict_diverges_where_nobody_asked_for_what_comes_next() -> None:
    record = a_record(":a#1", 1)
    replay = Replay([record], policy=Policy.STRICT)
    replay.ask(a_step("b"))

    assert replay.next() == Diverged(Difference.ORDER, record, a_step("b"))
    assert replay.next() == Diverged(Difference.ORDER, record, a_step("b"))


def test_strict_diverges_where_the_body_asks_for_nothing() -> None:
    record = a_record(":a#1", 1)

    assert Replay([record], policy=Policy.STRICT).next() == Diverged(Difference.ORDER, record)


def test_a_cancel_is_delivered_though_nobody_asked() -> None:
    cancel = a_record(CANCEL_IDENTITY, 1, RecordKind.CANCEL)
    replay = Replay([cancel], policy=Policy.STRICT)

    assert replay.next() == Deliver(cancel)
    assert replay.end() == Ended(())


def test_a_cancel_that_was_not_reached_does_not_keep_a_run_from_ending() -> None:
    replay = Replay([a_record(CANCEL_IDENTITY, 1, RecordKind.CANCEL)], policy=Policy.STRICT)

    assert replay.end() == Ended(())


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
    with pytest.raises(InvariantBroken):
        replay.recorded(a_record(CANCEL_IDENTITY, 2, RecordKind.CANCEL))


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

    if kind in GRAVE:
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

    assert replay.ask(a_step("in flight when it crashed", branch="0")).__class__ is Held
    assert replay.ask(Ask("1", RecordKind.CHILD, "order", "1", "args")) == Resume(child)
    assert isinstance(replay.next(), Frontier)


def test_unread_steps_are_reported_at_the_end_and_strict_diverges() -> None:
    history = [a_record(":b#1", 2), a_record(":a#1", 1), a_record(":nap#1", None, RecordKind.TIMER)]

    assert Replay(history).end() == Ended((history[1], history[0], history[2]))
    assert Replay(history, policy=Policy.STRICT).end() == Diverged(Difference.UNREAD, history[1])


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


def test_a_run_at_its_frontier_takes_the_new_way() -> None:
    replay = Replay([a_record(":a#1", 1)])
    replay.ask(a_step("a"))
    replay.next()

    assert replay.patched("v2") == Patched(new=True, identity=patch_identity("v2"))


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
            "history has step 'a' (:a#1) with other arguments than the code gives it now",
        ),
        (
            Diverged(Difference.UNREAD, a_record(":a#1", 1)),
            "history has step 'a' (:a#1), but the code ended without asking for it",
        ),
        (
            Diverged(Difference.UNREAD, a_record(":a#1", 1), a_step("b")),
            "history has step 'a' (:a#1), but the code asks for step 'b' instead",
        ),
        (
            Diverged(Difference.KIND, a_record(":a#1", 1), Ask(ROOT, RecordKind.CHILD, "a")),
            "history has step 'a' (:a#1) where the code now asks for child 'a'",
        ),
        (
            Diverged(Difference.ORDER, a_record(":a#1", 1)),
            "history has step 'a' (:a#1) where the code now asks for something else",
        ),
    ],
)
def test_a_divergence_says_what_is_recorded_and_what_is_asked(
    diverged: Diverged, text: str
) -> None:
    assert str(diverged) == text
