"""The rollup of inputs, and the counts of a topic, over many events that were consumed.

A store is filled with inputs, an event for each and two deliveries for each event; some of the last
ones are pending. Then the counts that operators look at are read, and the median time is printed.

    python -m benchmarks.inputs                     1,000,000 events, 1,000 of them pending
    python -m benchmarks.inputs --events 20000
    python -m benchmarks.inputs --postgres
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from onward.engine.pipeline_engine import STALE_AFTER, InputFilter
from onward.engine.pipelines.local import LocalPipelines
from onward.model.pipelines import HandlerSpec, PipelineSpec, TopicSpec
from onward.store import open_store
from onward.testing.postgres import PostgresServer

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from onward.store import Store

TOPIC, CONSUMERS = "mail.received", ("mail.AddRow", "mail.Log")
MAX_MILLISECONDS = 100
REPEATS = 15

_SERIES = "WITH RECURSIVE s (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM s WHERE n < {events})"
_POSTGRES_SERIES = "WITH s (n) AS (SELECT * FROM generate_series(1, {events}))"
_UID = "'0190' || substr('0000-0000-7000-8000-00000000' || n, -31)"
_POSTGRES_UID = "'0190' || right('0000-0000-7000-8000-00000000' || n, 31)"
_FILL = (
    "INSERT INTO {onward}onward_input (namespace, uid, pipeline, source, type, external, title,"
    " open, events, created_at) {series} SELECT 'default', {uid}, 'mail', 'gmail',"
    " CASE WHEN n % 10 = 0 THEN 'draft' ELSE 'email' END, '' || n, 'Mail ' || n,"
    " CASE WHEN n > {settled} THEN 2 ELSE 0 END, 1, n FROM s",
    "INSERT INTO {onward}onward_event (namespace, uid, topic, seq, message, payload, created_at)"
    " {series} SELECT 'default', {uid}, '{topic}', n, '' || n, {payload}, n FROM s",
    "INSERT INTO {onward}onward_cause (namespace, kind, target, input)"
    " {series} SELECT 'default', 'event', {uid}, {uid} FROM s",
    "INSERT INTO {onward}onward_input_count (namespace, pipeline, source, type, registered)"
    " SELECT namespace, pipeline, source, type, count(*) FROM {onward}onward_input"
    " GROUP BY namespace, pipeline, source, type",
    "UPDATE {onward}onward_topic SET last = {events}",
    "UPDATE {onward}onward_subscription SET consumed = {settled}",
)
_DELIVER = (
    "INSERT INTO {onward}onward_delivery (namespace, handler, event, topic, seq, state, run,"
    " updated_at) {series} SELECT 'default', '{consumer}', {uid}, '{topic}', n,"
    " CASE WHEN n > {settled} THEN 'pending' ELSE 'consumed' END,"
    " CASE WHEN n > {settled} THEN NULL ELSE 'run' END, n FROM s"
)


async def fill(store: Store, events: int, pending: int, *, is_postgres: bool) -> None:
    """Fill a store with consumed events, and some that are pending."""
    consumers = tuple(HandlerSpec(name, "consumer", (TOPIC,)) for name in CONSUMERS)
    spec = PipelineSpec("mail", False, "default", (TopicSpec(TOPIC),), consumers)  # noqa: FBT003
    await LocalPipelines(store).declare(spec)
    words: dict[str, Any] = {
        "onward": "onward." if is_postgres else "",
        "series": (_POSTGRES_SERIES if is_postgres else _SERIES).format(events=events),
        "uid": _POSTGRES_UID if is_postgres else _UID,
        "payload": "'\\x6a'::bytea" if is_postgres else "X'6A'",
        "topic": TOPIC,
        "events": events,
        "settled": events - pending,
    }
    texts = [text.format(**words) for text in _FILL]
    texts += [_DELIVER.format(consumer=name, **words) for name in CONSUMERS]

    async def run(tx: Any) -> None:
        for text in texts:
            if is_postgres:
                await tx._connection.execute(text)
            else:
                tx._connection.execute(text)

    for text in list(texts):
        texts[:] = [text]
        await store.write(run)
    if is_postgres:  # as autovacuum does
        texts[:] = ["ANALYZE"]
        await store.write(run)


async def measure(name: str, call: Callable[[], Awaitable[object]]) -> bool:
    """Print the median time of a call; return whether it is short enough."""
    times = []
    for _ in range(REPEATS):
        begun = time.perf_counter()
        await call()
        times.append((time.perf_counter() - begun) * 1000)
    median = statistics.median(times)
    print(f"  {name:<28} {median:8.1f} ms   (longest {max(times):.1f} ms)")
    return median < MAX_MILLISECONDS


async def run(url: str, events: int, pending: int, *, is_postgres: bool) -> bool:
    """Fill a store, measure what operators read, and return whether all of it is quick."""
    async with open_store(url) as store:
        begun = time.perf_counter()
        await fill(store, events, pending, is_postgres=is_postgres)
        kind = "Postgres" if is_postgres else "SQLite"
        filled = time.perf_counter() - begun
        print(f"{kind}: {events:,} events, {pending:,} pending (filled in {filled:.0f} s)")
        pipelines = LocalPipelines(store)
        wanted = InputFilter(pipeline="mail")
        quick = [
            await measure("rollup of inputs", lambda: pipelines.input_counts(None, STALE_AFTER)),
            await measure("counts of a topic", lambda: pipelines.counts(TOPIC)),
            await measure("newest 100 inputs", lambda: pipelines.inputs(wanted)),
            await measure(
                "pending inputs", lambda: pipelines.inputs(wanted._replace(state="pending"))
            ),
            await measure(
                "oldest 100 pending events",
                lambda: pipelines.peek(TOPIC, limit=100, ids=None, consumer=None),
            ),
            await measure("pipelines", pipelines.all),
        ]
        return all(quick)


def main() -> int:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--pending", type=int, default=1_000)
    parser.add_argument("--postgres", action="store_true")
    given = parser.parse_args()
    if given.postgres:
        with PostgresServer.start() as server:
            url = server.create_database()
            quick = asyncio.run(run(url, given.events, given.pending, is_postgres=True))
    else:
        with tempfile.TemporaryDirectory() as folder:
            url = str(Path(folder) / "onward.db")
            quick = asyncio.run(run(url, given.events, given.pending, is_postgres=False))
    return 0 if quick else 1


if __name__ == "__main__":
    sys.exit(main())
