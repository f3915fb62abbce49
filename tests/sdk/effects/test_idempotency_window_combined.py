"""Receivers that remember keys, together with all else that can be said of an effect or its run."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta

import pytest

from onward import App, NotApplied, Retry, Signal, effect, effect_key, step, workflow
from onward.testing.outside import Outside, Trouble
from tests.kit.banks import SOON, banks, call, open_bank
from tests.kit.ledgers import effect_of, lose_run
from tests.kit.watching import until, until_state, working

LATER = Retry(attempts=3, delay="2s", factor=1, jitter=0)

go = Signal("go", str)


@pytest.fixture
def bank() -> Outside:
    return open_bank()


@effect(idempotency_window="1h", retry=SOON)
async def charge(card: str) -> str:
    return await call(card)


@effect(idempotency_window="1h", retry=SOON, approve=True)
async def charge_approved(card: str) -> str:
    return await call(card)


@effect(idempotency_window="1h", retry=SOON, rate="1/200ms")
async def charge_slowly(card: str) -> str:
    return await call(card)


@effect(idempotency_window="1h", retry=SOON, timeout="5s")
def charge_in_a_thread(card: str) -> str:
    answer: str = banks[0].call_now(card, key=effect_key())
    return answer


@effect(idempotency_window="1h", retry=LATER)
async def charge_later(card: str) -> str:
    return await call(card)


KINDS = {
    each.name: each
    for each in (charge, charge_approved, charge_slowly, charge_in_a_thread, charge_later)
}


@workflow
async def buys(which: str, card: str) -> str:
    try:
        return await KINDS[which](card)
    except NotApplied as error:
        return f"NotApplied: {error}"


# --- other options --------------------------------------------------------------------------------


async def test_what_was_approved_once_is_sent_again_without_asking(app: App, bank: Outside) -> None:
    bank.befall(Trouble.REPLY_LOST)
    async with working(app):
        run = await app.start(buys, "charge_approved", "card")
        info = await effect_of(app, run, "planned")
        assert info.known_until is None  # nothing was sent yet
        await app.effects.approve(info.id, reason="fine")
        assert await run.result(timeout="60s") == "receipt 1"
    assert (len(bank.sent), len(bank.applied)) == (2, 1)


async def test_sending_again_keeps_to_the_rate(app: App, bank: Outside) -> None:
    bank.befall(Trouble.REPLY_LOST, times=2)
    async with working(app):
        began = asyncio.get_running_loop().time()
        assert await app.run(buys, "charge_slowly", "card") == "receipt 1"
        assert asyncio.get_running_loop().time() - began >= 0.4
    assert (len(bank.sent), len(bank.applied)) == (3, 1)


async def test_a_handler_in_a_thread_is_sent_again_too(app: App, bank: Outside) -> None:
    bank.befall(Trouble.REPLY_LOST, Trouble.SILENT)
    async with working(app):
        assert await app.run(buys, "charge_in_a_thread", "card") == "receipt 1"
    assert (len(bank.sent), len(bank.applied)) == (3, 1)


async def test_a_call_that_began_too_late_is_made_again_and_is_no_proof_of_the_one_before(
    app: App, bank: Outside, monkeypatch: pytest.MonkeyPatch
) -> None:
    bank.befall(Trouble.REPLY_LOST)
    late = [False, True, False]

    def check_start(*_: object) -> None:
        if late.pop(0):
            raise NotApplied("it was not sent in time", after=0)

    monkeypatch.setattr("onward.runtime.attempts.sender.SendAttempt._check_start", check_start)
    async with working(app):
        assert await app.run(buys, "charge", "card") == "receipt 1"
    assert (len(bank.sent), len(bank.applied)) == (2, 1)


# --- workers and code that change -----------------------------------------------------------------


@pytest.mark.parametrize("state", ["in_flight", "needs_reconcile"])
async def test_the_next_worker_sends_again_what_the_last_one_left_uncertain(
    app: App, bank: Outside, monkeypatch: pytest.MonkeyPatch, state: str
) -> None:
    bank.befall(Trouble.REPLY_LOST)
    async with app:
        async with app.worker() as worker:
            lost = lose_run(monkeypatch, worker.session, state)
            run = await app.start(buys, "charge", "card")

            async def is_lost() -> bool:
                return bool(lost) and run.uid not in worker.running

            await until(is_lost)
        async with working(app):
            assert (await run.result(timeout="60s")).startswith("receipt")
            [info] = await app.effects.of(run.id)
            assert info.state == "applied"
            assert 1 < info.attempt <= 3
    assert len(bank.applied) == 1


async def test_code_that_takes_back_what_it_said_of_keys_does_not_send_on_doubt(
    app: App, bank: Outside, monkeypatch: pytest.MonkeyPatch
) -> None:
    bank.befall(Trouble.REPLY_LOST)
    async with app:
        async with app.worker():
            run = await app.start(buys, "charge_later", "card")
            await effect_of(app, run, "needs_reconcile")
            await until_state(run, "waiting")
        less = replace(charge_later.definition, idempotency_window=None)
        monkeypatch.setattr(charge_later, "definition", less)
        async with working(app):
            info = await effect_of(app, run, "indeterminate")
            await app.effects.resolve(info.id, "ask_again", reason="it knew the key once")
            await effect_of(app, run, "indeterminate")
            await until_state(run, "paused")
    assert len(bank.sent) == 1


async def test_code_that_has_a_reconciler_now_asks_it(
    app: App, bank: Outside, monkeypatch: pytest.MonkeyPatch
) -> None:
    bank.befall(Trouble.REPLY_LOST)
    async with app:
        async with app.worker():
            run = await app.start(buys, "charge_later", "card")
            await effect_of(app, run, "needs_reconcile")
            await until_state(run, "waiting")
        asking = replace(charge_later.definition, idempotency_window=None, reconcile=bank.find)
        monkeypatch.setattr(charge_later, "definition", asking)
        async with working(app):
            assert await run.result(timeout="60s") == "receipt 1"
            assert (await effect_of(app, run, "applied")).can_be_asked
    assert len(bank.sent) == 1


# --- runs that follow -----------------------------------------------------------------------------


@effect(idempotency_window="1h", retry=Retry(attempts=1))
async def charge_once(card: str) -> str:
    return await call(card)


@workflow
async def insists(card: str) -> str:
    return await charge_once(card)


async def test_a_retry_sends_again_under_the_key_and_the_memory_of_the_first(
    app: App, bank: Outside
) -> None:
    bank.befall(Trouble.REFUSED)
    async with working(app):
        run = await app.start(insists, "card")
        await until_state(run, "failed")
        [before] = await app.effects.of(run.id)
        again = await app.retry(run.id)
        assert await again.result(timeout="60s") == "receipt 1"
        after = await app.effects.get(before.id)

        assert (after.state, after.attempt, after.run_uid) == ("applied", 1, again.uid)
        assert after.known_until == before.known_until
        assert before.known_until is not None
        assert before.known_until - before.created_at >= timedelta(minutes=59)
    assert [request.key for request in bank.sent] == [before.id, before.id]


@step(retry=Retry(attempts=1))
async def fragile() -> None:
    if len(banks) == 1:
        banks.append(banks[0])
        raise ValueError("of the step")


@workflow
async def beside_a_failure(card: str) -> str:
    task = asyncio.ensure_future(charge_later(card))
    await go.wait()
    await fragile()
    return await task


async def test_a_retry_sends_again_what_the_first_run_left_uncertain(
    app: App, bank: Outside
) -> None:
    bank.befall(Trouble.REPLY_LOST)
    async with working(app):
        run = await app.start(beside_a_failure, "card")
        info = await effect_of(app, run, "needs_reconcile")
        await run.signal(go, "on")
        await until_state(run, "failed")
        assert [each.run_state for each in await app.effects.pending()] == ["failed"]
        again = await app.retry(run.id)

        assert await again.result(timeout="60s") == "receipt 1"
        after = await app.effects.get(info.id)
        assert (after.state, after.attempt, after.run_uid) == ("applied", 2, again.uid)
        assert after.known_until == info.known_until
    assert (len(bank.sent), len(bank.applied)) == (2, 1)


async def test_a_fork_has_a_key_and_a_memory_of_its_own(app: App, bank: Outside) -> None:
    bank.befall(Trouble.REFUSED)
    async with working(app):
        run = await app.start(insists, "card")
        await until_state(run, "failed")
        [before] = await app.effects.of(run.id)
        fork = await app.fork(run.id, "charge_once")
        assert await fork.result(timeout="60s") == "receipt 1"
        [after] = await app.effects.of(fork.id)

        assert after.id != before.id
        assert after.known_until is not None
        assert before.known_until is not None
        assert after.known_until > before.known_until
