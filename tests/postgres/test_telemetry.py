"""A server that goes away and comes back is told once each, however often a worker tries."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from onward import App, workflow
from onward.store.postgres import pool
from onward.testing.postgres import PostgresServer
from tests.postgres.hand import until
from tests.unit.telemetry.builders import a_log

if TYPE_CHECKING:
    import pytest


@workflow
async def survivor(text: str) -> str:
    return text


async def test_a_store_that_is_away_is_told_once_and_once_that_it_is_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pool, "PATIENCE_SECONDS", 1)
    tries = []
    with PostgresServer.start({}) as server, a_log() as log:
        app = App(server.create_database())
        async with app, app.worker(workflows=[survivor]) as worker:
            claiming = worker.session.claiming
            tick = claiming.tick

            async def counted() -> int:
                tries.append(log.events.count("store.away"))
                return await tick()

            monkeypatch.setattr(claiming, "tick", counted)
            with server.down():
                await until(lambda: _holds(tries.count(1) > 1))
            async with asyncio.timeout(60):
                assert await app.run(survivor, "still here") == "still here"
            await until(lambda: _holds("store.back" in log.events))

    told = [vars(each) for each in log.records if each.name == "onward.store"]
    assert [each["event"] for each in told] == ["store.away", "store.back"]
    assert {each["worker"] for each in told} == {worker.id}


async def _holds(fact: bool) -> bool:
    return fact
