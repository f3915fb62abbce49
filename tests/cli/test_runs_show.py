"""`onward runs show`: what a run waits for, what it has not read, and why it stands still."""

from __future__ import annotations

import asyncio
import re
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

import onward
from onward import App, Fatal, NotApplied, Retry, Signal, effect, register_error, step, workflow
from onward.core.instant import HOUR, MINUTE
from onward.errors import RunFailed
from onward.store import Wanted
from tests.cli.conftest import shortened
from tests.cli.test_doctor import execute
from tests.kit.watching import until

if TYPE_CHECKING:
    from tests.cli.conftest import Ask

approval = Signal("approval", bool)


@register_error
class OutOfPaper(Exception):
    """An error that comes back as itself."""


@step(queue="elsewhere")
async def render(page: int) -> int:
    return page


@step(retry=Retry(attempts=2, delay="1h", max_delay="1h"))
async def knock() -> None:
    raise ConnectionError("nobody is in")


@step
async def tear() -> None:
    raise Fatal("it tore")


@workflow
async def ask() -> bool:
    onward.current().attributes["colour"] = "blue"
    return await approval.wait(timeout="7d")


@workflow
async def book() -> None:
    await asyncio.gather(
        render(1), ask.options(id="inner")(), approval.wait(), onward.sleep("3d"), knock()
    )


@workflow
async def print_out(*, is_registered: bool) -> None:
    if is_registered:
        raise OutOfPaper("the tray is empty")
    await tear()


@workflow
async def print_all(*, is_registered: bool) -> None:
    await print_out.options(id="page")(is_registered=is_registered)


@workflow
async def hear_of_a_stop() -> str:
    try:
        await ask.options(id="stopped")()
    except onward.errors.RunCancelled:
        return "it was stopped"
    return "it was not"


ALL: list[Any] = [book, ask, print_out, print_all, hear_of_a_stop]


async def leave_behind(url: str) -> None:
    """Leave a run behind with five open calls, one of them a child that waits, too."""
    app = App(url)
    async with app, app.worker(workflows=ALL):
        run = await app.start(book.options(id="book-1"))

        async def is_there() -> bool:
            if len([row for row in await run.history() if row.seq is None]) < 5:
                return False
            return {await run.state(), await (await app.get("inner")).state()} == {"waiting"}

        await until(is_there, 10)


@pytest.fixture
def db(url: str) -> str:
    """A database in which a run waits for one of each."""
    asyncio.run(leave_behind(url))
    return url


def test_a_run_says_what_it_waits_for_and_until_when(db: str, ask: Ask) -> None:
    waits = ask("runs", "show", "book-1", "--db", db, "--json").thing["waits_for"]
    by_kind = {(wait["kind"], wait["name"]): wait for wait in waits}
    assert set(by_kind) == {
        ("step", "render"), ("child", "ask"), ("signal", "approval"), ("timer", "sleep"),
        ("step", "knock"),
    }  # fmt: skip
    inner = ask("runs", "show", "inner", "--db", db, "--json").thing
    assert by_kind["child", "ask"]["run"] == inner["uid"]
    [routed] = ask("runs", "list", "--db", db, "--all", "--queue", "elsewhere", "--json").things
    assert by_kind["step", "render"]["run"] == routed["uid"]
    assert by_kind["signal", "approval"]["until"] is None
    assert by_kind["timer", "sleep"]["until"] is not None
    assert all(wait["since"] is not None for wait in waits)


def test_people_are_told_what_it_waits_for(db: str, ask: Ask) -> None:
    out = ask("runs", "show", "book-1", "--db", db).out
    assert "signal approval, since 2" in out
    assert "timer, since 2" in out
    assert "step knock, since 2" in out
    assert ", tried again at 2" in out
    inner = ask("runs", "show", "inner", "--db", db).out
    assert "waits for   signal approval, since 2" in inner
    assert ", until 2" in inner


def test_signals_that_nobody_has_read_are_shown(db: str, ask: Ask) -> None:
    for name in ("approval", "complaint"):
        ask("runs", "signal", "inner", name, "true", "--db", db)
    signals = ask("runs", "show", "inner", "--db", db, "--json").thing["unread_signals"]
    assert [signal["name"] for signal in signals] == ["approval", "complaint"]
    with App(db).sync() as app, app.worker(workflows=ALL):
        assert app.get("inner").result(timeout="60s") is True
    [left] = ask("runs", "show", "inner", "--db", db, "--json").thing["unread_signals"]
    assert left["name"] == "complaint"
    assert "not read    signal complaint, sent 2" in ask("runs", "show", "inner", "--db", db).out


def test_a_run_that_nobody_can_take_says_why(db: str, ask: Ask) -> None:
    [routed] = ask("runs", "list", "--db", db, "--all", "--queue", "elsewhere", "--json").things
    out = ask("runs", "show", routed["id"], "--db", db).out
    assert re.search(r"^step +render$", out, re.MULTILINE)
    assert re.search(r"^blocked +no worker serves queue 'elsewhere'$", out, re.MULTILINE)
    assert "blocked" not in ask("runs", "show", "book-1", "--db", db).out


async def abandon(url: str, *ids: str, lease: int = 1) -> None:
    """Leave runs to a worker that does not renew its lease."""
    async with App(url) as app:
        for run_id in ids:
            await app.start(book.options(id=run_id))
        await app._store.take_lease("w-gone", lease)
        await app._store.claim(Wanted("w-gone", ("default",), (book.name,), len(ids)))


def test_a_run_of_a_dead_worker_is_shown_with_the_last_renewal(url: str, ask: Ask) -> None:
    asyncio.run(abandon(url, "left"))
    out = ask("runs", "show", "left", "--db", url).out
    assert re.search(r"^worker +w-gone, renewed its lease at 2\S+ \S+$", out, re.MULTILINE)
    why = r"its worker w-gone has not renewed its lease since .*, and no worker serves queue '\w+'"
    assert re.search(rf"^blocked +{why}$", out, re.MULTILINE)
    assert re.search(rf"running \({why}\)", ask("runs", "list", "--db", url).out)


def test_a_worker_that_is_late_to_renew_its_lease_is_named(url: str, ask: Ask) -> None:
    asyncio.run(abandon(url, "left", lease=2 * HOUR))
    assert "Nothing is blocking it." in ask("why", "left", "--db", url).out
    earlier = f"UPDATE onward_lease SET renewed_at = renewed_at - {61 * MINUTE}"
    asyncio.run(execute(url, earlier))
    out = ask("why", "left", "--db", url).out
    assert "- lease: its worker w-gone last renewed its lease 1h1m" in out
    assert "its lease of 2h will expire" in out


def test_what_is_over_waits_for_nothing(db: str, ask: Ask) -> None:
    ask("runs", "cancel", "book-1", "--force", "--db", db)
    one = ask("runs", "show", "book-1", "--db", db, "--json").thing
    assert (one["state"], one["waits_for"], one["blocked"]) == ("cancelled", [], None)


def test_notes_are_no_calls_to_people(db: str, ask: Ask) -> None:
    out = ask("runs", "show", "inner", "--db", db).out
    assert 'attributes  {"colour": "blue"}\n' in out
    assert "note" not in out


@pytest.mark.parametrize("is_registered", [True, False])
def test_the_error_of_a_parent_leads_to_the_child(is_registered: bool, url: str, ask: Ask) -> None:
    with App(url).sync() as app, app.worker(workflows=ALL):
        run = app.start(print_all.options(id="all"), is_registered=is_registered)
        with pytest.raises((OutOfPaper, RunFailed)):
            run.result(timeout="60s")
    out = ask("runs", "show", "all", "--db", url).out
    assert "onward runs show page\n" in out
    assert "onward.errors.RunFailed" not in out


@step(retry=Retry(attempts=1))
async def price(sku: str) -> int:
    try:
        return {"tea": 1}[sku]
    except KeyError as error:
        raise ValueError(f"no price for {sku}") from error


@workflow
async def buy(sku: str) -> int:
    async with asyncio.TaskGroup() as group:
        prices = [group.create_task(price(each)) for each in ("tea", sku)]
    return sum(each.result() for each in prices)


@workflow
async def order(sku: str) -> int:
    return await price(sku)


SOURCE = 'raise ValueError(f"no price for {sku}") from error'


def test_a_failed_run_is_shown_with_line_traceback_and_causes(url: str, ask: Ask) -> None:
    with App(url).sync() as app, app.worker(workflows=[order]), pytest.raises(RunFailed):
        app.run(order.options(id="order-1"), "cup")
    out = ask("runs", "show", "order-1", "--db", url).out
    assert re.search(r"^error +ValueError: no price for cup$", out, re.MULTILINE)
    assert re.search(rf"^raised at +{re.escape(__file__)}:\d+ in price\n +raise", out, re.MULTILINE)
    told = out[out.index("\n    Traceback") :]
    assert told.index("KeyError: 'cup'") < told.index("direct cause") < told.index("in order")
    assert told.index("return await price(sku)") < told.index(SOURCE)
    assert told.partition("\n\nNext:")[0].endswith("\n    ValueError: no price for cup")
    assert "onward/runtime" not in told


def test_a_line_of_a_message_cannot_pass_for_one_of_the_report(url: str, ask: Ask) -> None:
    with App(url).sync() as app, app.worker(workflows=[order]), pytest.raises(RunFailed):
        app.run(order.options(id="order-1"), "cup\nstate  succeeded")
    lines = ask("runs", "show", "order-1", "--db", url).out.splitlines()
    assert "    state  succeeded" in lines
    assert "state  succeeded" not in lines


def test_programs_get_line_traceback_and_causes(url: str, ask: Ask) -> None:
    with App(url).sync() as app, app.worker(workflows=[buy]), pytest.raises(RunFailed):
        app.run(buy.options(id="buy-1"), "cup")
    shown = ask("runs", "show", "buy-1", "--db", url, "--json").thing
    failure = shown["failure"]
    assert shown["error"] == failure["text"] == "ValueError: no price for cup"
    assert failure["source"] == SOURCE
    assert failure["where"].startswith(f"{__file__}:")
    [member] = failure["causes"]
    assert (member["type"], member["causes"][0]["text"]) == ("ValueError", "KeyError: 'cup'")
    assert SOURCE in shown["traceback"]
    failed = [event["failure"] for event in shown["history"] if event["state"] == "failed"]
    assert [each["source"] for each in failed] == [SOURCE]


def test_a_run_that_waits_for_its_next_attempt_shows_the_last_error(db: str, ask: Ask) -> None:
    out = ask("runs", "show", "book-1", "--db", db).out
    assert re.search(r"^raised at +.* in knock$", out, re.MULTILINE)
    assert out.endswith("ConnectionError: nobody is in\n")


def test_a_run_whose_child_was_stopped_is_shown(url: str, ask: Ask) -> None:
    with App(url).sync() as app, app.worker(workflows=ALL):
        run = app.start(hear_of_a_stop.options(id="parent"))
        asyncio.run(_until_there(url))
        app.cancel("stopped", force=True)
        assert run.result(timeout="60s") == "it was stopped"
    answer = ask("runs", "show", "parent", "--db", url, "--json")
    assert [record["state"] for record in answer.thing["history"]] == ["cancelled"]


async def _until_there(url: str) -> None:
    async with App(url) as app:
        await until(partial(_is_there, app), 10)


async def _is_there(app: App) -> bool:
    return [info.id for info in await app.runs(name="ask")] == ["stopped"]


refusals: list[str] = []


@effect(retry=Retry(attempts=3, delay="1ms"))
async def order_tea(grams: int) -> str:
    if refusals:
        raise NotApplied(refusals.pop())
    return "ordered"


@workflow
async def tea() -> str:
    return await order_tea(50)


def test_an_effect_has_its_arguments_and_how_often_it_was_sent(url: str, ask: Ask) -> None:
    refusals[:] = ["closed"]
    with App(url).sync() as app, app.worker(workflows=[tea]):
        app.run(tea.options(id="tea"))
    [event] = ask("runs", "show", "tea", "--db", url, "--json").thing["history"]
    assert (event["attempt"], event["arguments"]) == (2, {"grams": 50})
    [row] = [
        line
        for line in ask("runs", "show", "tea", "--db", url).out.splitlines()
        if " order_tea " in line
    ]
    assert row.split()[:5] == ["1", "effect", "order_tea", "succeeded", "2"]
    assert '{"grams": 50}' in row


def test_a_failed_run_is_listed_with_its_error_and_shown_with_the_next_command(
    url: str, ask: Ask
) -> None:
    with App(url).sync() as app, app.worker(workflows=[order]), pytest.raises(RunFailed):
        app.run(order.options(id="order 1"), "cup")
    [head, row] = ask("runs", "list", "--db", url, "--state", "failed").out.splitlines()
    assert "ERROR" in head
    assert "ValueError: no price for cup" in row
    shown = shortened(ask("runs", "show", "order 1", "--db", url).out)
    assert "\nNext: onward --db URL runs retry 'order 1'\n" in shown


def test_a_paused_run_is_shown_with_the_next_command(url: str, ask: Ask) -> None:
    with App(url).sync() as app:
        app.start(order.options(id="order-1"), "cup")
        app.pause("order-1")
    shown = shortened(ask("runs", "show", "order-1", "--db", url).out)
    assert "\nNext: onward --db URL runs resume order-1\n" in shown
