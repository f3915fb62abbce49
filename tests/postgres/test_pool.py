"""Waiting in line for one of few connections."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest

from onward.errors import Unavailable
from onward.store.address import PostgresAddress, parse
from onward.store.postgres import pool

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


@asynccontextmanager
async def a_pool(url: str) -> AsyncIterator[pool.Pool]:
    """Open a pool of one connection."""
    address = parse(url)
    assert isinstance(address, PostgresAddress)
    connections = pool.Pool(address, 1)
    connections.open()
    yield connections
    await connections.close()


async def test_work_waits_in_line_for_as_long_as_the_server_answers_others(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool, "PATIENCE_SECONDS", 0.5)
    async with a_pool(postgres_url) as connections:
        await asyncio.gather(
            *(connections.run(lambda each: each.execute("SELECT pg_sleep(0.2)")) for _ in range(5))
        )


async def test_work_does_not_wait_in_a_line_that_stands_still(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool, "PATIENCE_SECONDS", 0.1)
    async with a_pool(postgres_url) as connections:
        begun, ends = asyncio.Event(), asyncio.Event()

        async def hold(_: object) -> None:
            begun.set()
            await ends.wait()

        holding = asyncio.ensure_future(connections.run(hold))
        await begun.wait()
        with pytest.raises(Unavailable, match="all 1 connections of the pool are in use"):
            await connections.run(lambda each: each.fetchval("SELECT 1"))
        ends.set()
        await holding
