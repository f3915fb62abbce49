"""The zoo, limits: bugs by which more runs are claimed than a limit or a rate allows, or none."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.simulation.simulator.limited import crowd, line
from tests.simulation.zoo import caught, quiet, rewrite

if TYPE_CHECKING:
    import pytest

    from tests.simulation.simulator.plan import Plan


def crowded(seed: int) -> Plan:
    """Return a world in which many runs want the slots of few."""
    return quiet(seed, crowd.name, slots=100)


def test_runs_of_another_worker_that_are_not_counted_are_seen(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rewrite(
        monkeypatch, "count_running", "state = 'running'", "state = 'running' AND worker LIKE '%0'"
    )
    assert "but the limit is" in caught(crowded, 5)


def test_a_slot_that_is_given_away_while_its_run_waits_is_seen(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rewrite(monkeypatch, "hold_places", "SET holds = 1", "SET holds = 0")
    failure = caught(lambda seed: quiet(seed, line.name, slots=100, warm=1000), 5)
    assert "but the limit is" in failure


def test_a_slot_that_is_not_free_again_with_its_run_is_seen(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rewrite(
        monkeypatch,
        "count_running",
        "INDEXED BY onward_run_running\nWHERE namespace = :namespace AND state = 'running'",
        "\nWHERE namespace = :namespace AND state IN ('running', 'succeeded')",
    )
    assert "not over after" in caught(crowded, 2)


def test_starts_that_are_forgotten_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    rewrite(monkeypatch, "note_claims", "starts = excluded.starts", "starts = ''")
    assert "began within" in caught(crowded, 5)
