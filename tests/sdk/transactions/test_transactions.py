"""Starts and signals in a user's own transaction, whatever driver it is opened with."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import onward
from onward import App, Signal, workflow
from onward.errors import BadInput, Conflict, NotFound, PayloadTooLarge, RunOver, Unencodable
from tests.kit.transactions import ASYNC, rows
from tests.kit.watching import check_database

if TYPE_CHECKING:
    from pathlib import Path

    from tests.kit.transactions import AsyncTransaction

order = Signal("order", str)

TABLES = ("onward_run", "onward_run_data", "onward_outbox", "onward_inbox")


@workflow
async def serve(table: int) -> str:
    return f"table {table}: {await order.wait()}"


@workflow
async def serve_again(table: int, before: str | None = None) -> str:
    """Continue as a new run after the first order."""
    found = await order.wait()
    if before is None:
        onward.continue_as_new(table, found)
    return f"table {table}: {before}, {found}"


@workflow
async def collect_orders(count: int) -> list[str]:
    return [await order.wait() for _ in range(count)]


@pytest.fixture(params=ASYNC)
def driver(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture
def place(driver: str, request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The address of a database that the driver can reach."""
    if ASYNC[driver][0] == "postgres":
        address: str = request.getfixturevalue("postgres_url")
        return address
    return str(tmp_path / "app.db")


@pytest.fixture
def transaction(driver: str) -> AsyncTransaction:
    return ASYNC[driver][1]


async def count(place: str) -> dict[str, int]:
    """Return how many rows others see in each table that a transaction might write to."""
    return {table: (await rows(place, f"SELECT count(*) FROM {table}"))[0][0] for table in TABLES}


async def test_what_is_started_and_sent_happens_with_the_commit(
    place: str, transaction: AsyncTransaction
) -> None:
    async with App(place) as app, app.worker(workflows=[serve]):
        async with transaction(place, commit=True) as theirs:
            within = app.within(theirs.connection)
            run = await within.start(serve.options(id="table-7"), 7)
            await within.signal("table-7", order, "soup")
            assert await count(place) == dict.fromkeys(TABLES, 0)

        assert run.id == "table-7"
        assert await run.result(timeout="60s") == "table 7: soup"
        await check_database(app)


async def test_a_signal_by_uid_reaches_the_run_that_continues_the_target(
    place: str, transaction: AsyncTransaction
) -> None:
    async with App(place) as app, app.worker(workflows=[serve_again]):
        first = await app.start(serve_again.options(id="table-8"), 8)
        await first.signal(order, "soup")
        await app._engine.end_of(first.uid)  # it has continued as a new run
        async with transaction(place, commit=True) as theirs:
            await app.within(theirs.connection).signal(first.uid, order, "cheese")

        assert await first.result(timeout="60s") == "table 8: soup, cheese"


async def test_what_is_rolled_back_leaves_nothing(
    place: str, transaction: AsyncTransaction
) -> None:
    async with App(place) as app:
        there = await app.start(serve.options(id="table-1"), 1)
        before = await count(place)
        async with transaction(place, commit=False) as theirs:
            within = app.within(theirs.connection)
            run = await within.start(serve, 7)
            await within.signal("table-1", order, "soup")

        assert await count(place) == before
        assert await app._store.sweep() == 0
        with pytest.raises(NotFound):
            await run.state()
        assert await there.state() == "ready"


async def test_what_the_user_writes_and_what_we_write_is_one_commit(
    place: str, transaction: AsyncTransaction
) -> None:
    async with App(place) as app:
        async with transaction(place, commit=True) as theirs:
            await theirs.run("CREATE TABLE guest (name TEXT)")
        async with transaction(place, commit=False) as theirs:
            await theirs.run("INSERT INTO guest VALUES ('Bob')")
            await app.within(theirs.connection).start(serve.options(id="for-bob"), 1)
        async with transaction(place, commit=True) as theirs:
            await theirs.run("INSERT INTO guest VALUES ('Ada')")
            await app.within(theirs.connection).start(serve.options(id="for-ada"), 1)
            await theirs.run("INSERT INTO guest VALUES ('Eve')")

        assert await rows(place, "SELECT name FROM guest ORDER BY name") == [("Ada",), ("Eve",)]
        assert [info.id for info in await app.runs()] == ["for-ada"]


async def test_a_conflict_is_an_error_and_the_transaction_continues(
    place: str, transaction: AsyncTransaction
) -> None:
    async with App(place) as app:
        first = await app.start(serve.options(id="table-1"), 1)
        await (await app.start(serve.options(id="over"), 3)).cancel(force=True)
        async with transaction(place, commit=True) as theirs:
            within = app.within(theirs.connection)
            same = await within.start(serve.options(id="table-1"), 1)
            with pytest.raises(Conflict, match=r"different arguments\. Choose another id\.$"):
                await within.start(serve.options(id="table-1"), 2)
            with pytest.raises(Conflict, match="a different workflow"):
                await within.start(collect_orders.options(id="table-1"), 1)
            with pytest.raises(Conflict, match="the run with this id is ready"):
                await within.start(serve.options(id="table-1", on_conflict="reject"), 1)
            with pytest.raises(BadInput, match="only inserts rows"):
                await within.start(serve.options(id="table-1", on_conflict="replace"), 1)
            with pytest.raises(NotFound, match="'missing'"):
                await within.signal("missing", order, "soup")
            with pytest.raises(NotFound):
                await within.signal("no\0body", order, "soup")
            with pytest.raises(RunOver):
                await within.signal("over", order, "soup")
            after = await within.start(serve.options(id="table-2"), 2)

        assert same.uid == first.uid
        assert await after.state() == "ready"
        assert await app.counts() == {"cancelled": 1, "ready": 2}


async def test_what_cannot_be_stored_is_refused_before_the_transaction_meets_it(
    place: str, transaction: AsyncTransaction
) -> None:
    async with App(place) as app:
        async with transaction(place, commit=True) as theirs:
            within = app.within(theirs.connection)
            with pytest.raises(Unencodable):
                await within.start(serve, float("nan"))  # type: ignore[arg-type] # that is the test
            with pytest.raises(PayloadTooLarge):
                await within.signal("table-1", order, "x" * 3 * 1024 * 1024)
            with pytest.raises(ValueError, match="the run id"):
                await within.start(serve.options(id="a\0b"), 1)
            await within.start(serve, 1)

        assert (await count(place))["onward_run"] == 1


async def test_signals_arrive_in_the_order_in_which_they_were_sent(
    place: str, transaction: AsyncTransaction
) -> None:
    dishes = [f"dish {number}" for number in range(30)]
    async with App(place) as app:
        run = await app.start(collect_orders.options(id="all"), len(dishes))
        for some in (dishes[:10], dishes[10:20], dishes[20:]):
            async with transaction(place, commit=True) as theirs:
                for dish in some:
                    await app.within(theirs.connection).signal("all", order, dish)
        async with app.worker(workflows=[collect_orders]):
            assert await run.result(timeout="60s") == dishes


@pytest.mark.parametrize("driver", [name for name in ASYNC if name in ("asyncpg", "aiosqlite")])
async def test_a_message_that_is_sent_again_is_delivered_once(
    place: str, transaction: AsyncTransaction
) -> None:
    async with App(place) as app:
        run = await app.start(collect_orders.options(id="all"), 3)
        for dish in ("soup", "salad"):
            async with transaction(place, commit=True) as theirs:
                within = app.within(theirs.connection)
                await within.signal("all", order, "soup", message_id="one")
                await within.signal("all", order, dish, message_id="one")
                await within.signal("all", order, dish, message_id=dish)
        await run.signal(order, "fish", message_id="one")
        async with app.worker(workflows=[collect_orders]):
            assert await run.result(timeout="60s") == ["soup", "soup", "salad"]


@pytest.mark.parametrize("driver", [name for name in ASYNC if name == "aiosqlite"])
async def test_a_message_id_that_cannot_be_kept_is_refused(
    place: str, transaction: AsyncTransaction
) -> None:
    async with App(place) as app:
        await app.start(collect_orders.options(id="all"), 1)
        async with transaction(place, commit=True) as theirs:
            with pytest.raises(BadInput, match="the id of a message is empty"):
                await app.within(theirs.connection).signal("all", order, "soup", message_id="")


@pytest.mark.parametrize("driver", [name for name in ASYNC if "SQLA" in name or name == "psycopg"])
async def test_it_may_be_kept_for_several_transactions_of_a_connection(
    place: str, transaction: AsyncTransaction
) -> None:
    async with App(place) as app:
        async with transaction(place, commit=True) as theirs:
            within = app.within(theirs.connection)
            await within.start(serve.options(id="first"), 1)
            await theirs.connection.commit()
            await within.start(serve.options(id="second"), 2)
            await theirs.connection.rollback()
            await within.start(serve.options(id="third"), 3)

        assert {info.id for info in await app.runs()} == {"first", "third"}
