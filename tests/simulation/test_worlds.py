"""Worlds that a seed decides: what must hold holds in each, and each can be had again."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from functools import cache
from typing import TYPE_CHECKING

import pytest

from onward.core.run import TERMINAL
from tests.simulation.simulator import Simulation
from tests.simulation.simulator.rules import RunSeen

if TYPE_CHECKING:
    from tests.simulation.simulator import Trace

CHUNK = 20


@cache
def world(seed: int) -> Trace:
    """Return what happened in a world, which several tests look at."""
    return Simulation(seed).run()


@pytest.mark.parametrize("first", range(0, 80, CHUNK))
def test_whatever_happens_every_run_ends_right_and_no_rule_is_broken(first: int) -> None:
    for seed in range(first, first + CHUNK):
        Simulation(seed).run()  # raises `Failed` with the seed if anything is wrong


def test_the_same_seed_gives_the_same_world() -> None:
    for seed in range(5):
        assert Simulation(seed).run().hash == world(seed).hash


def test_every_seed_gives_a_world_of_its_own() -> None:
    assert len({world(seed).hash for seed in range(20)}) == 20


def test_neither_the_process_nor_its_hash_seed_changes_a_world() -> None:
    code = (
        "from tests.simulation.simulator import Simulation\n"
        "print([Simulation(seed).run().hash for seed in range(4)])"
    )
    told = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for hash_seed in ("0", "4711")
    }
    assert len(told) == 1


def test_nothing_comes_from_a_worker_after_its_crash() -> None:
    crashes = 0
    for seed in range(20):
        events = world(seed).events
        for place, event in enumerate(events):
            if event.what == "crash":
                crashes += 1
                assert event.process not in {later.process for later in events[place + 1 :]}
    assert crashes > 5


def situations(trace: Trace) -> set[str]:
    """Return which of the situations that matter came about in a world."""
    wanted = {"crash", "stop", "outage", "cancel", "force", "pause", "resume"}
    wanted |= {"refusal", "jump", "spoil", "signal within"}
    found = {event.what for event in trace.events} & wanted
    found |= {f"left: {event.detail[0]}" for event in trace.of("leave")}
    begun = Counter(event.detail for event in trace.of("step"))
    if max(begun.values(), default=0) > 1:
        found.add("a step ran again because its result was not recorded")
    if any(attempt > 1 for _, _, attempt in begun):
        found.add("a step was tried again after it failed")
    rows = [row for event in trace.of("commit") + trace.of("claim") for row in event.detail]
    runs = [RunSeen._make(row[2]) for row in rows if row[0] == "run"]
    if any(run.crashes for run in runs):
        found.add("a run was adopted from a worker that vanished")
    found |= {f"ended: {run.state} {run.reason}" for run in runs if run.state in TERMINAL}
    found |= {"a run follows another" for run in runs if run.follows is not None}
    found |= {"a run is paused" for run in runs if run.state == "paused"}
    leases = {
        (e.process, row[1]) for e in trace.of("commit") for row in e.detail if row[0] == "lease"
    }
    if max(Counter(process for process, _ in leases).values(), default=0) > 1:
        found.add("a worker lost its lease and went on under another id")
    records = [row[4] for row in rows if row[0] == "record"]
    found |= {f"{kind} {state}" for _, _, _, _, kind, state, *_ in records}
    return found


WANTED = frozenset(
    {
        "crash",
        "stop",
        "outage",
        "cancel",
        "left: asked to",
        "a worker lost its lease and went on under another id",
        "refusal",
        "jump",
        "spoil",
        "signal within",
        "a step ran again because its result was not recorded",
        "a step was tried again after it failed",
        "a run was adopted from a worker that vanished",
        "signal open",
        "signal succeeded",
        "signal timed_out",
        "step failed",
        "step succeeded",
        "timer open",
        "timer succeeded",
        "cancel succeeded",
        "force",
        "pause",
        "resume",
        "a run is paused",
        "a run follows another",
        "ended: cancelled forced",
        "ended: cancelled operator",
        "ended: cancelled parent",
        "ended: failed logic",
        "ended: succeeded continued",
        "ended: timed_out deadline",
        "child open",
        "child succeeded",
        "start succeeded",
        "note succeeded",
        "step open",
    }
)
"""What must come about in worlds, or they would show little."""


def test_the_worlds_are_not_blind_to_what_matters() -> None:
    seen: set[str] = set()
    for seed in range(200):
        seen |= situations(world(seed))
        if seen >= WANTED:
            return
    assert seen >= WANTED
