"""Versions of code: marked changes, runs that are pinned, and runs that the newest code adopts."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

import onward
from onward import App, Signal, step, workflow
from tests.kit.deploys import SECONDS, deployed
from tests.kit.watching import check_database, until, until_state

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    import pytest

    from onward import Run

go = Signal("go", str)


@step
async def say(text: str) -> str:
    return text


async def waiting_under(
    app: App, code: Callable[[], Coroutine[Any, Any, Any]], run_id: str = "run"
) -> Run[Any]:
    """Start a run that comes to wait, and let its worker leave: the body is gone."""
    old = deployed(code)
    async with app.worker(workflows=[old]):
        run = await app.start(old.options(id=run_id))
        await until_state(run, "waiting")
    return run


async def ends_under(app: App, run: Run[Any], code: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
    """Send `go` to a run, and return its result under this code."""
    async with app.worker(workflows=[deployed(code)]):
        await run.signal(go, "now")
        return await run.result(timeout=SECONDS)


# --- patched --------------------------------------------------------------------------------------


async def old_way() -> list[str]:
    return [await say("old"), await go.wait(), await say("later")]


async def either_way() -> list[str]:
    if onward.patched("new way"):
        return [await say("new"), await go.wait(), await say("later")]
    return [await say("old"), await go.wait(), await say("later")]


async def new_way() -> list[str]:
    return [await say("new"), await go.wait(), await say("later")]


async def old_way_later() -> list[str]:
    return [await go.wait(), await say("old")]


async def either_way_later() -> list[str]:
    first = await go.wait()
    return [first, await say("new" if onward.patched("new way") else "old")]


async def test_a_new_run_takes_the_new_way(app: App) -> None:
    async with app:
        run = await waiting_under(app, either_way)

        assert await ends_under(app, run, either_way) == ["new", "now", "later"]


async def test_an_old_run_that_is_past_a_change_keeps_the_old_way(app: App) -> None:
    async with app:
        run = await waiting_under(app, old_way)

        assert await ends_under(app, run, either_way) == ["old", "now", "later"]


async def test_an_old_run_that_only_waits_behind_a_change_keeps_the_old_way(app: App) -> None:
    async def old() -> list[str]:
        return [await go.wait()]

    async def new() -> list[str]:
        if onward.patched("do not ask"):
            return [await say("not asked")]
        return [await go.wait()]

    async with app:
        run = await waiting_under(app, old)

        assert await ends_under(app, run, new) == ["now"]


async def test_an_old_run_that_comes_to_a_change_later_takes_the_new_way(app: App) -> None:
    async with app:
        run = await waiting_under(app, old_way_later)

        assert await ends_under(app, run, either_way_later) == ["now", "new"]


async def test_every_branch_of_a_new_run_takes_the_new_way(app: App) -> None:
    async def leg(number: int) -> str:
        await say(f"{number}")
        return await say("new" if onward.patched("legs") else "old")

    async def new() -> list[str]:
        found = await asyncio.gather(*(leg(number) for number in range(20)))
        return [*found, await go.wait()]

    async with app:
        run = await waiting_under(app, new)

        assert await ends_under(app, run, new) == ["new"] * 20 + ["now"]


async def test_one_branch_that_is_past_a_change_keeps_all_on_the_old_way(app: App) -> None:
    async def old_leg(name: str) -> str:
        if name == "slow":
            await go.wait()
        return await say(f"old {name}")

    async def new_leg(name: str) -> str:
        if name == "slow":
            await go.wait()
        return await say(f"new {name}" if onward.patched("legs") else f"old {name}")

    async def old() -> list[str]:
        return list(await asyncio.gather(old_leg("slow"), old_leg("fast")))

    async def new() -> list[str]:
        return list(await asyncio.gather(new_leg("slow"), new_leg("fast")))

    async with app:
        run = await waiting_under(app, old)

        assert await ends_under(app, run, new) == ["old slow", "old fast"]


async def test_a_change_is_answered_in_one_way_however_often_it_is_asked(app: App) -> None:
    async def old() -> list[bool]:
        await say("old")
        await go.wait()
        return []

    async def new() -> list[bool]:
        first = onward.patched("twice")
        await say("old")
        await go.wait()
        return [first, onward.patched("twice"), onward.patched("another")]

    async with app:
        before = await waiting_under(app, old, "before")
        after = await waiting_under(app, new, "after")

        assert await ends_under(app, before, new) == [False, False, True]
        assert await ends_under(app, after, new) == [True, True, True]
        marks = [row.identity for row in await after.history() if row.kind == "patch"]
        assert marks == ["=patch.twice", "=patch.another"]


async def test_a_mark_may_go_when_no_run_is_left_on_the_old_way(
    app: App, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "onward.run")
    async with app:
        run = await waiting_under(app, either_way)

        assert await ends_under(app, run, new_way) == ["new", "now", "later"]
        await check_database(app)
    assert caplog.text == ""


async def test_a_marked_run_parks_under_the_old_code_and_goes_on_under_the_new(app: App) -> None:
    async with app:
        run = await waiting_under(app, either_way)
        async with app.worker(workflows=[deployed(old_way)]):
            await run.signal(go, "now")
            await until_state(run, "paused")

        async with app.worker(workflows=[deployed(either_way)]):
            await app.resume("run")
            assert await run.result(timeout=SECONDS) == ["new", "now", "later"]


# --- pinned to a version --------------------------------------------------------------------------


@workflow
async def leaf() -> str:
    return await go.wait()


@workflow
async def family(again: bool) -> str:
    if again:
        onward.continue_as_new(False)
    await onward.start(leaf)
    return await leaf()


def pinned(app: App, version: str | None) -> App:
    """Return the app as a process with code of another version has it."""
    app._version = version
    return app


async def all_wait(app: App) -> bool:
    return await app.counts() == {"waiting": 3}


async def test_children_and_continued_runs_inherit_the_version(app: App) -> None:
    async with app:
        async with pinned(app, "1").worker(workflows=[family, leaf]):
            run = await app.start(family.options(id="run"), again=True)
            await until(lambda: all_wait(app))
        assert [info.version for info in await app.runs()] == ["1"] * 4
        assert (await run.info()).link == "continued_from"


async def test_a_worker_of_another_version_does_not_take_a_pinned_run(app: App) -> None:
    async with app:
        run = await pinned(app, "1").start(leaf.options(id="run"))
        await run.signal(go, "now")
        async with pinned(app, "2").worker(workflows=[leaf]) as worker:
            await worker.session.claiming.tick()
            assert await run.state() == "ready"
            [unserved] = await app.unserved()
            assert (unserved.run.id, unserved.why) == ("run", "no worker has version '1'")

        async with pinned(app, "1").worker(workflows=[leaf]):
            assert await run.result(timeout=SECONDS) == "now"
            assert await app.unserved() == []


async def test_a_worker_with_a_version_adopts_runs_that_are_not_pinned(app: App) -> None:
    async with app:
        run = await waiting_under(app, old_way)

        assert await ends_under(pinned(app, "2"), run, old_way) == ["old", "now", "later"]


async def test_the_newest_code_adopts_runs_that_are_not_pinned(app: App) -> None:
    async def newest() -> list[str]:
        return [await say("old"), await go.wait(), await say("newest")]

    async with app:
        run = await waiting_under(app, old_way)

        assert await ends_under(app, run, newest) == ["old", "now", "newest"]


async def test_a_pinned_run_that_does_not_fit_is_left_alone_by_other_versions(app: App) -> None:
    async def other() -> list[str]:
        return [await say("other"), await go.wait(), await say("later")]

    async with app:
        run = await waiting_under(pinned(app, "1"), old_way)
        async with app.worker(workflows=[deployed(other)]):
            await run.signal(go, "now")
            await until_state(run, "paused")
        fence = (await app._store.run(run.uid)).fence

        async with pinned(app, "2").worker(workflows=[deployed(old_way)]) as worker:
            await worker.session.claiming.tick()
        assert await run.state() == "paused"
        assert (await app._store.run(run.uid)).fence == fence
