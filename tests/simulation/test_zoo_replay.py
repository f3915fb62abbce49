"""The zoo, replay: bugs by which a body is handed something else in a replay than it was live."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

from onward.model.commits import CommitOutcome
from onward.runtime.body.futures import RunTask
from onward.store.database import Written
from tests.simulation.simulator.repairs import repaired_gather
from tests.simulation.simulator.samplers import retried_sampler, sampler
from tests.simulation.zoo import LOSSY, caught, quiet

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pytest

    from onward.core.failure_origin import CallOutcome
    from onward.model.commits import Commit
    from tests.simulation.simulator.plan import Plan

DIVERGED = "parked as divergent, though its code has not changed"


def evicting(seed: int) -> Plan:
    """Return a world whose bodies are replayed whenever they wait."""
    return quiet(seed, sampler.name, warm=0, slots=100)


def test_the_time_of_another_try_than_the_one_that_was_written_is_seen(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def with_its_own_time(written: Written, commit: Commit) -> CommitOutcome:
        return CommitOutcome(written.fates[commit.run], written.at)

    monkeypatch.setattr(Written, "outcome_of", with_its_own_time)
    assert DIVERGED in caught(lambda seed: quiet(seed, sampler.name, warm=0, weather=LOSSY), 10)


def test_tasks_in_another_order_after_each_restart_are_seen(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    addresses = Random(0)
    monkeypatch.setattr(RunTask, "_address", None, raising=False)

    def by_address(self: RunTask) -> int:
        if self._address is None:
            self._address = addresses.getrandbits(40)
        return int(self._address)

    monkeypatch.setattr(RunTask, "__hash__", by_address)
    assert DIVERGED in caught(evicting, 10)


def test_a_retry_that_does_one_failed_call_again_and_hands_back_the_others_is_seen(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def only_the_first(ended: Sequence[CallOutcome], *_: object) -> CallOutcome:
        return min(ended, key=lambda each: each.seq or 0)

    monkeypatch.setattr("onward.core.failure_origin._first", only_the_first)
    assert "fails. See its history" in caught(lambda seed: quiet(seed, repaired_gather.name), 10)


def test_a_retry_that_is_handed_another_time_and_other_draws_is_seen(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("onward.store.runs.followers.beginning_of", lambda *_, **__: None)
    assert DIVERGED in caught(lambda seed: quiet(seed, retried_sampler.name), 5)
