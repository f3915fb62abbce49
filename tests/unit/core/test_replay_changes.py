"""Replay: code that was changed while its run was open goes on, or parks without a write."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onward.core.replay import Diverged, Ended, Policy, RecordKind
from tests.unit.core.world import Body, Call, Gather, World, lived

seeds = st.integers(0, 2**16)
STEPS = (Call("a"), Call("b"), Call("c"))


def effect(name: str, key: str | None = None, args: str = "args") -> Call:
    return Call(name, RecordKind.EFFECT, key, args)


def child(name: str) -> Call:
    return Call(name, RecordKind.CHILD)


def signal(name: str) -> Call:
    return Call(name, RecordKind.SIGNAL)


def timer(name: str) -> Call:
    return Call(name, RecordKind.TIMER)


GOES_ON, PARKS = "goes on", "parks"

# What was, what is, and what additive does; strict parks every one of these.
CHANGES: dict[str, tuple[Body, Body, str]] = {
    "renamed step": (STEPS, (Call("a"), Call("z"), Call("c")), GOES_ON),
    "renamed last step": (STEPS, (Call("a"), Call("b"), Call("z")), GOES_ON),
    "renamed effect": ((Call("a"), effect("pay")), (Call("a"), effect("charge")), PARKS),
    "renamed child": ((child("x"), Call("b")), (child("y"), Call("b")), PARKS),
    "swapped steps": (STEPS, (Call("b"), Call("a"), Call("c")), GOES_ON),
    "swapped step and effect": ((Call("a"), effect("e")), (effect("e"), Call("a")), GOES_ON),
    "swapped effects": ((effect("d"), effect("e")), (effect("e"), effect("d")), GOES_ON),
    "removed step": (STEPS, (Call("a"), Call("c")), GOES_ON),
    "removed last step": (STEPS, (Call("a"), Call("b")), GOES_ON),
    "removed timer": ((timer("nap"), Call("a")), (Call("a"),), GOES_ON),
    "removed effect": ((effect("e"), Call("a")), (Call("a"),), PARKS),
    "removed last effect": ((Call("a"), effect("e")), (Call("a"),), PARKS),
    "removed child": ((child("x"), Call("a")), (Call("a"),), PARKS),
    "removed signal": ((signal("go"), Call("a")), (Call("a"),), PARKS),
    "inserted step": (STEPS, (Call("a"), Call("new"), Call("b"), Call("c")), GOES_ON),
    "inserted first step": (STEPS, (Call("new"), *STEPS), GOES_ON),
    "inserted effect": (STEPS, (Call("a"), effect("new"), Call("b"), Call("c")), GOES_ON),
    "inserted before an effect": (
        (Call("a"), effect("e")),
        (Call("a"), Call("new"), effect("e")),
        PARKS,
    ),
    "other arguments": (STEPS, (Call("a"), Call("b", args="other"), Call("c")), PARKS),
    "other effect arguments": ((effect("e"),), (effect("e", args="other"),), PARKS),
    "same name inserted": (
        (Call("a", args="1"),),
        (Call("a", args="0"), Call("a", args="1")),
        PARKS,
    ),
    "step became effect": ((Call("a"),), (effect("a"),), PARKS),
    "branch with an effect removed": (
        (Gather(((Call("a"),), (effect("e"),))),),
        (Gather(((Call("a"),),)),),
        PARKS,
    ),
    "renamed keyed effect": (
        (Call("a"), effect("pay", key="1")),
        (Call("a"), effect("charge", key="1")),
        PARKS,
    ),
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("policy", Policy)
def test_changed_code_goes_on_or_parks_without_a_write(change: str, policy: Policy) -> None:
    was, is_now, additive = CHANGES[change]
    history = lived(was).history
    world = World(is_now, dict(history), policy=policy)

    end = world.run()

    if additive == PARKS or policy is Policy.STRICT:
        assert isinstance(end, Diverged)
        assert (world.writes, world.fresh) == (0, [])
    else:
        assert isinstance(end, Ended)


def test_an_inserted_call_at_the_frontier_is_no_divergence() -> None:
    history = lived(STEPS).history

    assert World((*STEPS, Call("new")), history, policy=Policy.STRICT).run() == Ended(())


def test_what_additive_passes_over_is_reported() -> None:
    history = lived(STEPS).history
    world = World((Call("a"), Call("c")), history)

    assert world.run() == Ended((history[":b#1", 1],))
    assert world.passed == [":b#1"]


KEYED = tuple((Call("send", key=key),) for key in "abc")


def test_a_keyed_list_that_was_reordered_and_filtered_keeps_its_results() -> None:
    history = lived((Gather(KEYED),)).history
    world = World((Gather((KEYED[2], KEYED[0])),), history)

    assert isinstance(world.run(), Ended)
    assert world.fresh == []


steps_only = st.lists(st.sampled_from("abcd").map(Call), max_size=5).map(tuple)
forked = st.lists(
    st.sampled_from("abcd").map(Call)
    | st.builds(Gather, st.lists(steps_only, min_size=1, max_size=3).map(tuple)),
    max_size=5,
).map(tuple)


@settings(max_examples=200)
@given(forked, forked, seeds, st.integers(0, 8))
def test_code_that_additive_lets_go_on_is_replayed_as_it_went(
    was: Body, is_now: Body, seed: int, writes: int
) -> None:
    killed = World(was, seed=seed, writes_most=writes)
    killed.run()
    changed = World(is_now, killed.history, seed=seed)
    assert isinstance(changed.run(), Ended)

    again = World(is_now, dict(changed.history), seed=seed + 1)

    assert isinstance(again.run(), Ended)
    assert (again.fresh, again.delivered) == ([], changed.delivered)
