"""Replay: whole bodies, live and replayed, killed and resumed, changed and diverging.

A toy world runs bodies made of calls, gathers and first-of-several on the replay machine. A seed
decides in which order what is under way comes to its end, so that one body has many histories.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections import deque
from dataclasses import dataclass, field, replace
from random import Random
from typing import TYPE_CHECKING, TypeAlias

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onward.core.replay import (
    Ask,
    Deliver,
    Diverged,
    Ended,
    Fresh,
    Frontier,
    Held,
    Joined,
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

if TYPE_CHECKING:
    from collections.abc import Generator

OPENED_FIRST = {RecordKind.TIMER, RecordKind.SIGNAL, RecordKind.CHILD, RecordKind.EFFECT}


# --- bodies ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Call:
    """A durable call; if its result is odd, `then` follows."""

    name: str
    kind: RecordKind = RecordKind.STEP
    key: str | None = None
    args: str = "args"
    then: tuple[Part, ...] = ()


@dataclass(frozen=True)
class Gather:
    """Several bodies at once; with `first` it goes on when one of them is through."""

    bodies: tuple[tuple[Part, ...], ...]
    first: bool = False


Part: TypeAlias = Call | Gather
Body: TypeAlias = tuple[Part, ...]
Task: TypeAlias = "Generator[Part, int | None, None]"


def task(body: Body) -> Task:
    for part in body:
        result = yield part
        if isinstance(part, Call) and result and result % 2:
            yield from task(part.then)


# --- the world ------------------------------------------------------------------------------------


@dataclass
class World:
    """One owner of a run, from its claim to the end of the body or to a crash."""

    body: Body
    history: dict[tuple[str, int], Record] = field(default_factory=dict)
    policy: Policy = Policy.ADDITIVE
    seed: int = 0
    writes_most: int = 1_000_000
    fails: bool = False

    def __post_init__(self) -> None:
        self.replay = Replay(self.history.values(), policy=self.policy)
        self.chance = Random(self.seed)
        self.ready: deque[tuple[Task, str, int | None]] = deque()
        self.futures: dict[str, list[tuple[Task, str]]] = {}
        self.joins: dict[Task, tuple[Task, str, int]] = {}
        self.asks: dict[str, Ask] = {}
        self.under_way: list[str] = []
        self.delivered: list[tuple[str, int]] = []
        self.fresh: list[str] = []
        self.passed: list[str] = []
        self.trace: list[str] = []
        self.writes = 0
        self.root = task(self.body)
        self.ended: Ended | Diverged | None = None

    def run(self) -> Ended | Diverged | None:
        """Run to the end, to a divergence, or until `writes_most` records are written: None."""
        self.ready.append((self.root, "", None))
        self.drain()
        while self.ended is None and self.turn():
            self.drain()
        return self.ended

    def drain(self) -> None:
        while self.ready and self.ended is None:
            running, branch, result = self.ready.popleft()
            try:
                part = running.send(result)
            except StopIteration:
                self.through(running)
                continue
            if isinstance(part, Call):
                self.call(part, running, branch)
            else:
                self.gather(part, running, branch)

    def through(self, ended: Task) -> None:
        if ended is self.root:
            self.ended = self.replay.end()
            return
        waiting, branch, needed = self.joins.pop(ended)
        left = [t for t, (w, _, _) in self.joins.items() if w is waiting]
        if needed == len(left) + 1:
            self.ready.append((waiting, branch, 0))

    def gather(self, part: Gather, running: Task, branch: str) -> None:
        # `needed` is how many are left, this one included, when the waiting task goes on.
        needed = len(part.bodies) if part.first else 1
        for body in part.bodies:
            child = task(body)
            self.joins[child] = (running, branch, needed)
            self.ready.append((child, self.replay.branch(branch), None))

    def call(self, part: Call, running: Task, branch: str) -> None:
        ask = Ask(branch, part.kind, part.name, part.key, part.args)
        replaying = not self.replay.live
        match self.replay.ask(ask):
            case Diverged() as diverged:
                self.ended = diverged
            case Joined(_, record) if record is not None:
                self.ready.append((running, branch, record.payload))
            case Joined(identity, _):
                self.futures[identity].append((running, branch))
            case Read(identity) | Held(identity):
                self.expect(identity, ask, running, branch)
            case Fresh(identity):
                assert not replaying
                self.expect(identity, ask, running, branch)
                self.begin(identity, again=False)
            case Resume(record):
                self.expect(record.identity, ask, running, branch)
                if not replaying:
                    self.begin(record.identity, again=True)
            case other:
                raise AssertionError(other)

    def expect(self, identity: str, ask: Ask, running: Task, branch: str) -> None:
        self.asks[identity] = ask
        self.trace.append(f"ask {identity}")
        self.futures[identity] = [(running, branch)]

    def begin(self, identity: str, *, again: bool) -> None:
        if not again:
            self.fresh.append(identity)
            self.trace.append(f"do {identity}")
            if self.asks[identity].kind in OPENED_FIRST:
                self.write(identity, RecordState.OPEN, closes=False)
        self.under_way.append(identity)

    def turn(self) -> bool:
        """Take one turn of a quiet body; False if nothing more will ever happen."""
        match self.replay.next():
            case Deliver(record):
                assert record.seq is not None
                self.delivered.append((record.identity, record.seq))
                self.trace.append(f"hand over {record.identity}")
                for running, branch in self.futures.pop(record.identity):
                    self.ready.append((running, branch, record.payload))
            case Passed(record):
                self.passed.append(record.identity)
                self.trace.append(f"pass {record.identity}")
            case Frontier(released):
                for answer in released:
                    if isinstance(answer, Fresh):
                        self.begin(answer.identity, again=False)
                    else:
                        self.begin(answer.record.identity, again=True)
            case Diverged() as diverged:
                self.ended = diverged
            case Wait():
                return self.finish_one()
        return True

    def finish_one(self) -> bool:
        if self.writes >= self.writes_most:
            return False
        assert self.under_way, "the body waits for something that nobody does"
        identity = self.under_way.pop(self.chance.randrange(len(self.under_way)))
        if self.fails and self.chance.random() < 0.3:
            self.write(identity, RecordState.FAILED, closes=False)
            self.under_way.append(identity)
        else:
            self.write(identity, RecordState.SUCCEEDED, closes=True)
        return True

    def write(self, identity: str, state: RecordState, *, closes: bool) -> None:
        ask = self.asks[identity]
        attempts = [a for i, a in self.history if i == identity]
        last = self.history.get((identity, max(attempts, default=0)))
        attempt = max(attempts, default=1)
        if last is not None and last.state is not RecordState.OPEN:
            attempt += 1
        record = Record(
            identity,
            attempt,
            self.replay.take_position() if closes else None,
            ask.kind,
            ask.name,
            state,
            ask.args_hash,
            payload=self.chance.randrange(100) if closes else None,
        )
        self.history[identity, attempt] = record
        self.writes += 1
        self.replay.recorded(record)


def order(history: dict[tuple[str, int], Record]) -> list[tuple[str, int]]:
    closed = [(r.identity, r.seq) for r in history.values() if r.seq is not None]
    return sorted(closed, key=lambda pair: pair[1])


def lived(body: Body, seed: int = 0, *, fails: bool = False) -> World:
    world = World(body, seed=seed, fails=fails)
    assert world.run() == Ended(())
    return world


# --- properties -----------------------------------------------------------------------------------

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
bodies = st.recursive(
    st.lists(leaves, max_size=4).map(tuple),
    lambda inner: st.lists(
        st.one_of(
            leaves,
            st.builds(lambda call, then: replace(call, then=then), leaves, inner),
            st.builds(Gather, st.lists(inner, min_size=1, max_size=3).map(tuple), st.booleans()),
        ),
        max_size=4,
    ).map(tuple),
    max_leaves=12,
)
seeds = st.integers(0, 2**16)


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


@settings(max_examples=60)
@given(bodies, seeds, st.integers(0, 12))
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


plain_leaves = calls.map(named_by_kind)
plain_bodies = st.recursive(
    st.lists(plain_leaves, max_size=4).map(tuple),
    lambda inner: st.lists(
        plain_leaves | st.builds(Gather, st.lists(inner, min_size=1, max_size=3).map(tuple)),
        max_size=4,
    ).map(tuple),
    max_leaves=12,
)


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
    traces = {
        subprocess.run(
            [sys.executable, __file__],
            env=os.environ | {"PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
            text=True,
        ).stdout
        for seed in ("1", "2", "77")
    }

    assert len(traces) == 1
    assert "hand over" in traces.pop()


# --- changed code ---------------------------------------------------------------------------------

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


if __name__ == "__main__":
    shape: Body = (
        Gather(((Call("a"), Call("b")), (effect("e"),), (Call("a", key="k"), timer("nap"))), True),
        Call("a", key="k"),
        Gather(KEYED),
    )
    print("\n".join(lived(shape, 5, fails=True).trace))
