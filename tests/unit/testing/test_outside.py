"""The outside world that users' tests of effects get."""

from __future__ import annotations

import asyncio

import pytest

from onward import App, Applied, NotApplied, Retry, Unknown, effect, effect_key, workflow
from onward.testing.outside import Outside, Request, Trouble

NOW = Retry(attempts=20, delay="1ms", max_delay="1ms")  # a busy machine may begin some too late

banks: dict[str, Outside] = {}


async def find(card: str, *, key: str) -> Applied[str] | NotApplied | Unknown:
    return await banks[card].find(card, key=key)


@effect(reconcile=find, retry=NOW, timeout="200ms", settle="10ms", start_within="200ms")
async def charge(card: str) -> str:
    answer: str = await banks[card].call(card, 100, key=effect_key())
    return answer


@workflow
async def buy(card: str) -> str:
    return await charge(card)


async def bought(card: str, bank: Outside) -> str:
    """Buy something in a run, and return what the bank's receipt says."""
    banks[card] = bank
    app = App(":memory:")
    async with app, app.worker():
        return await asyncio.wait_for(app.run(buy, card), 60)


@pytest.mark.parametrize(
    ("trouble", "sends"),
    [
        (None, 1),
        (Trouble.REFUSED, 2),
        (Trouble.LOST, 2),
        (Trouble.REPLY_LOST, 1),
        (Trouble.SILENT, 1),
    ],
)
async def test_whatever_befalls_a_reconciled_effect_it_is_applied_once(
    trouble: Trouble | None, sends: int
) -> None:
    bank = Outside()
    bank.befall(trouble)

    assert await bought(f"card {trouble}", bank) == "receipt 1"

    assert (len(bank.sent), len(bank.applied)) == (sends, 1)
    assert len({request.key for request in bank.sent}) == 1


async def test_a_service_that_flaps_works_again_after_so_many_calls() -> None:
    bank = Outside()
    bank.befall(Trouble.REFUSED, times=2)

    assert await bought("flapping", bank) == "receipt 1"

    assert len(bank.sent) == 3


async def test_what_is_late_is_applied_when_the_test_says_so() -> None:
    bank = Outside()
    bank.befall(Trouble.LATE)
    with pytest.raises(ConnectionError, match="no reply yet"):
        await bank.call("card", key="k")
    assert isinstance(await bank.find(key="k"), NotApplied)

    bank.arrive()

    assert await bank.find(key="k") == Applied("receipt 1")
    assert bank.applied == [Request("k", ("card",), {})]


async def test_a_service_that_honours_keys_applies_a_key_once_and_answers_the_same() -> None:
    bank = Outside(honours_keys=True)

    answers = [await bank.call("card", key=key) for key in ("k", "k", "l")]

    assert answers == ["receipt 1", "receipt 1", "receipt 2"]
    assert (bank.times_sent("k"), bank.times_applied("k")) == (2, 1)


async def test_a_service_that_has_forgotten_a_key_applies_it_again() -> None:
    bank = Outside(honours_keys=True)
    first = await bank.call("card", key="k")

    bank.forget()

    assert await bank.call("card", key="k") == "receipt 2"
    assert await bank.call("card", key="k") == "receipt 2"
    assert bank.times_applied("k") == 2
    assert await bank.find(key="k") == Applied(first)


async def test_a_service_that_knows_no_keys_applies_each_request() -> None:
    bank = Outside()

    answers = [await bank.call(key="k"), await bank.call(key="k"), await bank.call()]

    assert answers == ["receipt 1", "receipt 2", "receipt 3"]
    assert await bank.find(key="k") == Applied("receipt 1")


async def test_a_service_that_is_away_cannot_tell_what_became_of_a_call() -> None:
    bank = Outside()
    await bank.call(key="k")
    bank.is_away = True

    assert isinstance(await bank.find(key="k"), Unknown)


def test_code_that_is_not_async_meets_the_same_troubles() -> None:
    bank = Outside(answer=lambda request: request.options["cents"])
    bank.befall(Trouble.LOST, Trouble.SILENT, None)

    with pytest.raises(ConnectionError, match="the request got lost"):
        bank.call_now(cents=1)
    with pytest.raises(TimeoutError):
        bank.call_now(cents=2)
    assert bank.call_now(cents=3) == 3
    assert [request.options for request in bank.applied] == [{"cents": 2}, {"cents": 3}]
