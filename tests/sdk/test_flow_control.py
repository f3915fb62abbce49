"""Limits, rates, keys, priorities and pauses, as users declare and operators change them."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

import onward
from onward import App, workflow
from onward.errors import BadInput

at_work: Counter[str] = Counter()
most: Counter[str] = Counter()
order: list[str] = []


@pytest.fixture(autouse=True)
def forgotten() -> None:
    at_work.clear()
    most.clear()
    order.clear()


async def work(*names: str) -> None:
    """Do something for a moment, and count who does so at the same time."""
    for name in names:
        at_work[name] += 1
        most[name] = max(most[name], at_work[name])
    for _ in range(20):
        await asyncio.sleep(0)
    for name in names:
        at_work[name] -= 1


@onward.step
async def busy(name: str) -> None:
    await work("all", name)


@workflow(limit=2)
async def limited(name: str) -> None:
    await busy(name)


@workflow(key=lambda name: name, limit=1, queue="keys")
async def per_key(name: str) -> None:
    await busy(name)


@workflow(limit=1, hold="open")
async def held(name: str) -> None:
    order.append(f"{name} begins")
    await onward.sleep("1s")
    order.append(f"{name} ends")


@workflow(rate="2/h")
async def rare(name: str) -> None:
    order.append(name)


@workflow(priority=5, tags=["gpu"])
async def urgent() -> None: ...


@workflow
async def plain(name: str) -> None:
    order.append(name)
    await busy(name)


@workflow
async def parent(names: list[str]) -> None:
    await asyncio.gather(*(limited(name) for name in names))
    await limited.map(names)


async def run_all(app: App, *starts: tuple[onward.Workflow[[str], None], str]) -> None:
    runs = [await app.start(started, name) for started, name in starts]
    async with asyncio.timeout(60):
        await asyncio.gather(*(run.result() for run in runs))


async def test_no_more_runs_of_a_workflow_run_than_its_limit(app: App) -> None:
    async with app, app.worker(), app.worker():
        await run_all(app, *((limited, "a") for _ in range(12)))
    assert most["all"] == 2


async def test_children_and_maps_keep_to_the_limit_of_their_workflow(app: App) -> None:
    async with app, app.worker():
        async with asyncio.timeout(60):
            await app.run(parent, ["a"] * 6)
    assert most["all"] == 2


async def test_with_a_key_the_limit_is_that_of_each_key(app: App) -> None:
    async with app, app.worker(queues=["keys"]):
        await run_all(app, *((per_key, name) for name in "aabbcc"))
    assert (most["a"], most["b"], most["c"]) == (1, 1, 1)
    assert most["all"] > 1


async def test_a_limit_that_holds_open_counts_runs_that_sleep(app: App) -> None:
    async with app, app.worker():
        await run_all(app, (held, "a"), (held, "b"))
    assert order in (
        ["a begins", "a ends", "b begins", "b ends"],
        ["b begins", "b ends", "a begins", "a ends"],
    )


async def test_no_more_runs_start_than_the_rate_allows(app: App) -> None:
    async with app, app.worker():
        runs = [await app.start(rare, name) for name in "abc"]
        async with asyncio.timeout(60):
            done = [run.result() for run in runs]
            ended = [asyncio.ensure_future(each) for each in done]
            while sum(each.done() for each in ended) < 2:
                await asyncio.wait(ended, return_when=asyncio.FIRST_COMPLETED, timeout=0.1)
        for each in ended:
            each.cancel()
        left = [
            run
            for run, each in zip(runs, ended, strict=True)
            if each.cancelled() or not each.done()
        ]
        why = [blocker for run in runs for blocker in await app.why(run.id)]
    assert len(order) == 2
    assert [each.kind for each in why] == ["rate"]
    assert "has a rate of 2/1h" in why[0].text
    assert left


async def test_a_limit_of_a_queue_is_in_force_at_once(app: App) -> None:
    async with app:
        await app.queues.limit("default", 1)
        async with app.worker(), app.worker():
            await run_all(app, *((plain, "a") for _ in range(6)), (limited, "a"))
    assert most["all"] == 1


async def test_nothing_of_a_paused_queue_runs_until_it_is_resumed(app: App) -> None:
    async with app, app.worker():
        await app.queues.pause("default")
        run = await app.start(plain, "a")
        with pytest.raises(TimeoutError, match="queue 'default' is paused"):
            await run.result(timeout="100ms")
        assert order == []
        [blocker] = await app.why(run.id)
        assert (blocker.kind, blocker.next) == ("paused", "onward queues resume default")
        await app.queues.resume("default")
        await run.result(timeout="30s")


async def test_a_workflow_can_be_paused(app: App) -> None:
    async with app, app.worker():
        await app.queues.pause(workflow="plain")
        run = await app.start(plain, "a")
        await run_all(app, (limited, "b"))
        assert order == []
        assert [each.kind for each in await app.why(run.id)] == ["paused"]
        await app.queues.resume(workflow="plain")
        await run.result(timeout="30s")


async def test_both_the_declared_and_the_operators_limit_are_listed(app: App) -> None:
    async with app, app.worker():
        await app.queues.limit(workflow="limited", max=7)
        await app.queues.weight("keys", "big", 3)
        found = {(each.kind, each.name): each for each in await app.queues.list()}
        mine = found["workflow", "limited"]
        assert (mine.declared_limit, mine.operator_limit, mine.limit) == (2, 7, 7)
        assert found["workflow", "rare"].rate == "2/1h"
        assert found["workflow", "held"].hold == "open"
        assert (found["key", "*"].queue, found["key", "*"].limit) == ("keys", 1)
        assert found["key", "big"].weight == 3
        assert found["queue", "default"].ready == 0
        await app.queues.clear(workflow="limited")
        [again] = [each for each in await app.queues.list() if each.name == "limited"]
        assert (again.operator_limit, again.limit) == (None, 2)


async def test_an_operators_limit_outlives_the_next_worker(app: App) -> None:
    async with app:
        await app.queues.limit(workflow="limited", max=1)
        async with app.worker():
            await run_all(app, *((limited, "a") for _ in range(4)))
    assert most["all"] == 1


async def test_limits_can_be_given_with_the_start(app: App) -> None:
    async with app, app.worker():
        keyed = plain.options(key="acme", limit=1)
        await run_all(app, *((keyed, "a") for _ in range(4)))
        [row] = [
            each for each in await app.queues.list() if each.kind == "key" and each.name == "acme"
        ]
    assert (row.queue, row.declared_limit) == ("default", 1)
    assert most["all"] == 1


async def test_priority_and_tags_of_the_decorator_are_those_of_its_runs(app: App) -> None:
    async with app:
        info = await (await app.start(urgent)).info()
    assert info.tags == ("gpu",)
    assert urgent.options(id="x").start_options.priority == 5


async def test_a_retried_run_keeps_its_key_and_its_limit(app: App) -> None:
    async with app:
        run = await app.start(per_key, "a")
        await run.cancel(force=True)
        await app.retry(run.id)
        await app.start(per_key, "a")
        async with app.worker(queues=["keys"]):
            await run_all(app, (per_key, "a"))
            await (await app.get(run.id)).result(timeout="30s")
    assert most["a"] == 1


def test_what_is_no_limit_is_refused() -> None:
    for given in ({"limit": 0}, {"limit": True}, {"rate": "often"}, {"hold": "open"}):
        with pytest.raises(BadInput):
            workflow(**given)(plain.fn)
    with pytest.raises(BadInput, match="every key"):
        plain.options(key="*")


async def test_what_an_operator_cannot_mean_is_refused(app: App) -> None:
    async with app:
        for given in ({}, {"queue": "a"}, {"queue": "a", "workflow": "b", "max": 1}):
            with pytest.raises(BadInput):
                await app.queues.limit(**given)
        with pytest.raises(BadInput, match="needs a queue"):
            await app.queues.limit(workflow="b", key="k", max=1)
        with pytest.raises(BadInput, match="weight"):
            await app.queues.weight("a", "k", 0)


async def test_two_workflows_with_other_limits_for_the_keys_of_a_queue_are_refused() -> None:
    @workflow(name="one", key="k", limit=1, queue="shared")
    async def one() -> None: ...

    @workflow(name="two", key="k", limit=2, queue="shared")
    async def two() -> None: ...

    app = App(":memory:")
    with pytest.raises(BadInput, match="declare different limits"):
        async with app, app.worker(workflows=[one, two]):
            pass
