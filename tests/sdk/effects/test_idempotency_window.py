"""Receivers that remember keys: what is uncertain is sent again, while the key is known."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from itertools import pairwise
from typing import TYPE_CHECKING, Any, TypeVar

import pytest

from onward import App, NotApplied, Retry, effect, workflow
from onward.core.instant import HOUR, SECOND
from onward.errors import BadInput, EffectSkipped, VerdictRefused
from onward.store.runs import ledger
from onward.store.runs.clock_steps import time_and_latest_step
from onward.testing.clock import VirtualClock, VirtualLoop
from onward.testing.outside import Outside, Trouble
from tests.kit.banks import SOON, call, open_bank
from tests.kit.ledgers import effect_of, outcomes
from tests.kit.watching import until, until_state, working

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from onward import Workflow
    from onward.sdk.effects import EffectInfo

T = TypeVar("T")


@pytest.fixture
def bank() -> Outside:
    """A bank that applies nothing twice under one key."""
    return open_bank()


@effect(idempotency_window="1h", retry=SOON, timeout="5s", settle="10s", start_within="5s")
async def charge(card: str) -> str:
    return await call(card)


@effect(idempotency_window="1h", retry=SOON, timeout="300ms")
async def charge_in_haste(card: str) -> str:
    return await call(card)


@effect(idempotency_window="1h", retry=Retry(attempts=4, delay="1h", max_delay="1h", jitter=0))
async def charge_hourly(card: str) -> str:
    return await call(card)


@effect(
    idempotency_window="2s",
    retry=Retry(attempts=None, delay="40ms", max_delay="40ms"),
    timeout="400ms",
    settle="100ms",
    start_within="500ms",
)
async def charge_briefly(card: str) -> str:
    return await call(card)


@effect(idempotency_window="1h", retry=Retry(attempts=20, delay="2s", factor=1, jitter=0))
async def charge_often(card: str) -> str:
    return await call(card)


@workflow
async def buys(card: str) -> str:
    return await told(charge(card))


@workflow
async def buys_in_haste(card: str) -> str:
    return await told(charge_in_haste(card))


@workflow
async def buys_hourly(card: str) -> str:
    return await told(charge_hourly(card))


@workflow
async def buys_briefly(card: str) -> str:
    return await told(charge_briefly(card))


@workflow
async def buys_often(card: str) -> str:
    return await told(charge_often(card))


async def told(asked: Awaitable[str]) -> str:
    try:
        return await asked
    except (NotApplied, EffectSkipped) as error:
        return type(error).__name__


async def refused(app: App, info: EffectInfo, verdict: Any, **said: Any) -> str:
    with pytest.raises(VerdictRefused) as answer:
        await app.effects.resolve(info.id, verdict, reason="looked", **said)
    return answer.value.fact


async def offered(app: App, info: EffectInfo) -> list[str]:
    return [choice.verdict for choice in await app.effects.choices(info.id)]


# --- what is uncertain is sent again --------------------------------------------------------------


@pytest.mark.parametrize("trouble", [Trouble.LOST, Trouble.REPLY_LOST])
async def test_it_is_sent_again_under_its_key_without_waiting_for_its_window(
    app: App, bank: Outside, trouble: Trouble
) -> None:
    bank.befall(trouble)
    async with working(app):
        run = await app.start(buys, "card")
        assert await run.result(timeout="15s") == "receipt 1"  # the window is open for 20 s

        [info] = await app.effects.of(run.id)
        assert (info.state, info.attempt, info.tries, info.why) == ("applied", 2, 3, None)
        assert await outcomes(run) == [("charge", "succeeded")]
    assert [request.key for request in bank.sent] == [info.id, info.id]
    assert len(bank.applied) == 1


async def test_what_takes_too_long_is_sent_again(app: App, bank: Outside) -> None:
    bank.befall(Trouble.SILENT)
    async with working(app):
        assert await app.run(buys_in_haste, "card") == "receipt 1"
    assert (len(bank.sent), len(bank.applied)) == (2, 1)


async def test_a_no_for_sure_is_tried_again_and_believed_as_ever(app: App, bank: Outside) -> None:
    bank.befall(Trouble.REFUSED, times=3)
    async with working(app):
        run = await app.start(buys, "card")
        assert await run.result(timeout="60s") == "NotApplied"
        [info] = await app.effects.of(run.id)
        assert (info.state, info.attempt) == ("failed", 3)


async def test_while_it_waits_to_be_sent_again_it_is_seen_to_be_uncertain(
    app: App, bank: Outside
) -> None:
    bank.befall(Trouble.REPLY_LOST)
    async with working(app):
        run = await app.start(buys_often, "card")
        info = await effect_of(app, run, "needs_reconcile")
        await until_state(run, "waiting")

        assert [each.id for each in await app.effects.pending()] == [info.id]
        assert (info.attempt, info.tries, info.can_be_asked) == (1, 20, False)
        assert info.why == "ConnectionError: the reply got lost"
        assert info.asked_at is not None
        assert info.sent_at is not None
        assert info.known_until is not None
        first = info.sent_at - timedelta(seconds=15)
        assert abs(info.known_until - first - timedelta(hours=1)) < timedelta(seconds=1)
        assert timedelta(seconds=1) < info.asked_at - first < timedelta(seconds=10)
        assert await run.result(timeout="60s") == "receipt 1"


async def test_a_run_that_left_memory_wakes_to_send_it_again(app: App, bank: Outside) -> None:
    bank.befall(Trouble.REPLY_LOST, times=2)
    async with working(app, warm=0):
        assert await app.run(buys, "card") == "receipt 1"
    assert (len(bank.sent), len(bank.applied)) == (3, 1)


# --- until the key may be forgotten ---------------------------------------------------------------


async def test_when_no_attempt_is_left_an_operator_decides(app: App, bank: Outside) -> None:
    bank.befall(Trouble.REPLY_LOST, times=9)
    async with working(app):
        run = await app.start(buys, "card")
        info = await effect_of(app, run, "indeterminate")
        await until_state(run, "paused")

        assert (info.attempt, info.tries, info.asked_at) == (3, 3, None)
        assert info.why == "ConnectionError: the reply got lost"
        assert (await run.info()).reason == "reconciliation"
        assert await offered(app, info) == ["applied", "not_applied", "skip", "ask_again"]
    assert (len(bank.sent), len(bank.applied)) == (3, 1)


async def test_a_no_of_a_later_send_is_no_proof_of_the_first(app: App, bank: Outside) -> None:
    bank.befall(Trouble.REPLY_LOST, Trouble.REFUSED, Trouble.REFUSED)
    async with working(app):
        run = await app.start(buys, "card")
        info = await effect_of(app, run, "indeterminate")

        assert (info.attempt, info.why) == (3, "ConnectionError: the reply got lost")
        await app.effects.resolve(info.id, "ask_again", reason="the bank is back")
        assert await run.result(timeout="60s") == "receipt 1"
    assert (len(bank.sent), len(bank.applied)) == (4, 1)


async def test_a_no_of_a_later_send_does_not_keep_it_from_being_sent_again(
    app: App, bank: Outside
) -> None:
    bank.befall(Trouble.REPLY_LOST, Trouble.REFUSED)
    async with working(app):
        assert await app.run(buys, "card") == "receipt 1"
    assert (len(bank.sent), len(bank.applied)) == (3, 1)


async def test_it_is_not_sent_again_when_its_key_may_be_forgotten(app: App, bank: Outside) -> None:
    bank.befall(Trouble.REPLY_LOST, times=100)
    async with working(app):
        run = await app.start(buys_briefly, "card")
        info = await effect_of(app, run, "indeterminate")
        bank.forget()

        assert info.tries is None
        assert 0 < len(bank.sent) <= info.attempt  # too slow a worker does not send
        await until_state(run, "paused")
    assert len(bank.applied) == 1


async def test_a_verdict_is_needed_when_its_key_may_be_forgotten(app: App, bank: Outside) -> None:
    bank.befall(Trouble.REPLY_LOST, times=100)
    async with working(app):
        run = await app.start(buys_briefly, "card")
        info = await effect_of(app, run, "indeterminate")
        assert info.known_until is not None
        known_until = info.known_until.isoformat()[:19]
        times = len(bank.sent)

        async def is_too_late() -> bool:
            return "ask_again" not in await offered(app, info)

        await until(is_too_late)
        fact = await refused(app, info, "ask_again")

        assert f"the receiver remembers the key only until {known_until}" in fact
        await app.effects.resolve(info.id, "applied", result="by hand", reason="looked")
        assert await run.result(timeout="60s") == "by hand"
    assert len(bank.sent) == times


# --- verdicts -------------------------------------------------------------------------------------


async def test_asking_again_is_to_send_it_once_more(app: App, bank: Outside) -> None:
    bank.befall(Trouble.REPLY_LOST, times=4)
    async with working(app):
        run = await app.start(buys, "card")
        info = await effect_of(app, run, "indeterminate")
        await app.effects.resolve(info.id, "ask_again", reason="the bank is back")

        async def is_back() -> bool:
            again = await app.effects.get(info.id)
            return (again.state, again.attempt) == ("indeterminate", 4)

        await until(is_back)
        await app.effects.resolve(info.id, "ask_again", reason="now it is")
        assert await run.result(timeout="60s") == "receipt 1"
    assert (len(bank.sent), len(bank.applied)) == (5, 1)


async def test_asking_again_does_not_wait_for_the_next_send(app: App, bank: Outside) -> None:
    bank.befall(Trouble.REPLY_LOST)
    async with working(app):
        run = await app.start(buys_often, "card")
        info = await effect_of(app, run, "needs_reconcile")
        asked = await app.effects.resolve(info.id, "ask_again", reason="the bank is back")

        assert asked.asked_at is not None
        assert asked.asked_at <= asked.updated_at
        assert await run.result(timeout="60s") == "receipt 1"


@pytest.mark.parametrize(("verdict", "result"), [("applied", "by hand"), ("skip", "EffectSkipped")])
async def test_who_knows_more_need_not_wait_for_the_next_send(
    app: App, bank: Outside, verdict: Any, result: str
) -> None:
    bank.befall(Trouble.REPLY_LOST, times=9)
    async with working(app):
        run = await app.start(buys_often, "card")
        info = await effect_of(app, run, "needs_reconcile")
        await app.effects.resolve(info.id, verdict, result="by hand", reason="looked")

        assert await run.result(timeout="60s") == result
    assert len(bank.sent) == 1


async def test_that_it_did_not_happen_is_proof_and_lets_it_be_sent_again(
    app: App, bank: Outside
) -> None:
    bank.befall(Trouble.LOST, times=2)
    async with working(app):
        run = await app.start(buys_twice, "card")
        info = await effect_of(app, run, "indeterminate")
        assert "the call may still arrive until" in await refused(app, info, "not_applied")

        async def is_judged() -> bool:
            try:
                await app.effects.resolve(info.id, "not_applied", reason="looked")
            except VerdictRefused:
                return False
            return True

        await until(is_judged)
        assert await run.result(timeout="60s") == "NotApplied"  # there is no attempt left
        assert (await app.effects.get(info.id)).attempt == 2
    assert 0 < len(bank.sent) <= 2
    assert bank.applied == []


@effect(
    idempotency_window="1h",
    retry=Retry(attempts=2, delay="1ms"),
    timeout="500ms",
    settle="0s",
    start_within="1s",
)
async def charge_twice(card: str) -> str:
    return await call(card)


@workflow
async def buys_twice(card: str) -> str:
    return await told(charge_twice(card))


# --- in virtual time ------------------------------------------------------------------------------


def in_virtual_time(work: Callable[[App, VirtualClock], Awaitable[T]]) -> T:
    clock = VirtualClock()

    async def go() -> T:
        async with App(":memory:", clock=clock, spawn=None) as app:
            return await work(app, clock)

    with asyncio.Runner(loop_factory=lambda: VirtualLoop(clock)) as runner:
        return runner.run(go())


def seconds_of_sends(
    bank: Outside, started: Workflow[[str], str], hours: float
) -> tuple[list[float], str]:
    """Return when it was sent, and its state after some hours without an answer."""
    bank.befall(Trouble.REPLY_LOST, times=1000)

    async def work(app: App, clock: VirtualClock) -> tuple[list[float], str]:
        times: list[float] = []
        async with app.worker(workflows=[started]):
            run = await app.start(started, "card")
            begun = clock.monotonic()
            while clock.monotonic() < begun + hours * HOUR:
                await asyncio.sleep(0.1)
                if len(bank.sent) > len(times):
                    times.append((clock.monotonic() - begun) / SECOND)
            [info] = await app.effects.of(run.id)
        return times, info.state

    return in_virtual_time(work)


def test_it_is_sent_again_after_the_waits_of_its_policy(bank: Outside) -> None:
    times, state = seconds_of_sends(bank, buys_often, 0.1)

    assert len(times) == 20
    assert all(1.8 < later - sooner < 2.5 for sooner, later in pairwise(times))
    assert state == "indeterminate"


def test_a_wait_that_is_too_long_for_the_key_is_not_begun(bank: Outside) -> None:
    times, state = seconds_of_sends(bank, buys_hourly, 0.1)

    assert (len(times), state) == (1, "indeterminate")


def test_the_last_send_arrives_while_the_key_is_known(bank: Outside) -> None:
    times, state = seconds_of_sends(bank, buys_for_a_while, 0.2)

    assert state == "indeterminate"
    assert 600 - 55 - 31 < times[-1] <= 600 - 55 + 0.1


@effect(idempotency_window="10m", retry=Retry(attempts=None, delay="30s", factor=1, jitter=0))
async def charge_for_a_while(card: str) -> str:
    return await call(card)


@workflow
async def buys_for_a_while(card: str) -> str:
    return await told(charge_for_a_while(card))


def test_a_worker_that_stood_still_does_not_take_a_key_to_be_known(
    bank: Outside, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As one does whose machine is suspended between an answer and its hearing of it."""
    bank.befall(Trouble.REPLY_LOST)

    async def work(app: App, clock: VirtualClock) -> None:
        async with app.worker(workflows=[buys_often]):
            run = await app.start(buys_often, "card")
            await effect_of(app, run, "needs_reconcile")

        def suspended(ask: Callable[..., Awaitable[T]]) -> Callable[..., Awaitable[T]]:
            async def asked(*given: Any) -> T:
                answer = await ask(*given)
                clock.advance(HOUR // 2)
                return answer

            return asked

        with monkeypatch.context() as patch:
            joining = "onward.engine.clock_steps.time_and_latest_step"
            patch.setattr(joining, suspended(time_and_latest_step))
            patch.setattr("onward.store.runs.ledger.effect", suspended(ledger.effect))
            async with app.worker(workflows=[buys_often]):
                while await run.state() not in ("paused", "succeeded"):  # noqa: ASYNC110 - no hint
                    await asyncio.sleep(1)
        [info] = await app.effects.of(run.id)
        assert (info.state, info.attempt) == ("indeterminate", 1)

    in_virtual_time(work)
    assert len(bank.sent) == 1


# --- what can be said -----------------------------------------------------------------------------


async def nothing() -> None: ...


async def look(*, key: str) -> NotApplied:
    return NotApplied()


@pytest.mark.parametrize(
    ("options", "fact"),
    [
        (
            {"idempotency_window": "1h", "reconcile": look},
            "has both reconcile= and idempotency_window=",
        ),
        ({"idempotency_window": "55s"}, "=55s, but a call can take 55s to arrive"),
        ({"idempotency_window": 0}, "could never be sent again"),
        ({"idempotency_window": "1m", "timeout": "1m"}, "could never be sent again"),
        ({"idempotency_window": "1m", "settle": "1m"}, "could never be sent again"),
        (
            {"idempotency_window": "1m", "start_within": "1m"},
            "could never be sent again",
        ),
        ({"idempotency_window": "a day"}, "is not a valid duration"),
        ({"idempotency_window": -1}, "duration -1"),
    ],
)
def test_what_makes_no_sense_is_refused_where_it_is_said(
    options: dict[str, Any], fact: str
) -> None:
    with pytest.raises(BadInput, match=fact):
        effect(**options)(nothing)


def test_a_timeout_that_is_too_long_for_the_key_is_refused_where_it_is_said() -> None:
    kept = effect(idempotency_window="1m")(nothing)

    assert kept.options(timeout="34s").definition.idempotency_window == 60 * SECOND
    with pytest.raises(BadInput, match="could never be sent again"):
        kept.options(timeout="35s")
