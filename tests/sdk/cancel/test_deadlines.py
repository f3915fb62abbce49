"""Deadlines: counted from the scheduled start, and kept wherever a run is."""

from __future__ import annotations

import asyncio
from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, ParamSpec

import pytest

import onward
from onward import App, Signal, step, workflow
from onward.errors import BadInput, RunCancelled
from onward.model.ends import to_overdue
from tests.kit.deploys import deployed
from tests.kit.watching import ends, until, until_state, working

if TYPE_CHECKING:
    from onward import Run, Workflow

P = ParamSpec("P")

late: Counter[str] = Counter()
never = Signal("never", str)
clear = Signal("clear")


@pytest.fixture(autouse=True)
def _nothing_is_late() -> None:
    late.clear()


@step
async def endless() -> None:
    late["step"] += 1
    try:
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        late["step stopped"] += 1
        raise


@step
async def clear_away() -> None:
    late["cleared"] += 1


@workflow
async def dawdle(how: str) -> None:
    late["begun"] += 1
    try:
        match how:
            case "waiting":
                await never.wait()
            case "asleep":
                await onward.sleep("1h")
            case "in a step":
                await endless()
            case _:
                await dawdling_child()
    finally:
        await clear_away()


async def begun(app: App, asked: Workflow[P, None], *args: P.args, **kwargs: P.kwargs) -> Run[None]:
    """Start a run that begins before its deadline; a busy machine may be too late for the first."""
    while True:
        run = await app.start(asked, *args, **kwargs)

        async def is_decided(run: Run[None] = run) -> bool:
            return late["begun"] > 0 or await run.state() == "timed_out"

        await until(is_decided)
        if late["begun"]:
            return run


@workflow
async def dawdling_child() -> None:
    await endless()


@pytest.mark.parametrize("how", ["waiting", "asleep", "in a step", "in a child"])
async def test_a_deadline_is_a_cancel_with_cleanup(app: App, url: str, how: str) -> None:
    async with working(app):
        run = await begun(app, dawdle.options(deadline="80ms"), how)

        with pytest.raises(RunCancelled, match=r"timed out \(deadline\)"):
            await run.result(timeout="60s")
        await ends(app, url, run, "timed_out", "deadline")
        assert late["cleared"] == 1

        async def is_quiet() -> bool:
            return late["step"] == late["step stopped"]

        await until(is_quiet)
        info = await run.info()
        assert info.deadline is not None
        assert info.finished_at is not None
        assert info.finished_at >= info.deadline
        assert info.deadline - info.created_at == timedelta(milliseconds=80)


async def test_a_worker_without_a_free_slot_keeps_deadlines(app: App, url: str) -> None:
    async with working(app, slots=1):
        run = await app.start(dawdle.options(deadline="80ms"), "in a step")

        with pytest.raises(RunCancelled):
            await run.result(timeout="60s")
        await ends(app, url, run, "timed_out", "deadline")


async def test_a_paused_run_does_not_outlive_its_deadline(app: App, url: str) -> None:
    async with working(app):
        run = await app.start(dawdle.options(deadline="2s"), "waiting")
        await until_state(run, "waiting")
        await app.pause(run.id)
        await until_state(run, "paused")

        with pytest.raises(RunCancelled):
            await run.result(timeout="60s")
        await ends(app, url, run, "timed_out", "deadline")
        assert late["cleared"] == 1


async def test_a_run_without_a_worker_does_not_outlive_its_deadline(app: App, url: str) -> None:
    async with working(app):
        run = await app.start(dawdle.options(queue="unserved", deadline="50ms"), "waiting")

        with pytest.raises(RunCancelled):
            await run.result(timeout="60s")
        await ends(app, url, run, "timed_out", "deadline")
        assert await run.history() == []
        assert (await run.info()).started_at is None


async def test_a_deadline_that_passed_while_all_workers_were_away_is_kept(app: App) -> None:
    async with app:
        run = await app.start(dawdle.options(deadline="1ms"), "waiting")
        async with working(app):
            await until_state(run, "timed_out")
            assert late["cleared"] == 0


async def test_a_delayed_run_has_its_time_from_its_scheduled_start(app: App) -> None:
    async with working(app):
        run = await app.start(quick.options(delay="1s", deadline="10s"))
        info = await run.info()

        assert info.scheduled_at == info.due
        assert info.scheduled_at is not None
        assert info.scheduled_at - info.created_at == timedelta(seconds=1)
        assert info.deadline == info.scheduled_at + timedelta(seconds=10)
        scheduled, deadline = await run.result(timeout="60s")
        assert scheduled == info.scheduled_at.isoformat()
        assert deadline == info.deadline.isoformat()


@workflow
async def quick() -> list[Any]:
    here = onward.current()
    return [here.scheduled_at.isoformat(), here.deadline and here.deadline.isoformat()]


async def test_a_delayed_run_is_not_over_before_it_may_start(app: App) -> None:
    async with working(app):
        run = await app.start(quick.options(delay="600ms", deadline="500ms"))
        result = await run.result(timeout="60s")
        info = await run.info()

        assert info.started_at is not None
        assert info.started_at >= datetime.fromisoformat(result[0])


@workflow
async def slow_to_clear() -> None:
    late["begun"] += 1
    try:
        await never.wait()
    finally:
        late["clearing"] += 1
        await clear.wait()
        await clear_away()


async def test_a_deadline_in_a_cleanup_changes_nothing(app: App, url: str) -> None:
    async with working(app):
        run = await app.start(slow_to_clear)
        await until_state(run, "waiting")
        await run.cancel()

        async def is_clearing() -> bool:
            return late["clearing"] > 0

        await until(is_clearing)
        await app._store.send(to_overdue(run.uid))
        await run.signal(clear)
        with pytest.raises(RunCancelled):
            await run.result(timeout="60s")
        await ends(app, url, run, "cancelled", "operator")
        assert late["cleared"] == 1


async def test_a_cancel_after_the_deadline_does_not_change_why(app: App, url: str) -> None:
    async with working(app):
        run = await begun(app, slow_to_clear.options(deadline="80ms"))

        async def is_clearing() -> bool:
            return late["clearing"] > 0

        await until(is_clearing)
        assert await run.cancel() == "accepted"
        await run.signal(clear)
        with pytest.raises(RunCancelled):
            await run.result(timeout="60s")
        await ends(app, url, run, "timed_out", "deadline")


async def test_a_run_that_is_over_in_time_knows_nothing_of_it(app: App) -> None:
    async with working(app):
        run = await app.start(quick.options(deadline="1s"))
        await run.result(timeout="60s")
        await onward.sleep("1s")

        assert (await run.info()).state == "succeeded"
        assert await run.history() == []


# --- when to start --------------------------------------------------------------------------------


async def test_a_run_starts_at_a_time(app: App) -> None:
    at = datetime.now(UTC) + timedelta(milliseconds=120)
    async with working(app):
        run = await app.start(quick.options(at=at))
        assert (await run.info()).scheduled_at == at
        await run.result(timeout="60s")
        info = await run.info()

        assert info.started_at is not None
        assert info.started_at >= at


async def test_a_time_that_has_passed_is_no_wait(app: App) -> None:
    at = datetime(2001, 2, 3, 4, 5, 6, tzinfo=UTC)
    async with working(app):
        run = await app.start(quick.options(at=at))
        assert (await run.result(timeout="60s"))[0] == at.isoformat()


async def test_a_time_in_another_zone_is_the_same_instant(app: App) -> None:
    from datetime import timezone

    at = datetime(2091, 2, 3, 4, 5, 6, 789, tzinfo=timezone(timedelta(hours=5, minutes=45)))
    async with app:
        run = await app.start(quick.options(at=at))
        assert (await run.info()).due == at


def test_a_time_without_a_zone_is_refused() -> None:
    with pytest.raises(BadInput, match="has no time zone"):
        quick.options(at=datetime(2030, 1, 1))  # noqa: DTZ001 - that is the test


@pytest.mark.parametrize("bad", ["soon", "-1s", "", "1 fortnight"])
def test_a_malformed_duration_is_refused_and_quoted(bad: str) -> None:
    with pytest.raises(ValueError, match=bad or "''"):
        quick.options(delay=bad)
    with pytest.raises(ValueError, match=bad or "''"):
        quick.options(deadline=bad)


# --- where no code fits ---------------------------------------------------------------------------


@step
async def numbered(number: int) -> int:
    return number


async def before_the_change() -> str:
    await numbered(1)
    return await never.wait()


async def after_the_change() -> str:
    await numbered(2)
    return await never.wait()


async def test_a_run_that_no_code_fits_does_not_outlive_its_deadline(app: App, url: str) -> None:
    old, new = (deployed(each, name="changed") for each in (before_the_change, after_the_change))
    async with app:
        async with working(app, workflows=[old]):
            run = await app.start(old.options(deadline="2s"))
            await until_state(run, "waiting")
        async with working(app, workflows=[new]):
            await run.signal("look", "up")
            await until_state(run, "paused", "timed_out")
            await until_state(run, "timed_out")
            await ends(app, url, run, "timed_out", "deadline")


async def test_a_run_that_no_code_fits_is_replaced(app: App) -> None:
    old, new = (deployed(each, name="changed") for each in (before_the_change, after_the_change))
    async with app:
        async with working(app, workflows=[old]):
            run = await app.start(old.options(id="a"))
            await until_state(run, "waiting")
        async with working(app, workflows=[new, quick]):
            await run.signal("look", "up")
            await until_state(run, "paused")

            second = await app.start(quick.options(id="a", on_conflict="replace"))

            assert len(await second.result(timeout="60s")) == 2
