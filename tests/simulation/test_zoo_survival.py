"""The zoo, survival: bugs by which one thing takes a worker down, or all that wait."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from onward.runtime.worker.beginning import Beginnings
from onward.testing.simulation.conversations import victim
from onward.testing.simulation.exits import leaver, leaving_branches
from tests.simulation.zoo import caught, quiet

if TYPE_CHECKING:
    import pytest


def test_a_body_that_ends_its_worker_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    def ends_programs(error: BaseException) -> bool:
        return isinstance(error, SystemExit | KeyboardInterrupt)

    monkeypatch.setattr("onward.telemetry.interrupts.is_interrupt", ends_programs)
    failure = caught(lambda seed: quiet(seed, leaver.name, leaving_branches.name), 20)
    assert "a process ended of what a run raised" in failure


def test_a_row_that_ends_each_worker_that_reads_it_is_seen(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def let_out(*given: Any) -> None:
        raise given[-1]

    monkeypatch.setattr(Beginnings, "_refuse", let_out)
    assert "ended: " in caught(lambda seed: quiet(seed, victim.name, warm=0), 20)
