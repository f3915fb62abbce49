"""`onward clock`: what it shows, and what a reset does."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

import onward
from onward import App, workflow
from onward.core.clock_steps import SeenStep
from onward.core.instant import DAY, HOUR
from onward.store import open_store
from onward.store.runs.clock_steps import record_step
from onward.system.clock import SystemClock
from tests.conformance.suite.samples import a_run

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cli.conftest import Ask


class Ahead(SystemClock):
    """A clock that is a day ahead."""

    def wall(self) -> int:
        return super().wall() + DAY


@pytest.fixture
def ahead(tmp_path: Path) -> str:
    """A file that was written to while the machine's clock was a day ahead."""
    path = str(tmp_path / "ahead.db")

    async def write() -> None:
        async with open_store(path, clock=Ahead()) as store:
            await store.start(a_run("a")._replace(delay_in=HOUR))

    asyncio.run(write())
    return path


@pytest.fixture
def slept(tmp_path: Path) -> str:
    """A file in which a run began to sleep while the machine's clock was a day ahead."""
    path = str(tmp_path / "slept.db")

    async def sleep() -> None:
        async with App(path, clock=Ahead()) as app, app.worker(workflows=[naps]):
            run = await app.start(naps.options(id="nap"))
            async with asyncio.timeout(30):
                while await run.state() != "waiting":  # noqa: ASYNC110 - the worker tells nobody
                    await asyncio.sleep(0.01)

    asyncio.run(sleep())
    return path


@workflow
async def naps() -> str:
    await onward.sleep("2s")
    return "awake"


def kept(path: str) -> int:
    with closing(sqlite3.connect(path)) as connection:
        [[value]] = connection.execute("SELECT value FROM onward_meta WHERE name = 'time'")
        return int(value)


def test_clocks_that_agree_are_shown_so(shop: str, ask: Ask) -> None:
    answer = ask("clock", "--db", shop)

    assert answer.status == 0
    assert [line.split()[0] for line in answer.out.splitlines()] == [
        "store", "machine", "difference",
    ]  # fmt: skip
    assert answer.out.splitlines()[-1].split() == ["difference", "none"]


def test_a_store_that_is_ahead_is_shown_with_the_timers_that_were_set_meanwhile(
    ahead: str, ask: Ask
) -> None:
    shown = ask("clock", "--db", ahead).out
    assert "ahead of this machine" in shown
    assert "1 set while the store's time was ahead" in shown

    facts = json.loads(ask("clock", "--db", ahead, "--json").out)
    assert facts.keys() == {"store", "machine", "ahead_seconds", "timers", "added_seconds"}
    assert (round(facts["ahead_seconds"] / 60), facts["timers"]) == (24 * 60, 1)


def test_a_reset_sets_the_store_to_the_machines_clock_and_says_what_follows(
    ahead: str, ask: Ask
) -> None:
    answer = ask("clock", "--reset", "--db", ahead)

    assert answer.status == 0
    assert "The store's time was set back by" in answer.out
    assert "Timers keep their due times; 1 of them" in answer.out
    assert kept(ahead) <= SystemClock().wall()
    assert "none" in ask("clock", "--db", ahead).out
    assert ask("clock", "--reset", "--db", ahead).out.startswith("Nothing was reset")


def test_a_reset_tells_programs_what_it_did(ahead: str, ask: Ask) -> None:
    first = json.loads(ask("clock", "--reset", "--json", "--db", ahead).out)
    second = json.loads(ask("clock", "--reset", "--json", "--db", ahead).out)

    assert (first["reset"], second["reset"]) == (True, False)


def test_the_clock_of_a_postgres_server_is_shown_and_cannot_be_reset(
    postgres_url: str, ask: Ask
) -> None:
    async def make() -> None:
        async with open_store(postgres_url):
            pass

    asyncio.run(make())
    assert ask("clock", "--db", postgres_url).status == 0

    answer = ask("clock", "--reset", "--db", postgres_url)

    assert answer.status == 2
    assert "gets the time from the clock of the Postgres server" in answer.err


def test_a_delayed_start_counts_from_now_when_told_to(ahead: str, ask: Ask) -> None:
    answer = ask("clock", "--reset", "--retime", "--db", ahead)

    assert answer.out == "The waits of 1 run start over now: a\n"
    assert json.loads(ask("clock", "--json", "--db", ahead).out)["timers"] == 0


def test_waits_that_were_set_while_the_time_was_ahead_count_from_now_when_told_to(
    slept: str, ask: Ask
) -> None:
    answer = ask("clock", "--reset", "--retime", "--db", slept)
    again = ask("clock", "--retime", "--json", "--db", slept)

    async def awake() -> str:
        async with App(slept) as app, app.worker(workflows=[naps]):
            return str(await (await app.get("nap")).result(timeout="30s"))

    assert answer.out == "The waits of 1 run start over now: nap\n"
    assert json.loads(again.out) == {"retimed": []}
    assert asyncio.run(awake()) == "awake"


def test_waits_that_a_step_made_longer_are_shown_and_end_when_they_were_first_due(
    tmp_path: Path, ask: Ask
) -> None:
    path = str(tmp_path / "stepped.db")

    async def step() -> None:
        async with open_store(path) as store:
            await store.take_lease("w", HOUR)
            await store.start(a_run("a")._replace(delay_in=HOUR))
            now = await store.now()
            seen = SeenStep(now, now + DAY, DAY)
            await store.write(lambda tx: record_step(tx, "w", 0, seen))

    async def due() -> int | None:
        async with open_store(path) as store:
            return (await store.run("uid-a")).due

    asyncio.run(step())
    longer = asyncio.run(due())
    shown = ask("clock", "--db", path).out
    answer = ask("clock", "--accept", "--db", path)
    again = ask("clock", "--accept", "--json", "--db", path)

    assert "extended by 1d, because the clock was set forward" in shown
    assert answer.out == "Waits that were extended by 1d now end when they were originally due.\n"
    assert json.loads(again.out) == {"accepted_seconds": 0}
    assert longer is not None
    assert asyncio.run(due()) == longer - DAY
