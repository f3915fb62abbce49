"""Bulk actions: which runs match, what is done to them once, and what is refused."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

import onward
from onward import Retry, Signal, effect, step, workflow
from onward.errors import BadInput, Conflict
from onward.model.bulk import BulkOptions
from onward.sdk import bulk_workflow
from onward.sdk.bulk_workflow import BulkReport
from tests.kit.watching import until_state, working

if TYPE_CHECKING:
    from onward import App, Run
    from onward.sdk.bulk import BulkAnswer

broken: set[str] = set()
sent: list[str] = []
go = Signal("go", str)


@pytest.fixture(autouse=True)
def world() -> None:
    broken.clear()
    broken.add("bank")
    sent.clear()


@step(retry=Retry(attempts=1))
async def charge(cents: int) -> int:
    if "bank" in broken:
        raise ValueError(f"{cents} cents")
    return cents


@effect
async def notify(whom: str) -> None:
    sent.append(whom)


@workflow
async def pay(cents: int) -> int:
    onward.current().attributes["cents"] = cents
    return await charge(cents)


@workflow
async def saga(cents: int) -> int:
    try:
        return await charge(cents)
    except Exception:
        await notify("refund")
        raise


@workflow
async def told(cents: int) -> int:
    await notify("before")
    return await charge(cents)


@workflow
async def wait() -> str:
    return await go.wait()


async def failed(app: App, start: Any, *args: Any, run_id: str) -> Run[Any]:
    run = await app.start(start.options(id=run_id), *args)
    await until_state(run, "failed")
    return run


async def result(answer: BulkAnswer[Run[BulkReport]]) -> BulkReport:
    assert answer.run is not None
    return await answer.run.result(timeout="60s")


async def test_a_dry_run_counts_and_samples_and_changes_nothing(app: App) -> None:
    async with working(app):
        for cents in range(12):
            await failed(app, pay, cents, run_id=f"pay-{cents}")
        await failed(app, saga, 1, run_id="saga-1")
        answer = await app.bulk.retry(name="pay", error="ValueError", dry_run=True)
        assert (answer.action, answer.count, answer.is_capped) == ("retry", 12, False)
        assert [info.id for info in answer.sample] == [f"pay-{n}" for n in range(11, 1, -1)]
        assert answer.run is None
        assert await app.dead.count() == 13
        assert (await app.bulk.retry(attributes={"cents": 5}, dry_run=True)).count == 1


async def test_each_matching_run_is_retried_once(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bulk_workflow, "PAGE", 3)
    async with working(app):
        for cents in range(7):
            await failed(app, pay, cents, run_id=f"pay-{cents}")
        await failed(app, saga, 1, run_id="saga-1")
        broken.clear()
        report = await result(await app.bulk.retry(name="pay", failed_step="charge", since="1h"))
        assert (report.action, report.total, report.done, report.refused) == ("retry", 7, 7, 0)
        for cents in range(7):
            run = await app.get(f"pay-{cents}")
            assert await run.result() == cents
            assert (await run.info()).attempt == 2
        assert [info.id for info in await app.dead.list()] == ["saga-1"]


async def test_runs_that_fail_again_are_not_retried_again(
    app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bulk_workflow, "PAGE", 1)
    async with working(app):
        for cents in range(4):
            await failed(app, pay, cents, run_id=f"pay-{cents}")
        report = await result(await app.bulk.retry())
        assert report.done == 4
        for cents in range(4):
            run = await app.get(f"pay-{cents}")
            await until_state(run, "failed")
            assert (await run.info()).attempt == 2


async def test_refusals_are_counted_and_listed_with_the_option_that_overrides_them(
    app: App,
) -> None:
    async with working(app):
        await failed(app, pay, 5, run_id="pay-5")
        await failed(app, saga, 6, run_id="saga-6")
        broken.clear()
        report = await result(await app.bulk.retry())
        assert (report.total, report.done, report.refused) == (2, 1, 1)
        assert report.by_error == {"undone": 1}
        [refusal] = report.refusals
        assert (refusal.id, refusal.error, refusal.option) == ("saga-6", "undone", "force")
        assert "saga-6" in refusal.message
        assert [info.id for info in await app.dead.list()] == ["saga-6"]
        report = await result(await app.bulk.retry(force=True))
        assert (report.done, report.refused) == (1, 0)
        assert await (await app.get("saga-6")).result() == 6


async def test_a_fork_that_would_send_effects_again_is_refused_unless_it_may(app: App) -> None:
    async with working(app):
        await failed(app, told, 5, run_id="told-5")
        broken.clear()
        refused = await result(await app.bulk.fork(step="notify", name="pay"))
        assert (refused.done, refused.refused) == (0, 0)
        report = await result(await app.bulk.fork())
        assert report.done == 1
        run = await app.get("told-5")
        await until_state(run, "failed", "succeeded")


async def test_dead_letters_are_discarded_in_bulk(app: App) -> None:
    async with working(app):
        for cents in range(3):
            await failed(app, pay, cents, run_id=f"pay-{cents}")
        report = await result(await app.bulk.discard(name="pay", reason="a test", by="ada"))
        assert (report.done, await app.dead.count()) == (3, 0)
        [first, *_] = await app.runs(name="pay")
        assert first.discarded is not None
        assert (first.discarded.by, first.discarded.reason) == ("ada", "a test")


async def test_open_runs_are_paused_resumed_and_cancelled_but_no_bulk_action_is(app: App) -> None:
    async with working(app):
        runs = [await app.start(wait) for _ in range(3)]
        for run in runs:
            await until_state(run, "waiting")
        other = await app.start(pay.options(queue="nowhere"), 1)
        assert (await result(await app.bulk.pause(name="wait"))).done == 3
        assert {await run.state() for run in runs} == {"paused"}
        assert (await result(await app.bulk.resume())).done == 3
        report = await result(await app.bulk.cancel(name="wait", grace="1s"))
        assert (report.done, report.refused) == (3, 0)
        for run in runs:
            await until_state(run, "cancelled")
        assert (await result(await app.bulk.cancel(force=True))).done == 1
        assert await other.state() == "cancelled"


async def test_a_long_action_continues_as_a_new_run(
    app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bulk_workflow, "PAGE", 2)
    monkeypatch.setattr(bulk_workflow, "PAGES", 2)
    async with working(app):
        for cents in range(9):
            await failed(app, pay, cents, run_id=f"pay-{cents}")
        answer = await app.bulk.discard(id="tidy")
        assert (await result(answer)).done == 9
        assert answer.run is not None
        info = await answer.run.info()
        assert info.uid != answer.run.uid
        assert info.progress == {"action": "discard", "total": 9, "done": 9, "refused": 0}
        assert info.attributes == {"action": "discard"}
        assert isinstance(await (await app.get("tidy")).result(), BulkReport)


async def test_an_action_with_an_id_is_started_once(app: App) -> None:
    async with working(app):
        await failed(app, pay, 1, run_id="pay-1")
        first = await app.bulk.discard(name="pay", since="1h", id="tidy")
        second = await app.bulk.discard(name="pay", since="1h", id="tidy")
        assert first.run is not None
        assert second.run is not None
        assert first.run.uid == second.run.uid
        with pytest.raises(Conflict):
            await app.bulk.discard(name="saga", id="tidy")


async def test_an_action_runs_on_a_queue_that_a_worker_serves(app: App) -> None:
    async with working(app, queues=["mail"], workflows=[]):
        answer = await app.bulk.cancel()
        assert (await result(answer)).done == 0
        assert answer.run is not None
        assert (await answer.run.info()).queue == "mail"


async def test_a_worker_pinned_to_a_version_runs_it_too(url: str) -> None:
    app = onward.App(url, version="v7")
    async with working(app, workflows=[]):
        assert (await result(await app.bulk.resume())).done == 0


async def test_a_filter_that_fits_no_run_of_the_action_is_refused(memory: App) -> None:
    async with memory:
        with pytest.raises(BadInput, match="dead letters"):
            await memory.bulk.discard(state="succeeded")
        with pytest.raises(BadInput, match="dead letters"):
            await memory.bulk.cancel(error="ValueError")
        with pytest.raises(BadInput, match="only paused runs can be resumed"):
            await memory.bulk.resume(state="failed")


async def test_an_action_repeated_after_a_crash_acts_once_on_each_run(app: App) -> None:
    async with working(app):
        for cents in range(3):
            await failed(app, pay, cents, run_id=f"pay-{cents}")
        await failed(app, saga, 1, run_id="saga-1")
        work = bulk_workflow.BulkWorkflow(app._engine)
        chosen, options = bulk_workflow.BulkFilter(), BulkOptions()
        page = await work.find("retry", chosen, None)
        first = await work.act("retry", page, options)
        second = await work.act("retry", page, options)  # its record was lost
        assert first == second
        assert [refusal.error for refusal in first] == ["undone"]
        for cents in range(3):
            run = await app.get(f"pay-{cents}")
            await until_state(run, "failed")
            assert (await run.info()).attempt == 2
        page = await work.find("discard", chosen, None)
        assert await work.act("discard", page, options) == []
        assert await work.act("discard", page, options) == []
        waits = await app.start(wait)
        await until_state(waits, "waiting")
        page = await work.find("cancel", chosen, None)
        assert await work.act("cancel", page, options) == []
        await until_state(waits, "cancelled")
        assert await work.act("cancel", page, options) == []


async def test_no_workflow_can_take_the_name_of_the_action() -> None:
    with pytest.raises(BadInput, match="onward"):

        @workflow(name="onward.bulk")
        async def mine() -> None: ...


async def test_several_actions_at_once_act_once_on_each_run(app: App) -> None:
    async with working(app):
        for cents in range(6):
            await failed(app, pay, cents, run_id=f"pay-{cents}")
        broken.clear()
        answers = await asyncio.gather(*(app.bulk.retry() for _ in range(3)))
        reports = [await result(answer) for answer in answers]
        assert sum(report.done for report in reports) == 6
        for cents in range(6):
            assert (await (await app.get(f"pay-{cents}")).info()).attempt == 2
