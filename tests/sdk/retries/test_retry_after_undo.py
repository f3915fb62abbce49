"""Runs that undid what they had done before they failed: a retry must not build on it unasked."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

import pytest

from onward import Retry, Signal, effect, step, workflow
from onward.errors import RunFailed, Undone
from tests.kit.ledgers import effect_of
from tests.kit.watching import until, until_state, working

if TYPE_CHECKING:
    from onward import App, Run

sent: list[str] = []
fails: list[str] = []
gate: list[asyncio.Event] = []
go = Signal("go", str)


@pytest.fixture(autouse=True)
def world() -> None:
    sent.clear()
    fails.clear()
    gate[:] = [asyncio.Event()]


@effect
async def charge() -> None:
    sent.append("charge")


@effect
async def refund() -> None:
    sent.append("refund")


@step(retry=Retry(attempts=1))
async def ship() -> str:
    if fails:
        raise ValueError(fails.pop())
    return "shipped"


@workflow
async def order() -> str:
    await charge()
    try:
        return await ship()
    except Exception:
        await refund()
        raise


@workflow
async def shop() -> str:
    return await order()


@pytest.mark.parametrize("flow", [order, shop])
async def test_a_run_that_has_undone_its_effects_is_not_retried_unasked(
    app: App, flow: Any
) -> None:
    fails[:] = ["no van"]
    async with working(app):
        run = await app.start(flow)
        await until_state(run, "failed")
        with pytest.raises(Undone, match="refund"):
            await app.retry(run.id)
        assert await run.state() == "failed"

        again = await app.retry(run.id, force=True)
        assert await again.result(timeout="60s") == "shipped"
    assert sent == ["charge", "refund"]


async def test_a_run_that_has_undone_its_effects_is_not_retried_by_itself_and_says_so(
    app: App, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "onward.run")
    fails[:] = ["no van"]
    async with working(app):
        run = await app.start(order.options(retry=Retry(attempts=3, delay="1ms")))
        with pytest.raises(RunFailed):
            await run.result(timeout="60s")
        assert (await run.info()).attempt == 1
    assert sent == ["charge", "refund"]
    told = [vars(record) for record in caplog.records]
    [facts] = [facts for facts in told if facts["event"] == "run.unretried"]
    assert facts["reason"] == "undone"
    why = facts["effects"]
    assert "refund" in why


async def test_a_fork_from_the_start_does_all_of_it_again(app: App) -> None:
    fails[:] = ["no van"]
    async with working(app):
        run = await app.start(order)
        await until_state(run, "failed")
        again = await app.fork(run.id, "charge", resend=True)
        assert await again.result(timeout="60s") == "shipped"
    assert sent == ["charge", "refund", "charge"]


@workflow
async def beside() -> str:
    task = asyncio.ensure_future(charge())
    await go.wait()
    await ship()
    await task
    return "shipped"


async def test_an_effect_beside_the_error_undoes_nothing(app: App) -> None:
    fails[:] = ["no van"]
    async with working(app):
        run = await app.start(beside)
        await effect_of(app, run, "applied")
        await run.signal(go, "on")
        await until_state(run, "failed")
        again = await app.retry(run.id)
        assert await again.result(timeout="60s") == "shipped"
    assert sent == ["charge"]


@workflow
async def waits_with_it() -> None:
    await charge()
    try:
        await go.wait()
    finally:
        await refund()


async def test_a_run_that_cleaned_up_when_it_was_cancelled_is_not_retried_unasked(app: App) -> None:
    async with working(app):
        run = await app.start(waits_with_it)
        await effect_of(app, run, "applied")
        await until_state(run, "waiting")
        await run.cancel()
        await until_state(run, "cancelled")
        with pytest.raises(Undone, match="refund"):
            await app.retry(run.id)


@workflow
async def tries_another() -> str:
    try:
        await order()
    except ValueError:
        await charge()
    return await ship()


async def test_a_child_that_failed_long_before_the_error_undid_nothing_that_counts(
    app: App,
) -> None:
    fails[:] = ["no van", "no car"]
    async with working(app):
        run = await app.start(tries_another)
        await until_state(run, "failed")
        again = await app.retry(run.id)
        assert await again.result(timeout="60s") == "shipped"
    assert sent == ["charge", "refund", "charge"]


# --- what was on its way --------------------------------------------------------------------------


@effect
async def pay() -> str:
    sent.append("pay")
    await gate[0].wait()
    return "paid"


@step(retry=Retry(attempts=1))
async def pack_up() -> str:
    await until(is_paying)
    return str(await ship.fn())


@workflow
async def both() -> list[str]:
    return list(await asyncio.gather(pack_up(), pay()))


async def test_an_effect_that_was_on_its_way_beside_the_error_is_no_reason_not_to_retry(
    app: App,
) -> None:
    fails[:] = ["no van"]
    async with working(app):
        run = await app.start(both.options(id="both", retry=Retry(attempts=3, delay="1ms")))
        await until(lambda: has(run, "failed"))
        gate[0].set()
        assert await run.result(timeout="60s") == ["shipped", "paid"]
    assert sent == ["pay"]


@workflow
async def only_pay() -> str:
    return await pay()


async def test_an_effect_that_was_on_its_way_when_the_run_was_cancelled_has_undone_nothing(
    app: App,
) -> None:
    async with working(app):
        run = await app.start(only_pay)
        await until(is_paying)
        await run.cancel()
        await until(lambda: has(run, "cancel"))
        gate[0].set()
        await until_state(run, "cancelled")

        again = await app.retry(run.id)
        assert await again.result(timeout="60s") == "paid"
    assert sent == ["pay"]


async def has(run: Run[Any], what: str) -> bool:
    """Say whether history has a record of this kind or state."""
    return any(what in (row.kind, row.state) for row in await run.history())


async def is_paying() -> bool:
    return "pay" in sent
