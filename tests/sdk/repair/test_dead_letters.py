"""Dead letters: which runs are in the list, how they leave it, and how they are grouped."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

import onward
from onward import Retry, step, workflow
from onward.errors import NotFound, RunFailed
from tests.kit.watching import until_state, working

if TYPE_CHECKING:
    from onward import App, Run, RunInfo

broken: set[str] = set()


class CardDeclined(Exception):
    """An error of the user's own, which is not registered."""


@pytest.fixture(autouse=True)
def world() -> None:
    broken.clear()
    broken.update(("bank", "carrier"))


@step(retry=Retry(attempts=1))
async def charge(cents: int) -> int:
    if "bank" in broken:
        raise CardDeclined(f"{cents} cents")
    return cents


@step(retry=Retry(attempts=1))
async def ship(parcel: str) -> str:
    if "carrier" in broken:
        raise ValueError(parcel)
    return parcel


@workflow
async def pay(cents: int) -> int:
    onward.current().attributes["cents"] = cents
    return await charge(cents)


@workflow
async def send(parcel: str) -> str:
    return await ship(parcel)


@workflow
async def order(cents: int) -> str:
    try:
        return str(await pay(cents))
    except Exception:  # noqa: BLE001 - the order goes on without a payment
        return "unpaid"


@workflow
async def both() -> None:
    async with asyncio.TaskGroup() as group:
        group.create_task(ship("left"))


@workflow
async def wait() -> None:
    await onward.sleep("1d")


@workflow
async def raise_own() -> None:
    raise KeyError("own")


async def failed(app: App, start: Any, *args: Any, run_id: str) -> Run[Any]:
    run = await app.start(start.options(id=run_id), *args)
    await until_state(run, "failed", "timed_out")
    return run


def ids(found: list[RunInfo]) -> list[str]:
    return [info.id for info in found]


async def test_failed_and_timed_out_runs_are_listed_newest_first(app: App) -> None:
    async with working(app):
        await failed(app, pay, 5, run_id="pay-5")
        await failed(app, wait.options(deadline=0.01), run_id="late")
        found = await app.dead.list()
        assert ids(found) == ["late", "pay-5"]
        assert [(info.error_type, info.failed_step) for info in found] == [
            ("deadline", None),
            (f"{__name__}.CardDeclined", "charge"),
        ]
        assert (await app.dead.count(), await app.dead.count(maximum=1)) == (2, 1)


async def test_a_child_whose_parent_was_told_is_no_dead_letter(app: App) -> None:
    async with working(app):
        assert await app.run(order, 5) == "unpaid"
        assert await app.dead.list() == []


async def test_a_succeeded_or_cancelled_run_is_no_dead_letter(app: App) -> None:
    async with working(app):
        broken.clear()
        assert await app.run(pay, 5) == 5
        waits = await app.start(wait)
        await waits.cancel(force=True)
        assert await app.dead.list() == []


async def test_filters_choose_by_workflow_error_step_state_age_and_attribute(app: App) -> None:
    async with working(app):
        await failed(app, pay, 5, run_id="pay-5")
        await failed(app, pay, 6, run_id="pay-6")
        await failed(app, send, "book", run_id="send-1")
        await failed(app, wait.options(deadline=0.01), run_id="late")
        dead = app.dead
        assert ids(await dead.list(name="pay")) == ["pay-6", "pay-5"]
        assert ids(await dead.list(error="CardDeclined")) == ["pay-6", "pay-5"]
        assert ids(await dead.list(error=f"{__name__}.CardDeclined", limit=1)) == ["pay-6"]
        assert ids(await dead.list(error="Declined")) == []
        assert ids(await dead.list(error="ValueError")) == ["send-1"]
        assert ids(await dead.list(failed_step="ship")) == ["send-1"]
        assert ids(await dead.list(state="timed_out")) == ["late"]
        assert ids(await dead.list(attributes={"cents": 5})) == ["pay-5"]
        assert len(await dead.list(since="1h")) == 4
        assert await dead.list(since=0) == []
        assert await dead.list(queue="other") == []
        assert await dead.count(name="pay", error="CardDeclined", failed_step="charge") == 2


async def test_pages_have_each_letter_once(app: App) -> None:
    async with working(app):
        for cents in range(5):
            await failed(app, pay, cents, run_id=f"pay-{cents}")
        seen: list[str] = []
        before = None
        while page := await app.dead.list(limit=2, before=before):
            seen += ids(page)
            before = page[-1].uid
        assert seen == [f"pay-{cents}" for cents in (4, 3, 2, 1, 0)]


async def test_a_replayed_letter_leaves_the_list_and_comes_back_if_it_fails_again(app: App) -> None:
    async with working(app):
        first = await failed(app, pay, 5, run_id="pay-5")
        again = await app.dead.replay("pay-5")
        await until_state(again, "failed")
        [letter] = await app.dead.list()
        assert (letter.uid, letter.attempt) == (again.uid, 2)
        assert letter.uid != first.uid
        broken.clear()
        assert await (await app.dead.replay("pay-5")).result() == 5
        assert await app.dead.list() == []


async def test_a_discarded_letter_is_marked_and_no_longer_listed(app: App) -> None:
    async with working(app):
        run = await failed(app, pay, 5, run_id="pay-5")
        assert await app.dead.discard("pay-5", reason="paid in cash", by="ada")
        assert await app.dead.list() == []
        assert await app.dead.count() == 0
        assert await app.dead.groups() == []
        info = await run.info()
        assert info.state == "failed"
        assert info.discarded is not None
        assert (info.discarded.by, info.discarded.reason) == ("ada", "paid in cash")
        assert info.finished_at is not None
        assert info.discarded.at >= info.finished_at
        [listed] = await app.runs(state="failed")
        assert listed.discarded == info.discarded


async def test_only_a_dead_letter_can_be_discarded_and_only_once(app: App) -> None:
    async with working(app):
        broken.clear()
        await app.run(pay.options(id="paid"), 5)
        broken.add("bank")
        assert not await app.dead.discard("paid")
        await failed(app, pay, 6, run_id="pay-6")
        assert await app.dead.discard("pay-6", by="ada")
        assert not await app.dead.discard("pay-6", by="bob")
        assert (await app.runs(state="failed"))[0].discarded.by == "ada"  # type: ignore[union-attr]
        with pytest.raises(NotFound):
            await app.dead.discard("nothing")


async def test_a_discarded_run_can_still_be_retried(app: App) -> None:
    async with working(app):
        await failed(app, pay, 5, run_id="pay-5")
        await app.dead.discard("pay-5")
        broken.clear()
        assert await (await app.retry("pay-5")).result() == 5
        assert (await app.runs(name="pay", state="succeeded"))[0].discarded is None


async def test_a_letter_is_found_by_its_id_until_it_is_dealt_with(app: App) -> None:
    async with working(app):
        await failed(app, pay, 5, run_id="pay-5")
        assert (await app.dead.get("pay-5")).attributes == {"cents": 5}
        await app.dead.discard("pay-5")
        with pytest.raises(NotFound, match="no dead letter 'pay-5'"):
            await app.dead.get("pay-5")


async def test_failures_are_grouped_by_workflow_error_and_call(app: App) -> None:
    async with working(app):
        for cents in range(3):
            await failed(app, pay, cents, run_id=f"pay-{cents}")
        await failed(app, send, "book", run_id="send-1")
        await failed(app, both, run_id="both-1")
        await failed(app, raise_own, run_id="own-1")
        groups = await app.dead.groups(parts=4)
        assert [(g.name, g.error_type, g.failed_step, g.count) for g in groups] == [
            ("pay", f"{__name__}.CardDeclined", "charge", 3),
            ("both", "ValueError", "ship", 1),
            ("raise_own", "KeyError", None, 1),
            ("send", "ValueError", "ship", 1),
        ]
        first = groups[0]
        assert (first.last_run, first.is_capped, sum(first.timeline)) == ("pay-2", False, 3)
        assert first.first_at <= first.last_at
        assert first.last_error is not None
        assert "2 cents" in first.last_error
        assert [g.name for g in await app.dead.groups(name="send")] == ["send"]
        assert await app.dead.groups(since=0) == []


async def test_a_run_retried_by_its_policy_is_listed_once_when_it_gives_up(app: App) -> None:
    async with working(app):
        run = await app.start(pay.options(id="p", retry=Retry(attempts=3, delay=0)), 1)
        with pytest.raises(RunFailed):
            await run.result()
        [letter] = await app.dead.list()
        assert (letter.attempt, letter.failed_step) == (3, "charge")
