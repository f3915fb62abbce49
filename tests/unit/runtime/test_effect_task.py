"""The life of an effect, by a fake engine: what is written to the ledger, and what is sent."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from onward import Applied, Retry, Unknown, effect, workflow
from onward.codec import encode
from onward.core.inbox import MessageKind
from onward.core.instant import SECOND
from onward.core.lease import Fate
from onward.core.replay import CANCEL_IDENTITY
from onward.engine.payloads import pack
from onward.errors import EffectSkipped, NotApplied
from onward.runtime.registry import Registry
from tests.unit.runtime.fake_engine import EPOCH, FakeEngine, arguments, worked, working

if TYPE_CHECKING:
    from onward.model.commits import Commit

sent: list[str] = []
answers: list[Any] = []
"""What the handler, and then the reconciler, says: each answer is taken once."""
asked: list[str] = []
gates: dict[str, asyncio.Event] = {}


@pytest.fixture(autouse=True)
def _nothing_sent() -> None:
    for each in (sent, answers, asked):
        each.clear()
    gates.update(began=asyncio.Event(), go=asyncio.Event())


def answer() -> Any:
    said = answers.pop(0)
    if callable(said):
        said = said()
    if isinstance(said, BaseException):
        raise said
    return said


async def look_up(card: str, *, key: str) -> Any:
    asked.append(key)
    return answer()


@effect(retry=Retry(attempts=2))
async def charge(card: str) -> Any:
    sent.append(card)
    return answer()


@effect(reconcile=look_up, timeout="30s", settle="10s")
async def charge_provably(card: str) -> Any:
    sent.append(card)
    return answer()


@effect(approve=True)
async def charge_approved(card: str) -> Any:
    sent.append(card)
    return answer()


@effect(rate="1/m")
async def charge_slowly(card: str) -> Any:
    sent.append(card)
    return answer()


@effect
async def charge_and_wait(card: str) -> Any:
    sent.append(card)
    gates["began"].set()
    await gates["go"].wait()
    return answer()


EFFECTS = {
    each.name: each
    for each in (charge, charge_provably, charge_approved, charge_slowly, charge_and_wait)
}


@workflow
async def pay(name: str) -> Any:
    return await EFFECTS[name]("card")


REGISTRY = Registry([pay.definition])


def paying(name: str, *said: Any) -> FakeEngine:
    """Return an engine with a run that calls an effect, which meets with these answers."""
    answers.extend(said)
    engine = FakeEngine()
    engine.add("pay", arguments(pay, name))
    return engine


# --- it settles -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["charge", "charge_provably"])
async def test_an_effect_is_in_flight_before_it_is_sent_and_then_applied(name: str) -> None:
    engine = paying(name, "receipt")
    before: list[int] = []
    engine.before_commit = lambda _: before.append(len(sent))

    assert await worked(engine, REGISTRY) == "receipt"
    assert engine.states == ["in_flight", "applied"]
    assert before[:2] == [0, 1]
    assert sent == ["card"]


async def test_an_effect_that_is_not_applied_is_sent_again_until_its_policy_ends() -> None:
    engine = paying("charge", NotApplied("declined"), NotApplied("no money"))

    with pytest.raises(NotApplied, match="no money"):
        await worked(engine, REGISTRY)
    assert engine.states == ["in_flight", "failed", "in_flight", "failed"]


async def test_an_effect_is_sent_again_when_its_handler_says_so() -> None:
    engine = paying("charge", NotApplied("busy", after="10s"), "receipt")

    assert await worked(engine, REGISTRY) == "receipt"
    assert engine.clock.wall() - EPOCH == 10 * SECOND
    assert engine.states == ["in_flight", "failed", "in_flight", "applied"]


@pytest.mark.parametrize("sends", [1, 2])
async def test_each_send_of_an_effect_with_a_rate_waits_for_its_slot(sends: int) -> None:
    engine = paying("charge_slowly", *[NotApplied("busy", after=0)] * (sends - 1), "receipt")

    assert await worked(engine, REGISTRY, warm=0) == "receipt"
    assert engine.clock.wall() - EPOCH == 60 * SECOND * sends
    assert engine.calls.count("reserve") == sends  # a parked run keeps its slot


# --- its outcome is uncertain ---------------------------------------------------------------------


async def test_an_uncertain_effect_that_its_reconciler_finds_is_applied() -> None:
    engine = paying("charge_provably", OSError("no reply"), Applied("receipt"))

    assert await worked(engine, REGISTRY) == "receipt"
    assert engine.states == ["in_flight", "needs_reconcile", "applied"]
    assert sent == ["card"]
    assert asked == list(engine.effects)


async def test_an_uncertain_effect_is_sent_again_after_its_window_and_a_second_no() -> None:
    no = NotApplied("not there")
    engine = paying("charge_provably", OSError("no reply"), no, no, "receipt")

    assert await worked(engine, REGISTRY) == "receipt"
    assert engine.states == [
        "in_flight",
        "needs_reconcile",
        "needs_reconcile",
        "failed",
        "in_flight",
        "applied",
    ]
    assert engine.clock.wall() - EPOCH == (15 + 30 + 10) * SECOND
    assert sent == ["card", "card"]


async def test_a_no_that_was_asked_for_too_early_is_no_proof_when_it_comes_late() -> None:
    def slowly() -> NotApplied:
        engine.clock.step(60 * SECOND)
        return NotApplied("not there")

    engine = paying("charge_provably", OSError("no reply"), slowly, Applied("receipt"))

    assert await worked(engine, REGISTRY) == "receipt"
    assert engine.states == ["in_flight", "needs_reconcile", "needs_reconcile", "applied"]
    assert sent == ["card"]


async def test_an_effect_whose_reconciler_does_not_know_waits_for_an_operator() -> None:
    engine = paying("charge_provably", OSError("no reply"), *[Unknown()] * 20)
    [run] = engine.runs.values()
    async with working(engine, REGISTRY):
        await engine.until(lambda: run.state == "paused")
        assert run.reason == "reconciliation"
        assert engine.states[-1] == "indeterminate"
        engine.decide("applied", state="applied", result=pack(encode("by hand")))
        await engine.until(lambda: run.is_over)

    assert run.outcome() == "by hand"
    assert sent == ["card"]


async def test_an_effect_without_a_reconciler_is_sent_again_after_a_verdict_alone() -> None:
    engine = paying("charge", OSError("no reply"), "receipt")
    [run] = engine.runs.values()
    async with working(engine, REGISTRY):
        await engine.until(lambda: run.state == "paused")
        assert (engine.states, sent) == (["in_flight", "indeterminate"], ["card"])
        engine.decide("not_applied", state="failed", due=engine.clock.wall())
        await engine.until(lambda: run.is_over)

    assert run.outcome() == "receipt"
    assert sent == ["card", "card"]


# --- an operator decides --------------------------------------------------------------------------


async def test_an_effect_that_needs_approval_is_planned_and_sent_once_it_is_approved() -> None:
    engine = paying("charge_approved", "receipt")
    [run] = engine.runs.values()
    async with working(engine, REGISTRY):
        await engine.until(lambda: run.state == "paused")
        assert (run.reason, engine.states, sent) == ("approval", ["planned"], [])
        engine.decide("approve", approved=1, due=engine.clock.wall())
        await engine.until(lambda: run.is_over)

    assert run.outcome() == "receipt"
    assert engine.states == ["planned", "in_flight", "applied"]


async def test_an_effect_that_an_operator_has_changed_is_read_before_it_is_sent() -> None:
    engine = paying("charge", NotApplied("busy", after="10s"), "receipt")

    def skip(commit: Commit) -> None:
        if [row.attempt for row in commit.attached.effects] == [2]:
            [row] = engine.effects.values()
            skipped = row._replace(version=row.version + 1, state="skipped", due=None)
            engine.effects[row.key] = skipped

    engine.before_commit = skip
    with pytest.raises(EffectSkipped):
        await worked(engine, REGISTRY)
    assert sent == ["card"]


# --- its run is cancelled, or leaves the worker ---------------------------------------------------


async def test_a_planned_effect_of_a_cancelled_run_is_withdrawn() -> None:
    engine = paying("charge_approved")
    [run] = engine.runs.values()
    async with working(engine, REGISTRY):
        await engine.until(lambda: run.state == "paused")
        engine.send(MessageKind.CANCEL, "operator")
        await engine.until(lambda: run.is_over)

    assert (run.state, engine.states, sent) == ("cancelled", ["planned", "withdrawn"], [])
    assert engine.clock.wall() == EPOCH  # it did not wait until the time for cleanup was over


async def test_a_send_of_a_cancelled_run_ends_and_its_outcome_is_recorded() -> None:
    engine = paying("charge_and_wait", "receipt")
    [run] = engine.runs.values()
    async with working(engine, REGISTRY):
        await gates["began"].wait()
        engine.send(MessageKind.CANCEL, "operator")
        await engine.until(lambda: (CANCEL_IDENTITY, 1) in run.records)
        gates["go"].set()
        await engine.until(lambda: run.is_over)

    assert (run.state, engine.states) == ("cancelled", ["in_flight", "applied"])


@pytest.mark.parametrize("lost", ["intent", "outcome"])
async def test_an_effect_whose_run_was_lost_is_not_sent_again_before_it_is_reconciled(
    lost: str,
) -> None:
    engine = paying("charge_provably", "receipt", Applied("receipt"))
    [run] = engine.runs.values()
    if lost == "intent":
        del answers[1:]

    def lose(commit: Commit) -> Fate | None:
        at = ["in_flight"] if lost == "intent" else ["applied"]
        if [str(row.state) for row in commit.attached.effects] != at or run.fence > 1:
            return None
        run.state = "ready"
        engine.wake()
        return Fate.LOST

    engine.before_commit = lose
    assert await worked(engine, REGISTRY) == "receipt"
    assert sent == ["card"]
    assert len(asked) == (0 if lost == "intent" else 1)


async def test_a_send_that_is_cut_short_by_the_end_of_its_worker_stays_in_flight() -> None:
    engine = paying("charge_and_wait", "receipt")
    [run] = engine.runs.values()
    async with working(engine, REGISTRY) as worker:
        await gates["began"].wait()
        [execution] = worker.running.values()
        execution.release()
        await engine.until(lambda: run.state == "ready")

    assert engine.states == ["in_flight"]
