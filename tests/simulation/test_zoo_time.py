"""The zoo, time: bugs by which waits are shorter than their code asked for, or last for ever."""

from __future__ import annotations

from typing import TYPE_CHECKING

from onward.testing.simulation.line import Weather
from onward.testing.simulation.measured import limits, sleeper
from onward.testing.simulation.plan import SEATS, Crash
from tests.simulation.zoo import caught, quiet

if TYPE_CHECKING:
    import pytest

    from onward.testing.simulation.plan import Plan

TOO_SHORT = "s took"


def restarted(seed: int) -> Plan:
    """Return a world in which all workers die at once and come back later."""
    crashes = tuple(Crash(seat, 60 + 5 * seed, True, 8.0) for seat in range(SEATS))
    slow = Weather(delay=0.5, hints_lost=0.0, answers_lost=0.0, clears=0.0)
    errands = (sleeper.name, limits.name) * 4
    return quiet(seed, sleeper.name, errands=errands, slots=100, crashes=crashes, weather=slow)


def test_waits_that_count_from_before_a_restart_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("onward.runtime.body.clock.is_late", lambda *_, **__: False)
    assert TOO_SHORT in caught(restarted, 30)


def test_waits_that_count_from_before_a_pause_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("onward.runtime.body.clock.is_late", lambda *_, **__: False)
    assert TOO_SHORT in caught(lambda seed: quiet(seed, sleeper.name, pauses=1.0), 30)
