"""The zoo, control: bugs by which a wish reaches the wrong run, comes twice, or does nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from onward.testing.simulation.errands import talk
from onward.testing.simulation.families import rounds
from tests.simulation.zoo import caught, quiet, rewrite

if TYPE_CHECKING:
    import pytest


def test_an_id_that_is_taken_for_the_uid_of_another_run_is_seen(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("onward.engine.starting.is_uid", lambda _: False)
    rewrite(monkeypatch, "target_seen", "2 AS rank", "0 AS rank")
    failure = caught(lambda seed: quiet(seed, talk.name, meddling=1.0), 5)
    assert "it was over before signal" in failure or "not over after" in failure


def test_a_start_that_is_not_known_after_its_run_went_on_is_seen(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rewrite(
        monkeypatch, "follow_data", "(:same_start AS BIGINT) = 1", "(:same_start AS BIGINT) = 2"
    )
    failure = caught(lambda seed: quiet(seed, rounds.name, meddling=1.0), 5)
    assert "it was started with different arguments" in failure
