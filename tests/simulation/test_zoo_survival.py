"""The zoo, survival: bugs by which one thing takes a worker down, or all that wait."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from onward.errors import Unavailable
from onward.runtime.worker.beginning import Beginnings
from onward.runtime.worker.worker import Worker
from tests.simulation.simulator.conversations import victim
from tests.simulation.simulator.exits import leaver, leaving_branches
from tests.simulation.simulator.plan import Outage
from tests.simulation.simulator.sample_workflows import branches
from tests.simulation.zoo import caught, quiet

if TYPE_CHECKING:
    import pytest

    from tests.simulation.simulator.plan import Plan


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


def test_a_worker_that_ends_because_it_stood_still_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    async def once(self: Worker) -> None:
        await self.session.run()

    monkeypatch.setattr(Worker, "run", once)
    assert "ended: LeaseLost" in caught(lambda seed: quiet(seed, branches.name, freezes=1.0), 20)


def refused(seed: int) -> Plan:
    """Return a world whose database takes no logins for a while."""
    return quiet(seed, branches.name, outages=(Outage(8.0, 3.0, is_refusal=True),))


def test_a_worker_that_ends_because_its_login_is_refused_is_seen(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for place in ("outage", "session", "claiming"):
        monkeypatch.setattr(f"onward.runtime.worker.{place}.AWAY", (Unavailable,))
    failure = caught(refused, 10)
    assert "ended: StoreUnusable" in failure or "again, though" in failure


def test_a_result_that_does_not_wait_for_a_store_that_refuses_is_seen(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("onward.engine.results.StoreUnusable", Unavailable)
    assert "takes no logins" in caught(refused, 10)
