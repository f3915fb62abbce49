"""`onward runs show` of a run that failed as an effect did not happen: the cause is visible."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest

from onward import App, NotApplied, Retry, effect, workflow
from onward.errors import RunFailed

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cli.conftest import Ask


async def find_charge(currency: str, *, key: str) -> NotApplied:
    return NotApplied()


@effect(
    reconcile=find_charge,
    retry=Retry(attempts=2),
    timeout="50ms",
    settle="0s",
    start_within="250ms",
)
async def charge_card(currency: str) -> int:
    return {"GBP": 100}[currency]


@workflow
async def buy(currency: str) -> int:
    return await charge_card(currency)


@workflow
async def buy_or_explain(currency: str) -> str:
    try:
        return str(await charge_card(currency))
    except NotApplied as error:
        return repr(error.__cause__)


SAID = "effect 'charge_card' did not happen after 2 sends; last error: KeyError: 'EUR'"


@pytest.fixture
def db(tmp_path: Path) -> str:
    return str(tmp_path / "shop.db")


def _bought(db: str) -> RunFailed:
    with App(db).sync() as app, app.worker(workflows=[buy]), pytest.raises(RunFailed) as raised:
        app.run(buy.options(id="buy-1"), "EUR")
    return raised.value


def test_the_error_names_the_sends_and_the_last_error_of_the_handler(db: str, ask: Ask) -> None:
    assert SAID in str(_bought(db))
    assert SAID in ask("runs", "show", "buy-1", "--db", db).out


def test_it_was_raised_at_the_line_of_the_body_that_awaited_the_effect(db: str, ask: Ask) -> None:
    _bought(db)
    out = ask("runs", "show", "buy-1", "--db", db).out
    place = rf"^raised at +{re.escape(__file__)}:\d+ in buy\n +return await charge_card\(currency\)"
    assert re.search(place, out, re.MULTILINE)


def test_the_traceback_begins_with_the_line_of_the_handler(db: str, ask: Ask) -> None:
    _bought(db)
    shown: dict[str, Any] = ask("runs", "show", "buy-1", "--db", db, "--json").thing
    told = shown["traceback"]
    lines = ('return {"GBP": 100}[currency]', "KeyError: 'EUR'", "direct cause", "in buy")
    assert sorted(lines, key=told.index) == list(lines)
    assert "onward/sdk" not in told
    [cause] = shown["failure"]["causes"]
    assert cause["where"].endswith("in charge_card")


def test_the_body_gets_the_error_of_the_handler_as_the_cause(db: str) -> None:
    with App(db).sync() as app, app.worker(workflows=[buy_or_explain]):
        assert app.run(buy_or_explain, "EUR") == "KeyError('EUR')"
