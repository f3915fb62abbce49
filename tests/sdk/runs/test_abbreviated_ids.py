"""Runs by the beginning of a uid or an id."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from onward import workflow

if TYPE_CHECKING:
    from onward import App


@workflow
async def idle() -> None: ...


@pytest.mark.parametrize("length", [1, 8, 9, 20, 36])
async def test_a_run_is_found_by_the_beginning_of_its_uid(app: App, length: int) -> None:
    async with app:
        run = await app.start(idle)
        found = await app._store.find_runs(run.uid[:length])
        assert [row.uid for row in found] == [run.uid]
        assert await app._store.find_runs("f" + run.uid[1:length]) == []


async def test_runs_are_found_by_the_beginning_of_their_ids_as_they_are_written(app: App) -> None:
    ids = ["order-1", "order-10", "Order-1", "order_1", "100%", "é-1"]
    async with app:
        for each in ids:
            await app.start(idle.options(id=each))

        async def found(beginning: str) -> set[str]:
            return {row.id for row in await app._store.find_ids(beginning)}

        assert await found("order-1") == {"order-1", "order-10"}
        assert await found("O") == {"Order-1"}
        assert await found("order_") == {"order_1"}
        assert await found("100%") == {"100%"}
        assert await found("é") == {"é-1"}
        assert await found("\0") == set()


async def test_only_the_newest_run_of_an_id_is_found_by_it(app: App) -> None:
    async with app:
        old = await app.start(idle.options(id="a-1"))
        await app.cancel("a-1")
        new = await app.fork("a-1")
        assert [row.uid for row in await app._store.find_ids("a-")] == [new.uid]
        assert [row.newest for row in await app._store.find_runs(old.uid)] == [0]
