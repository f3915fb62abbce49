"""Schedules through the public API: they start runs, and operators change them."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

import onward
from onward import App, Schedule, step, workflow
from onward.errors import BadInput, NotFound, NotInBody
from onward.schedules import schedule
from onward.sdk import schedule as schedule_module
from tests.kit.virtual_time import in_virtual_time

if TYPE_CHECKING:
    from onward.testing.clock import VirtualClock


@workflow
async def report(region: str = "EU") -> str:
    return f"{region} {onward.current().scheduled_at:%m-%d %H:%M}"


@workflow
async def nap(length: str = "90m") -> None:
    await onward.sleep(length)


@workflow(queue="slow")
async def crawl() -> None: ...


async def run_ids(app: App) -> list[str]:
    return sorted(info.id for info in await app.runs())


def test_a_year_of_months_starts_twelve_runs_at_their_times() -> None:
    noted: list[str] = []

    @step
    async def note(text: str) -> None:
        noted.append(text)

    @workflow
    async def bill(region: str) -> None:
        await note(f"{region} {onward.current().scheduled_at:%m-%d %H:%M}")

    async def scene(app: App, clock: VirtualClock) -> None:
        monthly = Schedule("monthly", bill, ["US"], cron="0 6 1 * *", zone="America/New_York")
        async with app.worker(schedules=[monthly]):
            await clock.sleep("365d")
            slots = await app.schedules.slots("monthly")
        assert [slot.disposition for slot in slots] == ["started"] * 12
        assert max(slot.lateness for slot in slots) < timedelta(seconds=1)

    in_virtual_time(scene)

    assert len(noted) == 12
    assert (noted[0], noted[6], noted[-1]) == ("US 01-01 11:00", "US 07-01 10:00", "US 12-01 11:00")


def test_a_worker_that_sleeps_wakes_for_a_schedule_that_is_created_meanwhile() -> None:
    async def scene(app: App, clock: VirtualClock) -> list[str]:
        async with app.worker(queues=["other"]), app.worker():
            await clock.sleep("1d")
            await app.schedules.create("often", report, every="1h")
            await clock.sleep("3h1m")
        return await run_ids(app)

    assert in_virtual_time(scene) == [f"often@2026-01-02T0{hour}:00+00:00" for hour in (1, 2, 3)]


@pytest.mark.parametrize(
    ("overlap", "dispositions"),
    [
        ("skip", ["started", "overlapped", "started", "overlapped"]),
        ("allow", ["started", "started", "started", "started"]),
        ("coalesce", ["started", "started", "coalesced", "started"]),
        ("replace", ["started", "started", "started", "started"]),
    ],
)
def test_an_overlap_rule_holds_for_runs_that_take_longer(
    overlap: str, dispositions: list[str]
) -> None:
    async def scene(app: App, clock: VirtualClock) -> tuple[list[str], int]:
        naps = Schedule("naps", nap, cron="0 * * * *", overlap=overlap)
        async with app.worker(schedules=[naps]):
            most = 0
            for _ in range(2 * 5):
                await clock.sleep("30m")
                await clock.sleep("2s")
                most = max(most, (await app.schedules.get("naps")).open_runs)
            slots = await app.schedules.slots("naps")
        return [slot.disposition for slot in reversed(slots)][:4], most

    found, most = in_virtual_time(scene)

    assert found == dispositions
    assert most == (2 if overlap == "allow" else 1)


def test_a_run_that_continues_as_new_stays_open() -> None:
    times = set()

    @workflow
    async def forever() -> None:
        times.add(onward.current().scheduled_at.hour)
        await onward.sleep("40m")
        onward.continue_as_new()

    async def scene(app: App, clock: VirtualClock) -> list[str]:
        one = Schedule("one", forever, every="1h")
        async with app.worker(schedules=[one]):
            await clock.sleep("4h30m")
            slots = await app.schedules.slots("one")
        return [slot.disposition for slot in reversed(slots)]

    assert in_virtual_time(scene) == ["started", "overlapped", "overlapped", "overlapped"]
    assert times == {1}  # it does the work of that slot


def test_the_options_of_the_workflow_are_those_of_its_runs() -> None:
    async def scene(app: App, clock: VirtualClock) -> tuple[str, int, bool]:
        urgent = crawl.options(priority=5, deadline="1h")
        await app.schedules.create("crawls", urgent, every="1h")
        run = await app.schedules.trigger("crawls")
        info = await run.info()
        return info.queue, info.priority, info.deadline is not None

    assert in_virtual_time(scene) == ("slow", 5, True)


@pytest.mark.parametrize("how", ["created", "declared", "updated"])
def test_limits_of_the_options_hold_for_its_runs(how: str) -> None:
    async def scene(app: App, clock: VirtualClock) -> list[int | None]:
        one = nap.options(key="bed", limit=1)
        if how == "created":
            await app.schedules.create("naps", one, every="1m", overlap="allow")
        elif how == "updated":
            await app.schedules.create("naps", report, every="1m", overlap="allow")
            await app.schedules.update("naps", workflow=one, args=["10m"])
        declared = [Schedule("naps", one, every="1m", overlap="allow")] if how == "declared" else []
        async with app.worker(schedules=declared):
            await clock.sleep("1s")
            return [each.limit for each in await app.queues.list() if each.name == "bed"]

    assert in_virtual_time(scene) == [1]


def test_slots_that_passed_while_the_clock_was_set_forward_are_caught_up() -> None:
    async def scene(app: App, clock: VirtualClock) -> list[str]:
        hourly = Schedule("hourly", report, cron="0 * * * *")
        async with app.worker(schedules=[hourly]):
            await clock.sleep("90m")
            clock.jump(5 * 3600 * 1_000_000)
            await clock.sleep("2h")
            slots = await app.schedules.slots("hourly")
        assert len({slot.at for slot in slots}) == len(slots) == 8
        return [slot.disposition for slot in reversed(slots)]

    found = in_virtual_time(scene)

    assert found.count("missed") == 4
    assert found[0] == found[-1] == "started"


def test_the_clock_of_the_machine_that_is_set_back_doubles_no_run() -> None:
    async def scene(app: App, clock: VirtualClock) -> list[str]:
        hourly = Schedule("hourly", report, cron="0 * * * *", overlap="allow")
        async with app.worker(schedules=[hourly]):
            await clock.sleep("150m")
            clock.set_back(2 * 3600 * 1_000_000)
            await clock.sleep("10h")
            slots = await app.schedules.slots("hourly")
        ids = [slot.run for slot in slots if slot.run]
        assert sorted(ids) == await run_ids(app)
        return ids

    ids = in_virtual_time(scene)

    assert len(set(ids)) == len(ids) >= 7


# --- declared in code -----------------------------------------------------------------------------


def test_a_schedule_is_listed_as_no_longer_declared() -> None:
    async def scene(app: App, clock: VirtualClock) -> list[bool]:
        async def is_missing() -> bool:
            return (await app.schedules.get("old")).is_missing_in_code

        async with app.worker(schedules=[Schedule("old", report, every="1h")]):
            found = [await is_missing()]
        found.append(await is_missing())  # without workers nothing is known
        async with app.worker(schedules=[]):
            found.append(await is_missing())
        return found

    assert in_virtual_time(scene) == [False, False, True]


def test_a_pause_survives_a_deploy_that_changes_the_schedule() -> None:
    async def scene(app: App, clock: VirtualClock) -> tuple[str, str | None]:
        async with app.worker(schedules=[Schedule("s", report, cron="@daily")]):
            await app.schedules.pause("s")
        async with app.worker(schedules=[Schedule("s", report, cron="@hourly")]):
            await clock.sleep("1d")
            info = await app.schedules.get("s")
            assert await app.runs() == []
        return info.state, info.cron

    assert in_virtual_time(scene) == ("paused", "@hourly")


def test_a_decorated_workflow_is_scheduled_by_workers_that_serve_it() -> None:
    @schedule(every="1h", args=["CH"])
    @workflow
    async def decorated(region: str) -> None: ...

    async def scene(app: App, clock: VirtualClock) -> list[str]:
        async with app.worker(workflows=[report]):
            assert await app.schedules.list() == []
        async with app.worker(workflows=[decorated]):
            return [info.name for info in await app.schedules.list()]

    try:
        assert in_virtual_time(scene) == ["decorated"]
    finally:
        schedule_module.declared.clear()


async def test_two_declarations_of_one_name_are_refused(memory: App) -> None:
    twice = [Schedule("s", report, every="1h"), Schedule("s", nap, every="2h")]

    with pytest.raises(BadInput, match="declared twice"):
        async with memory, memory.worker(schedules=twice):
            pass


async def test_a_declaration_that_cannot_be_done_stops_the_worker(memory: App) -> None:
    with pytest.raises(BadInput, match="cron"):
        async with memory, memory.worker(schedules=[Schedule("s", report, cron="nonsense")]):
            pass


# --- what is refused ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"cron": "0 25 * * *"}, "bad hour"),
        ({"every": "1h", "zone": "Nowhere"}, "zone 'Nowhere' is not a time zone"),
        ({"every": "1h", "overlap": "queue"}, "overlap='queue' is not one of allow, skip"),
        ({"every": "1h", "catch_up": "some"}, "catch_up='some' is not one of skip, latest"),
        ({"every": 0}, "shorter than a second"),
        ({"every": "1h", "args": ["a", "b"]}, "cannot call its workflow"),
        ({"every": "1h", "args": "EU"}, r"Write args=\['EU'\]"),
        ({}, "neither cron= nor every="),
    ],
)
async def test_a_schedule_that_cannot_be_done_is_not_created(
    given: dict[str, object], said: str, memory: App
) -> None:
    async with memory:
        with pytest.raises(BadInput, match=said):
            await memory.schedules.create("s", report, **given)  # type: ignore[arg-type]
        assert await memory.schedules.list() == []


async def test_options_of_one_run_alone_are_refused(memory: App) -> None:
    async with memory:
        for options in ({"id": "x"}, {"delay": "1h"}):
            chosen = report.options(**options)  # type: ignore[arg-type]
            with pytest.raises(BadInput, match="valid for a single run only"):
                await memory.schedules.create("s", chosen, every="1h")


async def test_arguments_of_an_unknown_workflow_are_given_by_name(memory: App) -> None:
    async with memory:
        with pytest.raises(BadInput, match="by name"):
            await memory.schedules.create("s", "elsewhere", ["EU"], every="1h")
        info = await memory.schedules.create("s", "elsewhere", kwargs={"n": 1}, every="1h")
    assert (info.workflow, info.arguments) == ("elsewhere", {"n": 1})


async def test_an_unknown_field_is_refused(memory: App) -> None:
    async with memory:
        await memory.schedules.create("s", report, every="1h")
        with pytest.raises(BadInput, match="field 'crom' is unknown"):
            await memory.schedules.update("s", crom="@daily")
        with pytest.raises(BadInput, match="Pass workflow= as well"):
            await memory.schedules.update("s", args=["US"])


async def test_a_schedule_that_is_not_there_is_not_found(memory: App) -> None:
    async with memory:
        for call in (memory.schedules.get, memory.schedules.pause, memory.schedules.trigger):
            with pytest.raises(NotFound, match="nope"):
                await call("nope")


async def test_a_body_may_not_change_schedules(memory: App) -> None:
    @workflow
    async def meddles() -> str:
        try:
            await memory.schedules.list()
        except NotInBody as error:
            return str(error)
        return "allowed"

    async with memory, memory.worker(workflows=[meddles]):
        assert "app.schedules" in await memory.run(meddles)


# --- through the database -------------------------------------------------------------------------


async def test_every_field_can_be_changed(app: App) -> None:
    async with app:
        await app.schedules.create("s", report, every="1h")
        await app.schedules.update("s", cron="0 3 * * *", zone="Asia/Tokyo", jitter="5m")
        info = await app.schedules.update(
            "s", workflow=crawl, overlap="replace", catch_up="all", max_catch_up=7
        )
    assert (info.cron, info.every, info.zone, info.jitter) == (
        *("0 3 * * *", None, "Asia/Tokyo"),
        timedelta(minutes=5),
    )
    assert (info.workflow, info.queue, info.arguments) == ("crawl", "slow", {})
    assert (info.overlap, info.catch_up, info.max_catch_up) == ("replace", "all", 7)


async def test_a_trigger_returns_a_handle_with_the_result(app: App) -> None:
    async with app, app.worker(workflows=[report]):
        await app.schedules.create("s", report, ["JP"], cron="@daily")
        run = await app.schedules.trigger("s")
        assert (await run.result(timeout="30s")).startswith("JP ")
        [slot] = await app.schedules.slots("s")
    assert (slot.run, slot.disposition) == (run.id, "triggered")


async def test_a_backfill_starts_runs_for_the_time_before_the_schedule(app: App) -> None:
    begin, end = datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 1, 5, tzinfo=UTC)
    async with app, app.worker(workflows=[report]):
        await app.schedules.create("s", report, cron="0 * * * *", overlap="skip")
        planned = await app.schedules.backfill("s", begin, end, dry_run=True)
        assert await app.runs() == []
        done = await app.schedules.backfill("s", begin, end)
        assert planned[0].run == done[0].run == "s@2026-01-01T00:00+00:00"
        results = [await (await app.get(slot.run or "")).result(timeout="30s") for slot in done]
    assert results == [f"EU 01-01 0{hour}:00" for hour in range(5)]


def test_the_sync_client_has_schedules(url: str) -> None:
    with App(url).sync() as app, app.worker(workflows=[report]):
        app.schedules.create("s", report, cron="@daily", zone="Europe/Berlin")
        assert [info.name for info in app.schedules.list()] == ["s"]
        [first, *_] = app.schedules.preview("s", 2)
        assert (first.hour, str(first.tzinfo)) == (0, "Europe/Berlin")
        assert app.schedules.trigger("s").result(timeout="30s").startswith("EU ")
        assert [slot.disposition for slot in app.schedules.slots("s")] == ["triggered"]
        app.schedules.delete("s")


async def test_a_worker_fires_on_time_on_a_real_clock(app: App) -> None:
    fired = asyncio.Event()

    @step
    async def note() -> None:
        fired.set()

    @workflow
    async def tick() -> None:
        await note()

    async with app, app.worker(workflows=[tick]):
        await app.schedules.create("s", tick, cron="* * * * * *", catch_up="all")
        await asyncio.wait_for(fired.wait(), 30)
        slots = await app.schedules.slots("s")
    assert {slot.disposition for slot in slots} <= {"started", "overlapped"}
    assert all(slot.lateness < timedelta(seconds=5) for slot in slots)
