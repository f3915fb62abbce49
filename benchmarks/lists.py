"""Lists, counts and groups in a large store: how long each takes, and the plan of its statement.

The store holds finished runs (a few failed, a few with effects and children) and waiting runs. Each
question of operators is asked several times. The median and the 95th percentile are printed.

    python benchmarks/lists.py                         1,000,000 finished and 100,000 waiting runs
    python benchmarks/lists.py --finished 10000 --waiting 1000 --plans
"""

from __future__ import annotations

import argparse
import asyncio
import sqlite3
import sys
import tempfile
import time
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import asyncpg

from onward import App
from onward.core.ids import uid7
from onward.core.instant import DAY, SECOND
from onward.core.retention import Retention
from onward.store.statements import Dialect
from onward.testing.postgres import PostgresServer

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

COLUMNS = (
    "namespace", "uid", "id", "kind", "name", "queue", "state", "due", "parent", "error_type",
    "created_at", "finished_at", "updated_at",
)  # fmt: skip
DATA_COLUMNS = ("namespace", "uid", "input", "args_hash")
EFFECT_COLUMNS = (
    "namespace", "key", "run", "identity", "name", "args", "args_hash", "state", "version",
    "attempt", "created_at", "updated_at",
)  # fmt: skip
FAILED_OF = 1000
"""One of so many finished runs failed; one of ten as many has an effect."""
BATCH = 20_000


@dataclass(frozen=True)
class Size:
    """How many runs there are."""

    finished: int
    waiting: int


def runs(size: Size, now: int) -> Iterator[tuple[Any, ...]]:
    """Yield rows of runs: the waiting ones are older than most of the finished ones."""
    total = size.finished + size.waiting
    for n in range(total):
        at = now - 3 * DAY + n * 2 * DAY // total
        is_waiting = n < size.waiting
        has_failed = not is_waiting and n % FAILED_OF == 0
        state = "waiting" if is_waiting else "failed" if has_failed else "succeeded"
        uid = uid7(at, n)
        yield (
            "default", uid, f"order-{n}", "workflow", f"workflow-{n % 20}", "default", state,
            now + DAY + n if is_waiting else None, None, "ValueError" if has_failed else "",
            at, None if is_waiting else at, at,
        )  # fmt: skip


def data_of(row: tuple[Any, ...]) -> tuple[Any, ...]:
    return ("default", row[1], b"json:{}", "hash")


def effects_of(row: tuple[Any, ...], n: int) -> tuple[Any, ...]:
    state = "indeterminate" if n % (100 * FAILED_OF) == 0 else "applied"
    key = f"{n:032x}"
    return ("default", key, row[1], "e#1", "charge", b"json:[]", "h", state, 1, 1, row[10], row[10])


async def fill(url: str, size: Size) -> None:
    """Create the schema, and write the rows past the store."""
    async with App(url) as app:
        now = await app._engine.store.now()
    rows = runs(size, now)
    write = _postgres(url) if url.startswith("postgresql") else _sqlite(url)
    async for table in write:
        batch: list[tuple[Any, ...]] = []
        for n, row in enumerate(rows):
            batch.append(row)
            if len(batch) == BATCH:
                await _write(table, batch, n + 1 - BATCH)
                batch = []
        await _write(table, batch, size.finished + size.waiting - len(batch))


async def _write(table: Any, batch: list[tuple[Any, ...]], first: int) -> None:
    await table("onward_run", COLUMNS, batch)
    await table("onward_run_data", DATA_COLUMNS, [data_of(row) for row in batch])
    effects = [effects_of(row, first + i) for i, row in enumerate(batch) if (first + i) % 100 == 0]
    await table("onward_effect", EFFECT_COLUMNS, effects)


async def _sqlite(path: str) -> Any:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA synchronous = OFF")

        async def table(name: str, columns: tuple[str, ...], rows: list[tuple[Any, ...]]) -> None:
            connection.execute("BEGIN")
            marks = ", ".join("?" * len(columns))
            text = f"INSERT INTO {name} ({', '.join(columns)}) VALUES ({marks})"
            connection.executemany(text, rows)
            connection.execute("COMMIT")

        yield table


async def _postgres(url: str) -> Any:
    connection = await asyncpg.connect(url)

    async def table(name: str, columns: tuple[str, ...], rows: list[tuple[Any, ...]]) -> None:
        await connection.copy_records_to_table(
            name, schema_name="onward", columns=columns, records=rows
        )

    yield table
    await connection.execute("VACUUM ANALYZE")
    await connection.close()


Question = "Callable[[App], Awaitable[object]]"


def questions(size: Size) -> dict[str, Callable[[App], Awaitable[Any]]]:
    """Return what operators ask, by what they would call it."""
    some = f"order-{size.waiting + size.finished // 2}"
    return {
        "runs": lambda app: app.runs(),
        "runs succeeded": lambda app: app.runs(state="succeeded"),
        "runs failed": lambda app: app.runs(state="failed"),
        "runs cancelled (none)": lambda app: app.runs(state="cancelled"),
        "runs waiting": lambda app: app.runs(state="waiting"),
        "runs running (none)": lambda app: app.runs(state="running"),
        "runs of a workflow": lambda app: app.runs(name="workflow-7"),
        "runs of no workflow": lambda app: app.runs(name="no such workflow"),
        "runs of a workflow, failed": lambda app: app.runs(name="workflow-0", state="failed"),
        "runs of no queue": lambda app: app.runs(queue="no such queue"),
        "counts": lambda app: app.counts(),
        "info": lambda app: app._engine.info(some),
        "effects pending": lambda app: app.effects.pending(),
        "effects of all runs": lambda app: app._engine.all_effects(limit=100, after=""),
        "unserved": lambda app: app._engine.unserved(),
        "beginning of an id": lambda app: app._engine.store.find_ids(some[:-1]),
        "prune --dry-run, first part": lambda app: app._engine.prune(
            Retention(succeeded=DAY), None, dry_run=True
        ),
    }


async def ask(url: str, size: Size, times: int) -> dict[str, tuple[float, float]]:
    """Return the median and the 95th percentile of each question, in milliseconds."""
    found: dict[str, tuple[float, float]] = {}
    async with App(url) as app:
        for name, question in questions(size).items():
            taken = []
            for _ in range(times):
                begun = time.perf_counter()
                await question(app)
                taken.append((time.perf_counter() - begun) * 1000)
                if sum(taken) > 20 * SECOND / 1000:
                    break  # it is slow, which is the answer
            taken.sort()
            found[name] = (taken[len(taken) // 2], taken[int(len(taken) * 0.95)])
    return found


def show(where: str, found: dict[str, tuple[float, float]]) -> bool:
    print(f"\n{where:40} {'p50 ms':>10} {'p95 ms':>10}")
    for name, (median, late) in found.items():
        print(f"{name:40} {median:10.1f} {late:10.1f}{'  over 100 ms' if late > 100 else ''}")
    return all(late <= 100 for _, late in found.values())


STATEMENTS = (
    "list_runs",
    "list_ended",
    "list_open",
    "list_named",
    "count_ended",
    "list_effects",
    "open_effects",
    "kinds_to_claim",
)


def plans_of_sqlite(path: str) -> None:
    with closing(sqlite3.connect(path)) as connection:
        for name, statement in Dialect().statements().items():
            if name in STATEMENTS:
                print(f"\n{name} on SQLite")
                values = [None] * len(statement.parameters)
                for row in connection.execute(f"EXPLAIN QUERY PLAN {statement.sql}", values):
                    print(f"  {row[3]}")


async def plans_of_postgres(url: str) -> None:
    connection = await asyncpg.connect(
        url, server_settings={"plan_cache_mode": "force_generic_plan", "enable_seqscan": "off"}
    )
    for name, statement in Dialect(postgres=True, database_time=True).statements().items():
        if name in STATEMENTS:
            print(f"\n{name} on Postgres")
            await connection.execute(f"PREPARE p_{name} AS {statement.sql}")
            values = ", ".join(["NULL"] * len(statement.parameters))
            given = f"({values})" if values else ""
            for row in await connection.fetch(f"EXPLAIN EXECUTE p_{name}{given}"):
                print(f"  {row[0]}")
    await connection.close()


async def measure(url: str, size: Size, times: int, *, plans: bool) -> bool:
    begun = time.perf_counter()
    await fill(url, size)
    print(f"filled in {time.perf_counter() - begun:.0f} s")
    is_postgres = url.startswith("postgresql")
    in_time = show("Postgres" if is_postgres else "SQLite", await ask(url, size, times))
    if plans and is_postgres:
        await plans_of_postgres(url)
    elif plans:
        plans_of_sqlite(url)
    return in_time


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--finished", type=int, default=1_000_000)
    parser.add_argument("--waiting", type=int, default=100_000)
    parser.add_argument("--times", type=int, default=20)
    parser.add_argument("--plans", action="store_true", help="print the plans of the statements")
    parser.add_argument("--only", choices=["sqlite", "postgres"])
    asked = parser.parse_args()
    size = Size(asked.finished, asked.waiting)
    in_time = True
    if asked.only != "postgres":
        with tempfile.TemporaryDirectory() as folder:
            path = str(Path(folder) / "lists.db")
            in_time &= asyncio.run(measure(path, size, asked.times, plans=asked.plans))
    if asked.only != "sqlite":
        with PostgresServer.start() as server:
            url = server.create_database(None)
            in_time &= asyncio.run(measure(url, size, asked.times, plans=asked.plans))
    return 0 if in_time else 1


if __name__ == "__main__":
    sys.exit(main())
