"""Replay: one call has one identity, and different calls never share one."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from onward.core.replay import (
    CANCEL_IDENTITY,
    ROOT,
    Fresh,
    Replay,
    branch_of,
    escaped,
    keyed,
    patch_identity,
)
from onward.core.replay.identity import Naming
from tests.unit.core.records import a_step


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


texts = st.text(st.sampled_from("a:#=.%@~03A"), min_size=1, max_size=6)


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
@example("%3A", ":")
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
