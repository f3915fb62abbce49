"""What can be known of a run: from outside, from its body, and from its steps."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

import onward
from onward import App, Signal, step, workflow
from onward.errors import RunFailed
from tests.kit.watching import FALSY, lasting, until, until_state, working

tell = Signal("tell", str)
order: list[str] = []


@step
async def who_am_i() -> dict[str, Any]:
    return _self()


@step
def who_am_i_in_a_thread() -> dict[str, Any]:
    return _self()


@step(queue="far away")
async def who_am_i_elsewhere() -> dict[str, Any]:
    return _self()


def _self() -> dict[str, Any]:
    here = onward.current()
    return {
        "id": here.id,
        "uid": here.uid,
        "workflow": here.workflow,
        "queue": here.queue,
        "parent": here.parent,
        "root": here.root,
        "attempt": here.attempt,
        "step": here.step,
        "scheduled_at": here.scheduled_at.isoformat(),
    }


@workflow
async def introduces_itself() -> dict[str, Any]:
    return {
        "body": _self(),
        "step": await who_am_i(),
        "thread": await who_am_i_in_a_thread(),
        "child": await introduces_its_child(),
    }


@workflow
async def introduces_its_child() -> list[dict[str, Any]]:
    return [_self(), await grandchild()]


@workflow
async def grandchild() -> dict[str, Any]:
    return await who_am_i()


async def test_everyone_in_a_tree_of_runs_knows_its_place(app: App) -> None:
    async with working(app):
        run = await app.start(introduces_itself.options(id="top", priority=3))
        told = await run.result(timeout="60s")

        assert told["body"] == {
            "id": "top",
            "uid": run.uid,
            "workflow": "introduces_itself",
            "queue": "default",
            "parent": None,
            "root": run.uid,
            "attempt": 1,
            "step": None,
            "scheduled_at": told["body"]["scheduled_at"],
        }
        assert told["step"] == {**told["body"], "step": "who_am_i"}
        assert told["thread"] == {**told["body"], "step": "who_am_i_in_a_thread"}
        child, deepest = told["child"]
        assert (child["parent"], child["root"]) == (run.uid, run.uid)
        assert (deepest["parent"], deepest["root"]) == (child["uid"], run.uid)
        by_uid = {info.uid: info for info in await app.runs()}
        assert by_uid[deepest["uid"]].parent == child["uid"]
        assert by_uid[deepest["uid"]].root == run.uid
        assert by_uid[run.uid].root is None


async def test_a_routed_step_knows_its_own_run(app: App) -> None:
    async with working(app, queues=["default", "far away"]):
        run = await app.start(sends_away)
        told = await run.result(timeout="60s")

        assert (told["parent"], told["root"]) == (run.uid, run.uid)
        assert (told["queue"], told["step"]) == ("far away", "who_am_i_elsewhere")
        [info] = [info for info in await app.runs() if info.kind == "step"]
        assert (info.name, info.uid) == ("who_am_i_elsewhere", told["uid"])


@workflow
async def sends_away() -> dict[str, Any]:
    return await who_am_i_elsewhere()


async def test_info_is_complete(app: App) -> None:
    before = datetime.now(UTC) - timedelta(seconds=5)
    options = listens.options(
        id="full", queue="q", priority=-7, tags=["eu", "big"], deadline="1h", delay="1ms"
    )
    async with working(app, queues=["q"], tags=["big", "blue"]):
        run = await app.start(options, "x")
        await until_state(run, "waiting")

        async def has_started() -> bool:
            return (await run.info()).started_at is not None

        await until(has_started)
        await until_state(run, "waiting")
        info = await run.info()
        assert (info.id, info.uid, info.name, info.kind) == ("full", run.uid, "listens", "workflow")
        assert (info.state, info.reason, info.phase, info.attempt) == ("waiting", None, None, 1)
        assert (info.queue, info.tags, info.priority) == ("q", ("eu", "big"), -7)
        assert (info.parent, info.root, info.follows, info.link) == (None, None, None, None)
        assert (info.error, info.progress, info.version) == (None, None, None)
        assert (info.attributes, info.counters) == ({"name": "x"}, {})
        assert info.scheduled_at is not None
        assert info.started_at is not None
        assert before < info.created_at < info.scheduled_at <= info.started_at
        assert info.deadline == info.scheduled_at + timedelta(hours=1)
        assert (info.due, info.finished_at) == (None, None)

        await run.signal(tell, "end")
        assert await run.result(timeout="60s") == "end"
        over = await run.info()
        assert over.finished_at is not None
        assert over.finished_at >= info.started_at
        assert replace(over, state="waiting", finished_at=None) == info


@workflow
async def listens(name: str) -> str:
    onward.current().attributes["name"] = name
    return await tell.wait()


async def test_the_error_of_a_failed_run_is_in_its_info(app: App) -> None:
    async with working(app):
        run = await app.start(goes_wrong)
        with pytest.raises(RunFailed):
            await run.result(timeout="60s")

        assert (await run.info()).error == "ValueError: all wrong"


@workflow
async def goes_wrong() -> None:
    raise ValueError("all wrong")


async def test_the_version_of_the_code_is_known(url: str) -> None:
    app = App(url, version="v7")
    async with working(app):
        run = await app.start(listens, "x")
        await until_state(run, "waiting")
        assert (await run.info()).version == "v7"


# --- who takes what -------------------------------------------------------------------------------


@step
async def takes_its_turn(name: str) -> None:
    order.append(name)


@workflow
async def in_line(name: str) -> None:
    order.append(name)


async def test_higher_priority_goes_first_then_who_came_first(app: App) -> None:
    order.clear()
    async with app:
        for name, priority in [("a", 0), ("b", 5), ("c", -5), ("d", 5), ("e", 0)]:
            await app.start(in_line.options(priority=priority), name)
        async with working(app, slots=1):

            async def all_done() -> bool:
                return len(order) == 5

            await until(all_done)
        assert order == ["b", "d", "a", "e", "c"]


@pytest.mark.parametrize("priority", [1_000_001, -1_000_001])
async def test_a_priority_beyond_reason_is_refused(app: App, priority: int) -> None:
    async with app:
        with pytest.raises(onward.errors.BadInput, match="priority"):
            await app.start(in_line.options(priority=priority), "x")


async def test_a_worker_takes_what_has_one_of_its_tags_or_none(app: App) -> None:
    async with working(app, tags=["gpu", "eu"]):
        for tags in ([], ["gpu"], ["us", "eu"]):
            await app.run(in_line.options(tags=tags), "x")
        far = await app.start(in_line.options(tags=["us"]), "x")
        near = await app.start(in_line.options(tags=["gp"]), "x")  # no part of a tag counts
        await app.run(in_line, "x")

        assert await far.state() == "ready"
        assert await near.state() == "ready"


@pytest.mark.parametrize("tags", ["gpu", ["a b"], [""]])
def test_tags_that_are_none_are_refused(tags: Any) -> None:
    with pytest.raises(onward.errors.BadInput):
        in_line.options(tags=tags).row(("x",), {})


async def test_runs_that_no_worker_can_take_are_listed_with_the_reason(app: App) -> None:
    async with working(app, tags=["eu"], workflows=[listens]):
        await app.start(in_line.options(id="queue", queue="unserved"), "x")
        await app.start(in_line.options(id="unknown"), "x")
        await app.start(listens.options(id="tags", tags=["us", "gpu"]), "x")
        await app.start(in_line.options(id="later", delay="1h"), "x")
        fine = await app.start(listens.options(id="fine"), "x")
        await until_state(fine, "waiting")

        assert {each.run.id: each.why for each in await app.unserved()} == {
            "queue": "no worker serves queue 'unserved'",
            "unknown": "no worker knows workflow 'in_line'",
            "tags": "no worker has one of the tags 'us', 'gpu'",
        }


@lasting
async def test_a_run_pinned_to_a_version_without_a_worker_is_listed(url: str) -> None:
    async with App(url, version="v1") as old:
        await old.start(listens.options(id="pinned"), "x")
    app = App(url, version="v2")
    async with working(app):
        [unserved] = await app.unserved()
        assert (unserved.run.id, unserved.why) == ("pinned", "no worker has version 'v1'")


# --- falsy results --------------------------------------------------------------------------------


@step
async def gives(value: Any) -> Any:
    return value


@step(queue="far away")
async def gives_elsewhere(value: Any) -> Any:
    return value


@workflow
async def gives_as_child(value: Any) -> Any:
    return value


@workflow
async def hands_through(value: Any) -> list[Any]:
    started = await onward.start(gives_as_child, value)
    signalled = await onward.wait_signal("value")
    return [
        await gives(value),
        await gives_elsewhere(value),
        await gives_as_child(value),
        await started.result(),
        signalled,
        *await gives.map([value]),
        *await asyncio.gather(gives(value), gives_as_child(value)),
    ]


async def test_a_falsy_value_is_itself_on_every_way(app: App) -> None:
    async with working(app, queues=["default", "far away"]):
        for value in FALSY:
            run = await app.start(hands_through, value)
            await run.signal("value", value)
            result = await run.result(timeout="60s")

            assert result == [value] * 8
            assert {type(each) for each in result} == {type(value)}
            fork = await app.fork(run.id)
            assert await fork.result(timeout="60s") == result


async def test_a_falsy_argument_is_no_reason_to_take_another_id(app: App) -> None:
    async with app:
        await app.start(gives_as_child.options(id="x"), 0)
        with pytest.raises(onward.errors.Conflict):
            await app.start(gives_as_child.options(id="x"), False)
        with pytest.raises(onward.errors.Conflict):
            await app.start(gives_as_child.options(id="x"), None)
