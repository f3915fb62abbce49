"""Starts and signals in a transaction of code without an event loop."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from onward import App, Signal, workflow
from onward.errors import Conflict, NotFound
from tests.kit.transactions import SYNC, rows

if TYPE_CHECKING:
    from pathlib import Path

    from tests.kit.transactions import SyncTransaction

order = Signal("order", str)


@workflow
async def deliver(house: int) -> str:
    return f"house {house}: {await order.wait()}"


@pytest.fixture(params=SYNC)
def driver(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture
def place(driver: str, request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if SYNC[driver][0] == "postgres":
        address: str = request.getfixturevalue("postgres_url")
        return address
    return str(tmp_path / "app.db")


@pytest.fixture
def transaction(driver: str) -> SyncTransaction:
    return SYNC[driver][1]


def seen(place: str, table: str) -> int:
    [[count]] = asyncio.run(rows(place, f"SELECT count(*) FROM {table}"))
    return int(count)


def test_what_is_started_and_sent_happens_with_the_commit(
    place: str, transaction: SyncTransaction
) -> None:
    with App(place).sync() as app, app.worker(workflows=[deliver]):
        with transaction(place, commit=True) as theirs:
            theirs.run("CREATE TABLE guest (name TEXT)")
            within = app.within(theirs.connection)
            run = within.start(deliver.options(id="house-7"), 7)
            within.signal("house-7", order, "bread")
            theirs.run("INSERT INTO guest VALUES ('Ada')")
            assert seen(place, "onward_run") == 0

        assert run.id == "house-7"
        assert run.result(timeout="60s") == "house 7: bread"
        assert seen(place, "guest") == 1


def test_what_is_rolled_back_leaves_nothing(place: str, transaction: SyncTransaction) -> None:
    with App(place).sync() as app:
        app.start(deliver.options(id="house-1"), 1)
        with transaction(place, commit=False) as theirs:
            run = app.within(theirs.connection).start(deliver, 7)
            app.within(theirs.connection).signal("house-1", order, "bread")

        assert [seen(place, f"onward_{name}") for name in ("run", "run_data", "outbox")] == [
            1,
            1,
            0,
        ]
        with pytest.raises(NotFound):
            run.state()


def test_a_conflict_is_an_error_and_the_transaction_continues(
    place: str, transaction: SyncTransaction
) -> None:
    with App(place).sync() as app:
        app.start(deliver.options(id="house-1"), 1)
        with transaction(place, commit=True) as theirs:
            within = app.within(theirs.connection)
            with pytest.raises(Conflict):
                within.start(deliver.options(id="house-1"), 2)
            with pytest.raises(NotFound):
                within.signal("house-2", order, "bread")
            within.start(deliver.options(id="house-3"), 3)

        assert app.counts() == {"ready": 2}


def test_it_may_be_kept_for_several_transactions_of_a_connection(
    place: str, transaction: SyncTransaction
) -> None:
    with App(place).sync() as app:
        with transaction(place, commit=True) as theirs:
            within = app.within(theirs.connection)
            within.start(deliver.options(id="first"), 1)
            theirs.connection.commit()
            within.start(deliver.options(id="second"), 2)
            theirs.connection.rollback()
            within.start(deliver.options(id="third"), 3)

        assert {info.id for info in app.runs()} == {"first", "third"}


def test_threads_may_each_have_a_transaction(place: str, transaction: SyncTransaction) -> None:
    def work(number: int) -> str:
        with transaction(place, commit=True) as theirs:
            return app.within(theirs.connection).start(deliver.options(id=f"{number}"), 1).id

    with App(place).sync() as app, ThreadPoolExecutor(4) as threads:
        assert sorted(threads.map(work, range(12)), key=int) == [str(n) for n in range(12)]
        assert app.counts() == {"ready": 12}
