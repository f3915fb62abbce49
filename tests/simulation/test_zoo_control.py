"""The zoo, control: bugs by which a wish reaches the wrong run, comes twice, or does nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from onward.core.replay import RecordState
from onward.runtime.body.effects import Drop
from onward.runtime.execution.execution import Execution
from onward.runtime.execution.ledger import EffectEnd, Ledger
from onward.store.store import Store
from tests.simulation.simulator.cleanups import late_proposer, late_riddler, proposer, riddler
from tests.simulation.simulator.conversations import conversation
from tests.simulation.simulator.families import batch, dispatch, doomed_founder, family, rounds
from tests.simulation.simulator.sample_workflows import farewell, talk
from tests.simulation.zoo import caught, quiet, rewrite

if TYPE_CHECKING:
    import pytest

    from onward.model.runs import NewRun, Started
    from tests.simulation.simulator.plan import Plan


def test_a_step_that_begins_though_its_run_was_to_stop_when_it_was_claimed_is_seen(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Execution, "_is_barred", property(lambda run: run._is_held))
    failure = caught(lambda seed: quiet(seed, farewell.name, pauses=1.0, slots=1), 10)
    assert "which was to stop when it was claimed" in failure


def test_an_id_that_is_taken_for_the_uid_of_another_run_is_seen(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("onward.engine.starting.is_uid", lambda _: False)
    rewrite(monkeypatch, "target_seen", "2 AS rank", "0 AS rank")
    failure = caught(lambda seed: quiet(seed, talk.name, meddling=1.0), 5)
    assert "because the run has already ended" in failure or "not over after" in failure


def test_a_start_that_is_not_known_after_its_run_went_on_is_seen(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rewrite(
        monkeypatch, "follow_data", "(:same_start AS BIGINT) = 1", "(:same_start AS BIGINT) = 2"
    )
    failure = caught(lambda seed: quiet(seed, rounds.name, meddling=1.0), 5)
    assert "its run was started with different arguments" in failure


def talking(seed: int) -> Plan:
    """Return a world in which words are sent in every way, some of them twice."""
    return quiet(seed, conversation.name, meddling=1.0)


def heard_wrongly(failure: str) -> bool:
    """Say whether a run has heard words twice or in another order, or ended before the last."""
    return "ended with" in failure or "because the run has already ended" in failure


def test_a_signal_that_is_delivered_again_after_two_continuations_is_seen(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rewrite(
        monkeypatch,
        "messages_seen",
        "AND i.kind = 'signal'",
        "AND i.kind = 'signal' AND i.run IN (r.uid, r.follows)",
    )
    assert heard_wrongly(caught(talking, 20))


def test_a_signal_that_overtakes_one_of_a_callers_transaction_is_seen(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rewrite(monkeypatch, "outbox_of_run", "target = :target", "target = :target AND 0")
    assert heard_wrongly(caught(talking, 20))


def test_signals_in_the_order_of_their_senders_clocks_are_seen(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rewrite(monkeypatch, "oldest_outbox", "ORDER BY seq", "ORDER BY message DESC")
    rewrite(monkeypatch, "outbox_of_run", "ORDER BY seq", "ORDER BY message DESC")
    assert heard_wrongly(caught(talking, 20))


def test_a_pause_that_does_not_reach_children_and_maps_is_seen(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def no_runs(*_: Any) -> list[str]:
        return []

    monkeypatch.setattr("onward.store.runs.holding._lock_below", no_runs)
    kinds = family.name, batch.name, dispatch.name
    failure = caught(lambda seed: quiet(seed, *kinds, pauses=1.0, slots=1), 140, first=88)
    assert "began a step of" in failure


def test_a_child_that_is_started_for_a_run_which_is_over_is_seen(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fenced = Store.start

    async def by_any_worker(self: Store, run: NewRun, *_: object) -> Started:
        return await fenced(self, run)

    monkeypatch.setattr(Store, "start", by_any_worker)
    failure = caught(lambda seed: quiet(seed, doomed_founder.name, freezes=1.0), 40)
    assert "started " in failure
    assert "is cancelled" in failure


def stopped(seed: int) -> Plan:
    """Return a world in which runs are cancelled or late while an effect needs an operator."""
    kinds = proposer, riddler, late_proposer, late_riddler
    return quiet(seed, *(each.name for each in kinds))


def test_a_cancel_or_deadline_that_waits_for_an_approval_or_a_verdict_is_seen(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Ledger, "_is_dropped", lambda *_: False)
    assert "ended without its cleanup" in caught(stopped, 2)


def test_a_cancel_that_leaves_an_effect_planned_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    async def drop(*_: object) -> EffectEnd:
        return EffectEnd(RecordState.CANCELLED, Drop.WITHDRAWN.kept())

    monkeypatch.setattr(Ledger, "_drop", drop)
    rewrite(monkeypatch, "withdraw_planned", "state = 'planned'", "state = 'planned' AND 0")
    assert "check_effect_planned" in caught(stopped, 2)
