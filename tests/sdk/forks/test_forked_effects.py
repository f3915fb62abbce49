"""A fork sends effects under new keys: never unasked, if they happened or may have."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest

from onward import NotApplied, Retry, effect, step, workflow
from onward.errors import WouldResend
from tests.kit.ledgers import effect_of
from tests.kit.watching import children_of, until_state, working

if TYPE_CHECKING:
    from onward import App, Run

sent: list[str] = []
does: list[BaseException] = []
fails: list[str] = []


@pytest.fixture(autouse=True)
def world() -> None:
    for kept in (sent, does, fails):
        kept.clear()


@effect(retry=Retry(attempts=1))
async def pay(whom: str) -> str:
    sent.append(whom)
    if does:
        raise does.pop(0)
    return f"paid {whom}"


@step(retry=Retry(attempts=1))
async def look(what: str) -> str:
    if what in fails:
        fails.remove(what)
        raise ValueError(what)
    return what


@workflow
async def order() -> str:
    await look("first")
    receipt = await pay("Ada")
    await look("last")
    return receipt


@workflow
async def part(whom: str) -> str:
    return await pay(whom)


@workflow
async def shop() -> list[str]:
    await look("first")
    receipts = [await part("Ada"), *await part.map(["Bob"])]
    await look("last")
    return receipts


@pytest.mark.parametrize("flow", [order, shop])
async def test_a_fork_that_would_send_again_what_happened_is_refused(app: App, flow: Any) -> None:
    async with working(app):
        run = await app.start(flow)
        await run.result(timeout="60s")
        times = len(sent)
        with pytest.raises(WouldResend) as refused:
            await app.fork(run.id, "look")
        with pytest.raises(WouldResend):
            await app.fork(run.id, "look", new_id="beside")

        assert "pay (" in str(refused.value)
        assert await run.state() == "succeeded"
        again = await app.fork(run.id, "look", resend=True)
        await again.result(timeout="60s")
    assert len(sent) == 2 * times


@pytest.mark.parametrize("flow", [order, shop])
async def test_a_fork_after_what_happened_goes_on_from_there(app: App, flow: Any) -> None:
    async with working(app):
        run = await app.start(flow)
        await run.result(timeout="60s")
        times = len(sent)
        [last] = [row.identity for row in await run.history() if row.name == "look"][1:]
        again = await app.fork(run.id, last)
        await again.result(timeout="60s")
    assert len(sent) == times


async def test_an_effect_that_is_named_is_sent_again(app: App) -> None:
    async with working(app):
        run = await app.start(order)
        await run.result(timeout="60s")
        again = await app.fork(run.id, "pay")
        await again.result(timeout="60s")
    assert sent == ["Ada", "Ada"]


async def test_a_child_that_is_named_is_not_leave_to_send_its_effects_again(app: App) -> None:
    async with working(app):
        run = await app.start(shop)
        await run.result(timeout="60s")
        with pytest.raises(WouldResend):
            await app.fork(run.id, "part", new_id="beside")
        [chunk] = [row.identity for row in await run.history() if row.name == "map part"]
        with pytest.raises(WouldResend):
            await app.fork(run.id, chunk, new_id="beside")


async def test_an_effect_whose_result_is_given_is_not_sent_again(app: App) -> None:
    async with working(app):
        run = await app.start(order)
        await run.result(timeout="60s")
        again = await app.fork(run.id, "pay", result="paid in cash")
        assert await again.result(timeout="60s") == "paid in cash"
    assert sent == ["Ada"]


async def test_an_effect_that_did_not_happen_does_not_keep_a_run_from_being_forked(
    app: App,
) -> None:
    does[:] = [NotApplied("no")]
    async with working(app):
        run = await app.start(order)
        await until_state(run, "failed")
        again = await app.fork(run.id, "look")
        assert await again.result(timeout="60s") == "paid Ada"


@pytest.mark.parametrize("settled", [None, "skip"])
async def test_a_fork_that_would_send_again_what_may_have_happened_is_refused(
    app: App, settled: Any
) -> None:
    does[:] = [ConnectionError("lost")]
    async with working(app):
        run = await app.start(order)
        info = await effect_of(app, run, "indeterminate")
        await until_state(run, "paused")
        if settled is not None:
            await app.effects.resolve(info.id, settled, reason="unknown")
            await until_state(run, "failed")
        with pytest.raises(WouldResend, match=info.id):
            await app.fork(run.id, None if settled is None else "look", new_id="beside")
    assert sent == ["Ada"]


async def test_what_happened_in_the_run_before_a_retry_counts_too(app: App) -> None:
    fails[:] = ["last", "last"]
    async with working(app):
        run = await app.start(order)
        await until_state(run, "failed")
        again = await app.retry(run.id)
        await until_state(again, "failed")
        with pytest.raises(WouldResend):
            await app.fork(run.id, "look")
    assert sent == ["Ada"]


@pytest.mark.parametrize("flow", [order, shop])
async def test_a_fork_of_a_fork_knows_what_was_sent_before_the_first(app: App, flow: Any) -> None:
    async with working(app):
        run = await app.start(flow)
        await run.result(timeout="60s")
        times = len(sent)
        fork = await app.fork(run.id, ":look#2", new_id="fork")
        await fork.result(timeout="60s")
        with pytest.raises(WouldResend, match="pay"):
            await app.fork("fork", ":look#1")
        assert len(sent) == times

        again = await app.fork("fork", ":look#2")
        await again.result(timeout="60s")
        assert len(sent) == times


@workflow
async def stall() -> str:
    await look("opens")
    return await pay("Eve")


@workflow
async def market(child_id: str | None) -> str:
    child = stall if child_id is None else stall.options(id=child_id)
    return await child()


async def fork_of_a_failed_child(app: App, run: Run[str]) -> Run[Any]:
    """Let the child of a run fail before its effect, and send that effect by a fork of it."""
    await until_state(run, "failed", "succeeded")
    [child] = await children_of(app, run)
    fork = await app.fork(child.id, "look")
    await until_state(fork, "succeeded")
    return fork


async def test_a_retry_does_not_send_again_what_a_fork_of_a_child_has_sent(app: App) -> None:
    fails[:] = ["opens"]
    async with working(app):
        run = await app.start(market, None)
        await fork_of_a_failed_child(app, run)

        with pytest.raises(WouldResend, match="from its call to the child"):
            await app.retry(run.id)

        assert sent == ["Eve"]
        fork = await app.fork(run.id, "stall", result="paid Eve")
        assert await fork.result(timeout="60s") == "paid Eve"
    assert sent == ["Eve"]


@workflow
async def hall() -> str:
    return await market(None)


@workflow
async def yard() -> None:
    with suppress(ValueError):
        await stall()


@workflow
async def street() -> str:
    await yard()
    await look("closes")
    return "closed"


async def test_a_retry_does_not_send_again_what_a_fork_of_a_grandchild_has_sent(app: App) -> None:
    fails[:] = ["opens"]
    async with working(app):
        run = await app.start(hall)
        await until_state(run, "failed")
        [child] = await children_of(app, run)
        await fork_of_a_failed_child(app, await app.get(child.id))

        with pytest.raises(WouldResend):
            await app.retry(run.id)

        assert sent == ["Eve"]
        again = await app.retry(run.id, force=True)
        assert await again.result(timeout="60s") == "paid Eve"


async def test_a_retry_may_keep_a_child_whose_own_child_was_forked(app: App) -> None:
    fails[:] = ["opens", "closes"]
    async with working(app):
        run = await app.start(street)
        await until_state(run, "failed")
        [child] = await children_of(app, run)
        await fork_of_a_failed_child(app, await app.get(child.id))

        again = await app.retry(run.id)

        assert await again.result(timeout="60s") == "closed"
    assert sent == ["Eve"]


async def test_a_retry_that_is_forced_starts_a_forked_child_again(app: App) -> None:
    fails[:] = ["opens"]
    async with working(app):
        run = await app.start(market, None)
        await fork_of_a_failed_child(app, run)

        again = await app.retry(run.id, force=True)

        assert await again.result(timeout="60s") == "paid Eve"
    assert sent == ["Eve", "Eve"]


async def test_a_retry_takes_the_result_of_a_forked_child_with_an_id(app: App) -> None:
    fails[:] = ["opens"]
    async with working(app):
        run = await app.start(market, "eve")
        await fork_of_a_failed_child(app, run)

        again = await app.retry(run.id)

        assert await again.result(timeout="60s") == "paid Eve"
    assert sent == ["Eve"]
