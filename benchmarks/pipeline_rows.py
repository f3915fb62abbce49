"""The rows of pipelines, written past the engine: a bare loop to compare with, and a past."""

from __future__ import annotations

import asyncio
import sqlite3
import time
from contextlib import closing
from itertools import count
from typing import TYPE_CHECKING, Any

import asyncpg

if TYPE_CHECKING:
    from collections.abc import Sequence

INSERT_RUN = (
    "INSERT INTO onward_run (namespace, uid, id, kind, name, queue, state, due, handler, lane,"
    " created_at, updated_at)"
    " VALUES ('default', ?, ?, 'consumer', 'consumer bare', 'default', 'ready', 1, 'bare', ?, 1, 1)"
)
INSERT_DATA = (
    "INSERT INTO onward_run_data (namespace, uid, input, args_hash) VALUES ('default', ?, ?, '')"
)
CLAIM = (
    "UPDATE onward_run SET state = 'running', fence = 1, worker = 'bare', due = NULL"
    " WHERE namespace = 'default' AND uid = ?"
)
INSERT_RECORD = (
    "INSERT INTO onward_record (namespace, run, identity, attempt, seq, kind, name, state, payload,"
    " opened_at) VALUES ('default', ?, ?, 1, 1, 'step', ?, 'succeeded', ?, 1)"
)
OPEN_RECORD = (
    "INSERT INTO onward_record (namespace, run, identity, attempt, kind, name, state, opened_at)"
    " VALUES ('default', ?, 'send', 1, 'effect', 'send', 'open', 1)"
)
CLOSE_RECORD = (
    "UPDATE onward_record SET state = 'succeeded', seq = 2, payload = ?"
    " WHERE namespace = 'default' AND run = ? AND identity = 'send' AND attempt = 1"
)
INSERT_EFFECT = (
    "INSERT INTO onward_effect (namespace, key, run, identity, name, args, args_hash, state,"
    " version, created_at, updated_at)"
    " VALUES ('default', ?, ?, 'send', 'send', ?, '', 'in_flight', 1, 1, 1)"
)
SETTLE = "UPDATE onward_effect SET state = 'applied' WHERE namespace = 'default' AND key = ?"
INSERT_EVENT = (
    "INSERT INTO onward_event (namespace, uid, topic, seq, message, payload, created_at)"
    " VALUES ('default', ?, ?, ?, ?, ?, 1)"
)
INSERT_DELIVERY = (
    "INSERT INTO onward_delivery (namespace, handler, event, topic, seq, state, updated_at)"
    " VALUES ('default', ?, ?, ?, ?, 'pending', 1)"
)
RESERVE = (
    "UPDATE onward_delivery SET state = 'reserved', run = ?"
    " WHERE namespace = 'default' AND handler = ? AND event = ?"
)
CONSUME = (
    "UPDATE onward_delivery SET state = 'consumed'"
    " WHERE namespace = 'default' AND handler = ? AND event = ?"
)
END = (
    "UPDATE onward_run SET state = 'succeeded', worker = NULL, finished_at = 1"
    " WHERE namespace = 'default' AND uid = ?"
)
HANDLER = (
    "INSERT INTO onward_handler (namespace, handler, pipeline, kind, lane, updated_at)"
    " VALUES ('default', ?, 'bare', 'consumer', 'bare', 1) ON CONFLICT (namespace, handler, key)"
    " DO UPDATE SET published = onward_handler.published + 1"
)
TOPIC = (
    "INSERT INTO onward_topic (namespace, name, created_at) VALUES ('default', ?, 1)"
    " ON CONFLICT (namespace, name) DO UPDATE SET last = onward_topic.last + 1"
)
COUNT = (
    "INSERT INTO onward_subscription (namespace, topic, handler) VALUES ('default', ?, ?)"
    " ON CONFLICT (namespace, topic, handler)"
    " DO UPDATE SET consumed = onward_subscription.consumed + 1"
)
PAYLOAD = b"a payload of some size"
_numbers = count(1)

Write = tuple[str, "Sequence[Sequence[Any]]"]


class Bare:
    """Writes the rows of producer, consumer with effect, and consumer, without any decision."""

    def __init__(self, url: str) -> None:
        self._url = url

    async def write(self, events: int, batch: int) -> float:
        """Return how many seconds it takes, with so many events in a run."""
        commits = self._commits(events, batch)
        if not self._url.startswith("postgresql"):
            return await asyncio.to_thread(self._write_sqlite, commits)
        connection = await asyncpg.connect(
            self._url, server_settings={"search_path": "onward"}, statement_cache_size=1000
        )
        try:
            begun = time.perf_counter()
            for writes in commits:
                async with connection.transaction():
                    for statement, rows in writes:
                        await connection.executemany(_numbered(statement), rows)
            return time.perf_counter() - begun
        finally:
            await connection.close()

    def _write_sqlite(self, commits: list[list[Write]]) -> float:
        with closing(sqlite3.connect(self._url, isolation_level=None)) as file:
            file.execute("PRAGMA synchronous = FULL")
            file.execute("PRAGMA wal_autocheckpoint = 8000")
            begun = time.perf_counter()
            for writes in commits:
                file.execute("BEGIN IMMEDIATE")
                for statement, rows in writes:
                    file.executemany(statement, rows)
                file.execute("COMMIT")
            return time.perf_counter() - begun

    def _commits(self, events: int, batch: int) -> list[list[Write]]:
        prefix = f"bare-{next(_numbers)}"
        made: list[list[Write]] = []
        for first in range(0, events, 10_000):
            many = range(first, min(first + 10_000, events))
            made += self._run(f"{prefix}-make-{first}", "make", (), prefix, ("raw", "send", many))
        for topic, handler, then in (("raw", "send", ("done", "count")), ("done", "count", None)):
            for first in range(0, events, batch):
                many = range(first, min(first + batch, events))
                uids = [f"{prefix}-{topic}-{n}" for n in many]
                published = None if then is None else (*then, many)
                run = f"{prefix}-{handler}-{first}"
                made += self._run(run, handler, uids, prefix, published, topic)
        return made

    def _run(
        self,
        run: str,
        handler: str,
        uids: Sequence[str],
        prefix: str,
        published: tuple[str, str, Sequence[int]] | None,
        topic: str = "",
    ) -> list[list[Write]]:
        """Return the commits of one run."""
        commits: list[list[Write]] = [
            [(INSERT_RUN, [(run, run, run)]), (INSERT_DATA, [(run, b"")]), (HANDLER, [(handler,)])],
            [(CLAIM, [(run,)])],
        ]
        if uids:
            reserved = [(run, handler, uid) for uid in uids]
            record = (run, "prepare", "prepare", PAYLOAD * len(uids))
            commits += [[(INSERT_RECORD, [record]), (RESERVE, reserved), (HANDLER, [(handler,)])]]
        if handler == "send":
            effect = (run, run, PAYLOAD * len(uids))
            commits += [
                [(INSERT_EFFECT, [effect]), (OPEN_RECORD, [(run,)])],
                [(SETTLE, [(run,)]), (CLOSE_RECORD, [(PAYLOAD, run)])],
            ]
        last: list[Write] = [(INSERT_RECORD, [(run, "next", "next", b"")]), (END, [(run,)])]
        if uids:
            last += [(CONSUME, [(handler, uid) for uid in uids]), (COUNT, [(topic, handler)])]
        if published is not None:
            to, consumer, many = published
            events = [(f"{prefix}-{to}-{n}", f"{prefix}-{to}", n, str(n), PAYLOAD) for n in many]
            deliveries = [(consumer, event[0], event[1], event[2]) for event in events]
            last += [(INSERT_EVENT, events), (INSERT_DELIVERY, deliveries), (TOPIC, [(to,)])]
            last += [(HANDLER, [(consumer,)])]
        return [*commits, [*last, (HANDLER, [(handler,)])]]


def _numbered(statement: str) -> str:
    """Return a statement with the placeholders of Postgres."""
    first, *parts = statement.split("?")
    return first + "".join(f"${n}{part}" for n, part in enumerate(parts, 1))


# --- the past -------------------------------------------------------------------------------------

PAST = (
    """
    INSERT INTO onward_event (namespace, uid, topic, seq, message, payload, created_at)
    SELECT 'default', t.name || '-past-' || n, t.name, t.last + n - {filled}, 'past-' || n,
           {payload}, 1
    FROM onward_topic t, ({numbers}) numbers WHERE t.name LIKE 'line-%'
    """,
    """
    INSERT INTO onward_delivery (namespace, handler, event, topic, seq, state, run, updated_at)
    SELECT 'default', s.handler, s.topic || '-past-' || n, s.topic, t.last + n - {filled},
           'consumed', 'past-' || (n / 100), 1
    FROM onward_subscription s, onward_topic t, ({numbers}) numbers
    WHERE s.topic LIKE 'line-%' AND t.name = s.topic
    """,
    """
    INSERT INTO onward_run (namespace, uid, id, kind, name, queue, state, handler, lane,
                            finished_at, created_at, updated_at)
    SELECT 'default', h.handler || '-past-' || n, h.handler || '-past-' || n, h.kind,
           h.kind || ' ' || h.handler, h.queue, 'succeeded', h.handler, h.lane, 1, 1, 1
    FROM onward_handler h, ({numbers}) numbers
    WHERE h.handler LIKE 'line-%' AND h.kind = 'consumer' AND n % 100 = 0
    """,
    """
    UPDATE onward_subscription SET consumed = consumed + {size} - {filled}
    WHERE topic LIKE 'line-%'
    """,
    "UPDATE onward_topic SET last = last + {size} - {filled} WHERE name LIKE 'line-%'",
)
"""For each consumer of the benchmark: events that it has consumed, 100 in a run."""


PAGES = """
    SELECT blks_hit + blks_read FROM pg_stat_database WHERE datname = current_database()
"""


class Past:
    """Adds events that were consumed before to every consumer of the benchmark."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._filled = 0

    async def fill(self, size: int) -> None:
        """Let every consumer have consumed so many events, by direct SQL."""
        given = {"filled": str(self._filled), "size": str(size), "payload": "'a '::bytea"}
        given["numbers"] = f"SELECT n FROM generate_series({self._filled + 1}, {size}) n"
        begin, self._filled = self._filled + 1, size
        if not self._url.startswith("postgresql"):
            given["payload"] = "x'6120'"
            given["numbers"] = (
                f"WITH RECURSIVE series (n) AS (SELECT {begin} UNION ALL SELECT n + 1 FROM series"
                f" WHERE n < {size}) SELECT n FROM series"
            )
            await asyncio.to_thread(self._fill_sqlite, given)
            return
        connection = await asyncpg.connect(self._url, server_settings={"search_path": "onward"})
        try:
            for statement in PAST:
                await connection.execute(statement.format(**given))
            await connection.execute("VACUUM ANALYZE")
            await connection.execute("CHECKPOINT")
        finally:
            await connection.close()

    async def pages(self) -> int:
        """Return how many pages Postgres has read since it began, from memory or from disk."""
        if not self._url.startswith("postgresql"):
            return 0
        await asyncio.sleep(1.5)  # so long until a connection reports what it has read
        connection = await asyncpg.connect(self._url)
        try:
            read: int = await connection.fetchval(PAGES)
        finally:
            await connection.close()
        return read

    def _fill_sqlite(self, given: dict[str, str]) -> None:
        with closing(sqlite3.connect(self._url, timeout=60)) as file:
            for statement in PAST:
                file.execute(statement.format(**given))
            file.commit()
