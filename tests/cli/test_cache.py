"""`onward cache`: what runs share, and how it is removed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from onward import App, step, workflow

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cli.conftest import Ask


@step(cache="1h", version="7")
async def weather(city: str) -> str:
    return f"sun in {city}"


@workflow
async def forecast(city: str) -> str:
    return await weather(city)


@pytest.fixture
def db(tmp_path: Path) -> str:
    """A database with two cached results."""
    url = str(tmp_path / "onward.db")
    with App(url).sync() as app, app.worker(workflows=[forecast]):
        for city in ("Rome", "Oslo"):
            app.run(forecast.options(id=city), city)
    return url


def test_results_are_listed_without_their_values(db: str, ask: Ask) -> None:
    answer = ask("cache", "list")
    head, *rows = answer.out.splitlines()
    assert head.split() == ["KEY", "STEP", "VERSION", "BYTES", "RUN", "CREATED", "EXPIRES"]
    assert len(rows) == 2
    assert "sun" not in answer.out
    assert {one["run"] for one in ask("cache", "list", "--json").things} == {"Rome", "Oslo"}
    more = ask("cache", "list", "--limit", "1", "--step", "weather", "--version", "7")
    assert "There may be more: --after" in more.err
    assert ask("cache", "list", "--step", "other").out == "No cached results match.\n"


def test_results_are_purged(db: str, ask: Ask) -> None:
    key = ask("cache", "list", "--json").things[0]["key"]
    assert ask("cache", "purge", "--key", key).out == "1 cached result purged\n"
    assert ask("cache", "purge", "--step", "weather", "--json").thing == {"purged": 1}
    assert ask("cache", "purge", "--all").out == "0 cached results purged\n"
    refused = ask("cache", "purge")
    assert refused.status == 2
    assert "Pass --key" in refused.err
