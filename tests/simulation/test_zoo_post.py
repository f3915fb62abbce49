"""The zoo, pipelines: bugs by which events are lost, or handled twice, or not at all."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from onward.core.delivery import RetryStart, retry_start
from onward.core.effect import EffectState, consumer_origin
from onward.core.handler import Sequel, sequel
from onward.model.commits import Attachments, Commit
from onward.store.pipelines.publishing import Publication, publish_all
from onward.store.pipelines.writing import attach
from tests.simulation.simulator.letters import PostOffice
from tests.simulation.simulator.plan import Post
from tests.simulation.simulator.purchases import purchases
from tests.simulation.zoo import caught, quiet, rewrite

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    import pytest

    from onward.core.decision import Refused
    from onward.store.database import Tx
    from tests.simulation.simulator.plan import Plan

MAX_SEEDS = 8


def failing(seed: int) -> Plan:
    """Return a world in which handlers fail often."""
    return quiet(seed, purchases.name, workflows=(), slots=100, post=Post(0.3, 0.0))


def meddling(*acts: str, faults: float = 0.0) -> Callable[[int], Plan]:
    """Return worlds in which an operator does these things all the time."""
    post = Post(faults, 0.8, acts=acts)
    return lambda seed: quiet(seed, purchases.name, workflows=(), slots=100, post=post)


def smooth(seed: int) -> Plan:
    """Return a world in which handlers never fail."""
    return quiet(seed, purchases.name, workflows=(), slots=100, post=Post(0.0, 0.0))


def test_an_event_that_is_released_although_its_effect_was_applied_is_seen(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def start(effect: EffectState | None) -> RetryStart | Refused:
        return RetryStart.FRESH if effect is EffectState.APPLIED else retry_start(effect)

    monkeypatch.setattr("onward.core.handler.retry_start", start)
    assert "was released, but" in caught(failing, MAX_SEEDS)


def test_a_state_that_a_wake_time_erases_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    wake = "SET wake_at = :now + CAST(:wake_in AS BIGINT),"
    lost = "state = CASE WHEN CAST(:wake_in AS BIGINT) IS NULL THEN state END,"
    rewrite(monkeypatch, "note_preparation", wake, f"{wake} {lost}")
    assert "the state of" in caught(smooth, MAX_SEEDS)


def test_two_open_runs_of_a_serial_pipeline_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "onward.store.pipelines.declaring.lane_of", lambda _, handler, key: f"{handler} {key}"
    )
    assert "runs of ('sim-mail',) are open" in caught(smooth, 2)


def test_an_effect_whose_key_is_used_again_after_a_replay_is_seen(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def origin(handler: str, key: str, events: Iterable[tuple[str, int]]) -> str:
        return consumer_origin(handler, key, ((uid, 0) for uid, _ in events))

    monkeypatch.setattr("onward.runtime.pipelines.phases.consumer_origin", origin)
    monkeypatch.setattr(PostOffice, "below", lambda *_: 0)  # events are reserved one by one
    assert "parked as divergent" in caught(meddling("replay"), MAX_SEEDS)


def test_a_run_that_is_cancelled_after_its_effect_and_owes_next_is_seen(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def forgotten(*given: Any, **how: Any) -> Sequel:
        then = sequel(*given, **how)
        return Sequel(then.events, blocks=then.blocks, at_fault=then.at_fault)

    monkeypatch.setattr("onward.store.pipelines.ending.sequel", forgotten)
    assert "check_delivery" in caught(meddling("cancel"), MAX_SEEDS)


def test_an_event_that_comes_while_a_consumer_prepares_and_is_forgotten_is_seen(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rewrite(
        monkeypatch,
        "note_preparation",
        "CASE WHEN CAST(:seen AS BIGINT) > seen THEN CAST(:seen AS BIGINT) ELSE seen END",
        "CASE WHEN CAST(:seen AS BIGINT) > seen THEN published ELSE seen END",
    )
    assert "has forgotten" in caught(smooth, MAX_SEEDS)


def test_a_consumer_that_runs_again_without_anything_new_is_seen(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rewrite(
        monkeypatch,
        "note_preparation",
        "THEN CAST(:seen AS BIGINT) ELSE seen END",
        "THEN seen ELSE seen END",
    )
    assert "though nothing is new" in caught(smooth, MAX_SEEDS)


def test_a_wake_time_that_is_forgotten_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    rewrite(monkeypatch, "note_preparation", ":now + CAST(:wake_in AS BIGINT)", "NULL")
    assert "does not have the wake time" in caught(smooth, MAX_SEEDS)


def test_a_retry_that_does_not_take_the_events_over_is_seen(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rewrite(monkeypatch, "hand_over_deliveries", "run = :new_uid", "run = run")
    assert "check_delivery_holder" in caught(failing, MAX_SEEDS)


def test_events_that_are_published_after_the_commit_are_seen(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    owed: list[Publication] = []

    async def attach_later(tx: Tx, commits: Iterable[Commit]) -> None:
        kept = []
        before, owed[:] = [*owed], []
        for commit in commits:
            write = commit.attached.pipeline
            if write is not None and write.published:
                owed.append(Publication(write.published, write.inputs, commit.run))
                write = write._replace(published=(), inputs=())
            kept.append(Commit(commit.run, commit.fence, attached=Attachments(pipeline=write)))
        await attach(tx, kept)
        await publish_all(tx, before)

    monkeypatch.setattr("onward.store.sqlite.batch.attach", attach_later)
    failure = caught(smooth, 2)
    assert "but next published" in failure or "but it has published" in failure


def test_a_counter_that_misses_a_consumed_event_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    rewrite(monkeypatch, "count_ended", "consumed + CAST(:consumed AS BIGINT)", "consumed")
    assert "check_subscription" in caught(smooth, 2)


def test_a_run_that_starts_although_its_pipeline_is_paused_is_seen(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("handlers_with_work", "woken_handlers"):
        rewrite(monkeypatch, name, "max(p.paused)", "max(0)")
    assert "though it is paused" in caught(meddling("pause", "resume"), MAX_SEEDS)
