"""Schedules in simulated worlds with much trouble, and bugs that are put in on purpose."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tests.simulation.simulator import Simulation
from tests.simulation.simulator.plan import SEATS, Crash, Jump, Outage, draw_plan
from tests.simulation.simulator.sample_workflows import branches
from tests.simulation.simulator.timetable import SCHEDULES
from tests.simulation.zoo import caught, quiet, rewrite

if TYPE_CHECKING:
    import pytest

    from tests.simulation.simulator.plan import Plan

NAMES = tuple(SCHEDULES)


def scheduled(seed: int) -> Plan:
    """Return the world of a seed with schedules, and a clock that is often set."""
    plan = draw_plan(seed, (branches.name,))
    names = tuple(NAMES[(seed + n) % len(NAMES)] for n in range(2))
    steps = ((), (Jump(20.0, 600.0, back_after=15.0),), (Jump(30.0, -120.0),))[seed % 3]
    return replace(
        plan,
        workflows=(branches.name,),
        schedules=names,
        jumps=(*plan.jumps, *steps),
        is_server=seed % 2 == 0,
    )


def test_every_slot_has_one_disposition_and_one_run_at_most() -> None:
    for seed in range(9):
        Simulation(seed, scheduled(seed)).run()


def away(seed: int) -> Plan:
    """Return a world in which slots pass while no worker can decide about them."""
    crashes = tuple(Crash(seat, 50, True, 30.0) for seat in range(SEATS))
    outages = (Outage(20.0, 20.0),)
    return quiet(seed, branches.name, schedules=NAMES, crashes=crashes, outages=outages)


def test_slots_that_catch_up_forgets_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("onward.core.slot._older", lambda *_: ())
    assert "lost the slots" in caught(away, 3)


def test_a_slot_that_loses_its_run_with_a_clock_set_back_is_seen(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def set_back(seed: int) -> Plan:
        jumps = (Jump(30.0, -120.0),)
        return quiet(seed, branches.name, schedules=NAMES, jumps=jumps, is_server=True)

    rewrite(monkeypatch, "undo_slots", "AND run IS NULL", "")
    assert "lost its run" in caught(set_back, 3)
