"""What `runs show` and `why` say of runs that are held back, or that code does not fit."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest

from onward import App, Signal, step, workflow
from onward.errors import RunOver, RunPaused
from onward.store import Wanted
from tests.cli.conftest import shortened
from tests.kit.watching import until_state

if TYPE_CHECKING:
    from tests.cli.conftest import Ask

picked = Signal("picked", int)
prices = {"tea": 1}


@step
async def charge(cents: int) -> int:
    return cents


@workflow
async def shopping() -> int:
    return await charge(prices["tea"]) + await picked.wait()


ASKED = "onward --db URL runs fork order-1 --step ':charge#1'"


@pytest.fixture
def held(url: str) -> str:
    """A store with a ready run whose workflow is paused and whose queue is full."""
    with App(url).sync() as app:
        app.start(shopping.options(id="order-1"))
        app.queues.pause(workflow=shopping.name)
        app.queues.limit("default", 0)
    return url


def test_a_run_that_is_held_back_is_shown_with_reasons_and_the_next_command(
    held: str, ask: Ask
) -> None:
    out = shortened(ask("runs", "show", "order-1", "--db", held).out)
    why = ask("why", "order-1", "--db", held, "--json").things
    reasons = [each["text"] for each in why if each["kind"] in ("paused", "limit")]
    assert reasons == [
        "queue 'default' has 0 running runs, and the limit is 0",
        "workflow 'shopping' is paused",
    ]
    assert all(reason in out for reason in reasons)
    assert (
        "\nNext: Wait until a run ends, or raise the limit: "
        "onward --db URL queues limit default MAX\n"
    ) in out
    shown = ask("runs", "show", "order-1", "--db", held, "--json").thing["held_back"]
    assert [each["text"] for each in shown] == reasons


async def diverge(url: str) -> None:
    """Leave a run behind whose code passes other arguments than before."""
    app = App(url)
    async with app:
        async with app.worker(workflows=[shopping]):
            run = await app.start(shopping.options(id="order-1"))
            await until_state(run, "waiting")
        prices["tea"] = 2
        async with app.worker(workflows=[shopping]):
            await run.signal(picked, 5)
            await until_state(run, "paused")


@pytest.fixture
def diverged(url: str) -> str:
    prices["tea"] = 1
    asyncio.run(diverge(url))
    return url


def test_a_run_that_code_does_not_fit_is_shown_with_a_fork_that_helps(
    diverged: str, ask: Ask
) -> None:
    shown = shortened(ask("runs", "show", "order-1", "--db", diverged).out)
    assert shown.endswith(f"\nNext: Deploy code that matches the history, or: {ASKED}\n")
    assert ask("runs", "fork", "order-1", "--step", ":charge#1", "--db", diverged).status == 0
    with App(diverged).sync() as app, app.worker(workflows=[shopping]):
        with suppress(RunOver):  # the signal from before may have been enough
            app.signal("order-1", picked, 5)
        assert app.get("order-1").result(timeout="60s") == 7


def test_why_prints_the_difference_line_by_line(diverged: str, ask: Ask) -> None:
    out = shortened(ask("why", "order-1", "--db", diverged).out)
    assert "\\n" not in out
    assert "\n    - recorded: step 'charge' at :charge#1" in out
    assert f"\n  Next: Deploy code that matches the history, or: {ASKED}\n" in out


def test_doctor_knows_that_a_fork_helps_too(diverged: str, ask: Ask) -> None:
    out = ask("doctor", "--db", diverged).out
    assert "1 run paused because the code does not match the history: order-1.\n" in out
    assert "a fork can leave out the calls that differ" in out


def test_a_timeout_has_the_first_line_of_a_difference(diverged: str) -> None:
    with App(diverged).sync() as app, pytest.raises(TimeoutError) as late:
        app.get("order-1").result(timeout="10ms")
    assert "with different arguments" in str(late.value)
    assert "\n" not in str(late.value)


def test_a_signal_that_does_not_fit_is_shown_with_the_fork_that_replaces_it(
    url: str, ask: Ask
) -> None:
    with App(url).sync() as app, app.worker(workflows=[shopping]):
        run = app.start(shopping.options(id="order-1"))
        app.signal("order-1", "picked", "two")
        with pytest.raises(RunPaused):
            run.result(timeout="60s", raise_paused=True)
    move = "Next: onward --db URL runs fork order-1 --step ':picked#1' --result JSON\n"
    assert f"\n{move}" in shortened(ask("runs", "show", "order-1", "--db", url).out)
    assert f"  {move}" in shortened(ask("why", "order-1", "--db", url).out)


def test_many_runs_of_a_finding_are_named_in_part_and_in_the_plural(url: str, ask: Ask) -> None:
    with App(url).sync() as app:
        for number in range(6):
            app.start(shopping.options(id=f"order-{number}"))
    out = ask("doctor", "--db", url).out
    assert "unserved: 6 runs that no live worker can take: order-0, " in out
    assert " and others.\n  They cannot continue: no worker serves queue 'default'.\n" in out


async def abandon(url: str, count: int) -> None:
    """Leave runs to a worker that does not renew its lease."""
    async with App(url) as app:
        for number in range(count):
            await app.start(shopping.options(id=f"order-{number}"))
        await app._store.take_lease("w-gone", 1)
        await app._store.claim(Wanted("w-gone", ("default",), (shopping.name,), count))


def test_the_runs_of_a_dead_worker_are_counted_beside_their_reason(url: str, ask: Ask) -> None:
    asyncio.run(abandon(url, 2))
    out = ask("doctor", "--db", url).out
    assert "  They cannot continue: 2 runs: their worker w-gone has not renewed " in out
    assert out.count("w-gone has not renewed its lease since ") == 1


def test_a_single_run_of_a_dead_worker_is_spoken_of_in_the_singular(url: str, ask: Ask) -> None:
    asyncio.run(abandon(url, 1))
    out = shortened(ask("doctor", "--db", url).out)
    assert "  It cannot continue: its worker w-gone has not renewed its lease since " in out
    assert "  Next: Start a worker that takes it. For details: onward --db URL why order-0\n" in out
