"""The zoo, time: bugs by which waits are shorter than their code asked for, or never end."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from onward.engine.database_time import DatabaseTime
from tests.simulation.simulator.line import Weather
from tests.simulation.simulator.measured import limits, sleeper
from tests.simulation.simulator.plan import DAY_SECONDS, SEATS, Crash, Jump
from tests.simulation.zoo import caught, quiet

if TYPE_CHECKING:
    from onward.core.instant import Instant
    from tests.simulation.simulator.plan import Plan

TOO_SHORT = "s took"


def restarted(seed: int) -> Plan:
    """Return a world in which all workers die at once and come back later."""
    crashes = tuple(Crash(seat, 60 + 5 * seed, True, 8.0) for seat in range(SEATS))
    slow = Weather(delay=0.5, hints_lost=0.0, answers_lost=0.0, clears=0.0)
    workflows = (sleeper.name, limits.name) * 4
    return quiet(seed, sleeper.name, workflows=workflows, slots=100, crashes=crashes, weather=slow)


def test_waits_that_count_from_before_a_restart_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("onward.runtime.body.clock.is_late", lambda *_, **__: False)
    assert TOO_SHORT in caught(restarted, 30)


def test_waits_that_count_from_before_a_pause_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("onward.runtime.body.clock.is_late", lambda *_, **__: False)
    assert TOO_SHORT in caught(lambda seed: quiet(seed, sleeper.name, pauses=1.0), 30)


@pytest.mark.parametrize("is_server", [True, False])
def test_a_worker_that_follows_its_databases_clock_only_forward_is_seen(
    monkeypatch: pytest.MonkeyPatch, is_server: bool
) -> None:
    class Forward(DatabaseTime):
        def learn(self, at: Instant, asked: int) -> None:
            if self._ahead is None or at > self.now():
                self._ahead = at - self._clock.monotonic()

    def put_back(seed: int) -> Plan:
        jumps = (Jump(5.0, -60.0),)
        return quiet(seed, sleeper.name, limits.name, is_server=is_server, jumps=jumps)

    monkeypatch.setattr("onward.runtime.worker.session.DatabaseTime", Forward)
    assert TOO_SHORT in caught(put_back, 10)


def test_a_time_that_stands_still_until_the_clock_has_caught_up_is_seen(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def ahead_for_a_moment(seed: int) -> Plan:
        return quiet(seed, sleeper.name, warm=0, jumps=(Jump(5.0, DAY_SECONDS, back_after=2.0),))

    monkeypatch.setattr("onward.core.file_time.SLOWDOWN", 10**9)
    assert "not over after" in caught(ahead_for_a_moment, 10)
