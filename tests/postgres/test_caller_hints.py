"""Workers are told of what a caller's transaction has started or sent when it commits."""

from __future__ import annotations

import asyncio
import os
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from onward.store import Store, open_store
from onward.store.hints import queue_subject
from onward.testing.postgres import VARIABLE, PostgresServer
from tests.postgres.builders import a_message, a_run
from tests.postgres.hand import hand

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from onward.store.hints import Subscription

LONG = 20.0  # seconds: only a failing test waits that long


@asynccontextmanager
async def worker(url: str, *queues: str) -> AsyncIterator[Subscription]:
    """An subscription in another process, which hears what comes by the server alone."""
    async with open_store(url) as store:
        database: Any = store.database
        await database._channel.ready.wait()
        with store.subscribe(map(queue_subject, queues)) as subscription:
            yield subscription


async def subjects_of(store: Store, subscription: Subscription) -> set[str]:
    """Return what a subscription hears before a hint that is sent now, and that hint."""
    told: set[str] = set()
    store.database.publish({queue_subject("last")})
    async with asyncio.timeout(LONG):
        while queue_subject("last") not in told:
            told |= await subscription.wait(LONG)
    return told


async def test_a_start_in_a_callers_transaction_is_told_with_the_commit(postgres_url: str) -> None:
    async with (
        open_store(postgres_url) as store,
        worker(postgres_url, "default", "last") as subscription,
        hand(postgres_url) as theirs,
    ):
        await theirs.begin()
        await store.within(theirs.connection).start(a_run("theirs"))
        assert await subjects_of(store, subscription) == {queue_subject("last")}
        await theirs.commit()
        assert await subjects_of(store, subscription) == {
            queue_subject("default"),
            queue_subject("last"),
        }


async def test_a_message_in_a_callers_transaction_is_told_in_the_queue_of_its_run(
    postgres_url: str,
) -> None:
    async with open_store(postgres_url) as store, hand(postgres_url) as theirs:
        await store.start(a_run("a")._replace(queue="letters"))
        await store.start(a_run("b")._replace(queue="other"))
        async with worker(postgres_url, "letters", "other", "last") as subscription:
            await subjects_of(store, subscription)  # what the starts told may have come late
            await theirs.begin()
            await store.within(theirs.connection).send(a_message("a"))
            await theirs.commit()
            assert await subjects_of(store, subscription) == {
                queue_subject("letters"),
                queue_subject("last"),
            }


async def test_what_a_caller_rolls_back_is_told_to_nobody(postgres_url: str) -> None:
    async with (
        open_store(postgres_url) as store,
        worker(postgres_url, "default", "last") as subscription,
        hand(postgres_url) as theirs,
    ):
        await theirs.begin()
        await store.within(theirs.connection).start(a_run("theirs"))
        await theirs.roll_back()
        assert await subjects_of(store, subscription) == {queue_subject("last")}


async def test_a_caller_may_commit_in_two_phases_where_its_server_allows_it() -> None:
    own = {name: value for name, value in os.environ.items() if name != VARIABLE}
    with PostgresServer.start(own, settings={"max_prepared_transactions": "2"}) as server:
        url = server.create_database()
        async with open_store(url) as store, hand(url) as theirs:
            await theirs.run("BEGIN")
            await store.within(theirs.connection).start(a_run("theirs"))
            await theirs.run("PREPARE TRANSACTION 'theirs'")
            await theirs.run("COMMIT PREPARED 'theirs'")
            assert (await store.run("theirs")).state == "ready"


async def test_a_caller_who_may_not_notify_still_starts_runs(postgres_url: str) -> None:
    async with open_store(postgres_url) as store, hand(postgres_url) as theirs:
        for statement in NO_NOTIFY:
            await theirs.run(statement)
        await theirs.begin()
        await store.within(theirs.connection).start(a_run("theirs"))
        await theirs.commit()
        await theirs.run("RESET ROLE")
        assert (await store.run("theirs")).state == "ready"


# In a database of its own, as functions belong to databases; roles belong to the server.
NO_NOTIFY = (
    "REVOKE EXECUTE ON FUNCTION pg_notify(text, text) FROM PUBLIC",
    "GRANT USAGE ON SCHEMA onward TO pg_monitor",
    "GRANT SELECT, INSERT ON ALL TABLES IN SCHEMA onward TO pg_monitor",
    "SET ROLE pg_monitor",
)


async def test_a_process_hears_its_own_hints_once(postgres_url: str) -> None:
    own, last = queue_subject("own"), queue_subject("last")
    async with open_store(postgres_url) as here, open_store(postgres_url) as there:
        database: Any = here.database
        await database._channel.ready.wait()
        with here.subscribe([own, last]) as subscription:
            database.publish([own])
            assert await subscription.wait(LONG) == {own}
            await database._connections.listener.flush()  # it has notified the server
            there.database.publish([last])  # notifications come in the order of their commits
            assert await subscription.wait(LONG) == {last}
