"""Effects of children: a parent that is retried asks for these again, and not for their effects."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

import onward
from onward import NotApplied, Retry, Signal, effect, effect_key, step, workflow
from tests.kit.ledgers import effect_of
from tests.kit.watching import until, until_state, working

if TYPE_CHECKING:
    from onward import App, Run

sent: list[tuple[str, str]] = []
does: list[BaseException] = []
fails: list[str] = []
answers: list[asyncio.Event] = []
go = Signal("go", str)


@pytest.fixture(autouse=True)
def world() -> None:
    answers[:] = [asyncio.Event()]
    for kept in (sent, does, fails):
        kept.clear()


@effect(retry=Retry(attempts=1))
async def pay(whom: str) -> str:
    sent.append((whom, effect_key()))
    if does:
        raise does.pop(0)
    return f"paid {whom}"


@step(retry=Retry(attempts=1))
async def pack(what: str) -> None:
    if what in fails:
        fails.remove(what)
        raise ValueError(f"{what} does not fit")


@workflow
async def order(whom: str) -> str:
    receipt = await pay(whom)
    await pack(whom)
    return receipt


@workflow
async def shop() -> str:
    return await order("Ada")


@workflow
async def mall() -> str:
    return await shop()


@workflow
async def many() -> list[str]:
    return await order.map(["Ada", "Bob", "Eve"])


@workflow
async def two_months(month: int = 1) -> str:
    await pay(f"month {month}")
    if month == 1:
        await onward.continue_as_new(2)
    await pack("all")
    return "done"


@workflow
async def subscription() -> str:
    return await two_months()


async def retried(app: App, run: Run[Any]) -> Run[Any]:
    await until_state(run, "failed")
    return await app.retry(run.id)


@pytest.mark.parametrize(
    ("flow", "broken", "result", "paid"),
    [
        (shop, "Ada", "paid Ada", ["Ada"]),
        (mall, "Ada", "paid Ada", ["Ada"]),
        (many, "Eve", ["paid Ada", "paid Bob", "paid Eve"], ["Ada", "Bob", "Eve"]),
        (subscription, "all", "done", ["month 1", "month 2"]),
    ],
    ids=["child", "grandchild", "map", "continued"],
)
async def test_what_a_child_has_done_is_not_done_again_when_its_parent_is_retried(
    app: App, flow: Any, broken: str, result: Any, paid: list[str]
) -> None:
    fails[:] = [broken]
    async with working(app):
        again = await retried(app, await app.start(flow))

        assert await again.result(timeout="60s") == result
    assert sorted(whom for whom, _ in sent) == paid


async def test_what_did_not_happen_in_a_child_is_sent_under_its_key_when_its_parent_is_retried(
    app: App,
) -> None:
    does[:] = [NotApplied("no money")]
    async with working(app):
        again = await retried(app, await app.start(shop))

        assert await again.result(timeout="60s") == "paid Ada"
    assert len(sent) == 2
    assert len(set(sent)) == 1


async def test_the_children_of_a_fork_have_keys_of_their_own(app: App) -> None:
    async with working(app):
        run = await app.start(shop)
        await run.result(timeout="60s")
        forked = await app.fork(run.id, "order", new_id="beside", resend=True)

        assert await forked.result(timeout="60s") == "paid Ada"
    assert [whom for whom, _ in sent] == ["Ada", "Ada"]
    assert len(set(sent)) == 2


@workflow
async def begins_an_order() -> None:
    await pack("early")
    try:
        await pack("late")
    except ValueError:
        await onward.start(order, "Ada")
        raise


async def test_a_run_that_outlives_its_parent_is_a_new_one_each_time_it_is_started(
    app: App,
) -> None:
    fails[:] = ["late", "late"]
    async with working(app):
        again = await retried(app, await app.start(begins_an_order))
        await until_state(again, "failed")
        await until_all_over(app)
    assert [whom for whom, _ in sent] == ["Ada", "Ada"]
    assert len(set(sent)) == 2


# --- what is not settled --------------------------------------------------------------------------


@effect
async def slow(whom: str) -> str:
    sent.append((whom, effect_key()))
    await answers[0].wait()
    return f"paid {whom}"


@workflow
async def slow_order(whom: str) -> str:
    return await slow(whom)


@workflow
async def fails_beside() -> str:
    task = asyncio.ensure_future(slow_order("Ada"))
    await go.wait()
    await pack("box")
    return await task


async def test_a_child_waits_for_the_one_before_it_that_has_the_effect_under_way(app: App) -> None:
    fails[:] = ["box"]
    async with working(app):
        run = await app.start(fails_beside)
        [child] = await children(app, run, "running")
        await effect_of(app, child, "in_flight")
        await run.signal(go, "on")
        again = await retried(app, run)
        await children(app, again, "waiting", "running")
        answers[0].set()

        assert await again.result(timeout="60s") == "paid Ada"
    assert len(sent) == 1


@effect(approve=True)
async def wire(whom: str) -> str:
    sent.append((whom, effect_key()))
    return f"wired {whom}"


@workflow
async def fails_beside_its_effect(kind: str) -> str:
    task = asyncio.ensure_future(wire("Ada") if kind == "planned" else pay("Ada"))
    await go.wait()
    await pack("box")
    return await task


@workflow
async def bank(kind: str) -> str:
    return await fails_beside_its_effect(kind)


@pytest.mark.parametrize("kind", ["planned", "indeterminate"])
async def test_a_child_hears_what_is_said_of_an_effect_that_the_one_before_it_left_open(
    app: App, kind: str
) -> None:
    fails[:] = ["box"]
    does[:] = [ConnectionError("lost")] if kind == "indeterminate" else []
    async with working(app):
        run = await app.start(bank, kind)
        [child] = await children(app, run, "waiting", "running")
        info = await effect_of(app, child, kind)
        await child.signal(go, "on")
        again = await retried(app, run)
        [other] = await children(app, again, "waiting", "running")
        await other.signal(go, "on")
        await until_state(other, "paused")
        assert [each.run for each in await app.effects.pending()] == [other.id]

        if kind == "planned":
            await app.effects.approve(info.id, reason="fine")
        else:
            await app.effects.resolve(info.id, "applied", result="wired Ada", reason="seen")

        assert await again.result(timeout="60s") == "wired Ada"
    assert len(sent) == 1


async def until_all_over(app: App) -> None:
    """Wait until no run is open."""

    async def over() -> bool:
        states = {each.state for each in await app.runs()}
        return states <= {"succeeded", "failed"}

    await until(over)


async def children(app: App, run: Run[Any], *states: str) -> list[Run[Any]]:
    """Wait until a run has a child in one of these states, and return such children."""
    found: list[Run[Any]] = []

    async def there() -> bool:
        rows = [each for each in await app.runs() if each.parent == run.uid]
        found[:] = [await app.get(each.id) for each in rows if each.state in states]
        return bool(found)

    await until(there)
    return found
