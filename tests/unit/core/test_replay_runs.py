"""Replay: whole bodies, live and replayed, killed and resumed."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from onward.core.replay import Ended, Policy, RecordKind
from tests.unit.core.world import Body, Call, Gather, Part, World, lived, order

calls = st.builds(
    Call,
    st.sampled_from("abc"),
    st.sampled_from(
        [RecordKind.STEP, RecordKind.STEP, RecordKind.EFFECT, RecordKind.TIMER, RecordKind.CHILD]
    ).map(RecordKind),
)


def named_by_kind(part: Call) -> Call:
    # One name is one thing: a step and an effect of the same name would be a mistake of the body.
    return replace(part, name=f"{part.kind}-{part.name}")


def keyed_at(part: Call, key: int | None) -> Call:
    return part if key is None else replace(part, key=str(key))


leaves = st.builds(keyed_at, calls.map(named_by_kind), st.none() | st.integers(0, 3))


def grown(
    parts: st.SearchStrategy[Part], inner: st.SearchStrategy[Body]
) -> st.SearchStrategy[Body]:
    return st.lists(parts | gathers(inner), min_size=1, max_size=4).map(tuple)


def gathers(inner: st.SearchStrategy[Body], first: bool | None = None) -> st.SearchStrategy[Part]:
    several = st.lists(inner, min_size=1, max_size=3).map(tuple)
    return st.builds(Gather, several, st.booleans() if first is None else st.just(first))


def continued(inner: st.SearchStrategy[Body]) -> st.SearchStrategy[Part]:
    return st.builds(lambda call, then: replace(call, then=then), leaves, inner)


flat = st.lists(leaves, min_size=1, max_size=4).map(tuple)
nested = grown(leaves | continued(flat), flat)
bodies = grown(leaves | continued(flat), nested | flat)
seeds = st.integers(0, 2**16)


@settings(max_examples=150)
@given(bodies, seeds)
def test_a_full_replay_asks_for_nothing_new_and_delivers_the_recorded_order(
    body: Body, seed: int
) -> None:
    live = lived(body, seed, fails=True)

    again = World(body, dict(live.history), policy=Policy.STRICT, seed=seed + 1)

    assert again.run() == Ended(())
    assert again.fresh == []
    assert again.writes == 0
    assert again.delivered == live.delivered == order(live.history)[: len(live.delivered)]
    assert again.history == live.history


@settings(max_examples=150)
@given(bodies, seeds, st.integers(0, 30))
def test_a_run_killed_anywhere_goes_on_and_repeats_nothing(
    body: Body, seed: int, writes: int
) -> None:
    killed = World(body, seed=seed, writes_most=writes, fails=True)
    killed.run()
    left = dict(killed.history)

    resumed = World(body, dict(left), policy=Policy.STRICT, seed=seed + 1, fails=True)

    assert resumed.run() == Ended(())
    closed = {identity for identity, _ in order(left)}
    assert closed.isdisjoint(resumed.fresh)
    assert resumed.delivered[: len(killed.delivered)] == killed.delivered
    assert {key: resumed.history[key] for key in left if left[key].seq} == {
        key: record for key, record in left.items() if record.seq
    }
    again = World(body, dict(resumed.history), policy=Policy.STRICT)
    assert (again.run(), again.fresh, again.delivered) == (Ended(()), [], resumed.delivered)


plain = calls.map(named_by_kind)
plain_flat = st.lists(plain, min_size=1, max_size=4).map(tuple)
plain_nested = st.lists(plain | gathers(plain_flat, first=False), max_size=4).map(tuple)
plain_bodies = st.lists(plain | gathers(plain_nested, first=False), max_size=4).map(tuple)


@given(plain_bodies, seeds, seeds)
def test_a_body_has_the_same_identities_in_whatever_order_its_calls_end(
    body: Body, one: int, other: int
) -> None:
    first, second = lived(body, one), lived(body, other)

    assert set(first.fresh) == set(second.fresh)
    assert {i: r.name for (i, _), r in first.history.items()} == {
        i: r.name for (i, _), r in second.history.items()
    }


def test_a_trace_does_not_depend_on_the_seed_of_hashes() -> None:
    script = "from tests.unit.core.world import trace_of_one_shape as t; print(t())"
    paths = {"PYTHONPATH": os.pathsep.join(sys.path)}
    traces = {
        subprocess.run(
            [sys.executable, "-c", script],
            env=os.environ | paths | {"PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
            text=True,
        ).stdout
        for seed in ("1", "2", "77")
    }

    assert len(traces) == 1
    assert "hand over" in traces.pop()
