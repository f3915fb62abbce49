"""What a claim costs beside many finished and waiting runs, and how soon a key has its turn.

python benchmarks/claims.py                     1,000,000 finished and 100,000 waiting runs
python benchmarks/claims.py --finished 10000 --waiting 1000 --keys 100
"""

from __future__ import annotations

import argparse
import asyncio
import sqlite3
import statistics
import sys
import tempfile
import time
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import asyncpg

from onward.core.flow import FlowId, FlowKind
from onward.core.instant import HOUR
from onward.model.claims import Wanted
from onward.model.flow import DeclaredLimits
from onward.model.runs import Move, NewRun
from onward.store import Commit, Store, open_store
from onward.store.sqlite.connection import DIALECT
from onward.testing.postgres import PostgresServer

if TYPE_CHECKING:
    from collections.abc import Sequence

NAME, QUEUE, WORKER = "work", "default", "benchmark"
SLOTS = 100
ROUNDS = 60

RUNS = """
    INSERT INTO {run} (namespace, uid, id, kind, name, queue, flow_key, state, due, finished_at,
                       created_at, updated_at)
    SELECT 'default', {prefix} || n, {prefix} || n, 'workflow', '{name}', {queue}, {key}, {state},
           {due}, {finished}, 1, 1 FROM ({numbers}) numbers
"""
DATA = """
    INSERT INTO {data} (namespace, uid, input, args_hash)
    SELECT namespace, uid, {empty}, '' FROM {run} r
    WHERE NOT EXISTS (SELECT 1 FROM {data} d WHERE d.namespace = r.namespace AND d.uid = r.uid)
"""


class Load:
    """Inserts many runs at once, past the store."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._is_postgres = url.startswith("postgresql")
        schema = "onward." if self._is_postgres else ""
        self._names = {"run": f"{schema}onward_run", "data": f"{schema}onward_run_data"}

    async def runs(self, prefix: str, count: int, **given: str) -> None:
        """Insert runs whose ids begin with a prefix."""
        values = {
            "name": NAME, "queue": f"'{QUEUE}'", "key": "NULL", "state": "'ready'", "due": "1",
            "finished": "NULL", "prefix": f"'{prefix}'", "numbers": self._numbers(count),
        }  # fmt: skip
        await self._execute(RUNS.format(**self._names, **values | given))
        empty = "''::bytea" if self._is_postgres else "x''"
        await self._execute(DATA.format(**self._names, empty=empty))

    def _numbers(self, count: int) -> str:
        if self._is_postgres:
            return f"SELECT n FROM generate_series(1, {count}) n"
        return (
            "WITH RECURSIVE series (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM series"
            f" WHERE n < {count}) SELECT n FROM series"
        )

    async def _execute(self, sql: str) -> None:
        if self._is_postgres:
            connection = await asyncpg.connect(self.url)
            try:
                await connection.execute(sql)
            finally:
                await connection.close()
            return
        with closing(sqlite3.connect(self.url)) as connection:
            connection.execute(sql)
            connection.commit()

    async def settle(self) -> None:
        """Let the database tidy up what was inserted, as it does by itself in time."""
        if self._is_postgres:
            await self._execute("VACUUM ANALYZE onward.onward_run")


async def claims(store: Store, *, key: str | None) -> float:
    """Return how many milliseconds a claim of a few runs takes."""
    took = []
    for turn in range(ROUNDS):
        for number in range(5):
            uid = f"new-{key}-{turn}-{number}-{time.monotonic_ns()}"
            await store.start(NewRun(uid, uid, NAME, b"j[]", "", priority=9, flow_key=key))
        wanted = Wanted(WORKER, (QUEUE,), (NAME,), 5, limited=key is not None)
        began = time.perf_counter()
        claimed = await store.claim(wanted)
        took.append((time.perf_counter() - began) * 1000)
        assert len(claimed) == 5, claimed
        for run in claimed:
            await store.writer(WORKER).commit(Commit(run.uid, run.fence, move=Move("succeeded")))
    return statistics.median(took)


async def cost(url: str, finished: int, waiting: int) -> None:
    """Print what claims cost in an empty store, and beside many runs."""
    load = Load(url)
    async with open_store(url) as store:
        await store.take_lease(WORKER, HOUR)
        await store.declare(FlowId(FlowKind.KEY, "*", QUEUE), DeclaredLimits(50))
        for key in (None, "k"):  # so that all plans are made
            await claims(store, key=key)
        empty = await claims(store, key=None), await claims(store, key="k")
        await load.runs("done", finished, state="'succeeded'", due="NULL", finished="1")
        await load.runs("free", waiting // 2)
        await load.runs("keyed", waiting // 2, key="'big'")
        await load.settle()
        full = await claims(store, key=None), await claims(store, key="k")
    for what, before, after in zip(("free", "keyed"), empty, full, strict=True):
        print(f"  claim of 5 {what:<6} runs: empty {before:6.2f} ms, beside {finished:,} finished"
              f" and {waiting:,} waiting {after:6.2f} ms, {after / before:4.2f}x")  # fmt: skip


async def turns(url: str, ahead: int, keys: int) -> None:
    """Print after how many claims each of some keys had its turn, behind many runs of another."""
    load = Load(url)
    async with open_store(url) as store:
        await store.take_lease(WORKER, HOUR)
        await load.runs("a", ahead, key="'aaa'", queue="'turns'", due="1")
        await load.runs("key", keys, key="'key' || n", queue="'turns'", due="2")
        await load.settle()
        order: list[str] = []
        took = []
        while len(order) < 3 * SLOTS:
            began = time.perf_counter()
            wanted = Wanted(WORKER, ("turns",), (NAME,), SLOTS, limited=True)
            claimed = await store.claim(wanted)
            took.append((time.perf_counter() - began) * 1000)
            order += [run.id for run in claimed]
            for run in claimed:
                end = Commit(run.uid, run.fence, move=Move("succeeded"))
                await store.writer(WORKER).commit(end)
    first = next(place for place, run in enumerate(order) if run.startswith("key"))
    others = sum(run.startswith("key") for run in order)
    print(f"  {ahead:,} runs of a key ahead of {keys:,} keys: another key after {first} claims,"
          f" {others} of {len(order)} runs are of other keys; a claim of {SLOTS} took"
          f" {statistics.median(took):.1f} ms")  # fmt: skip


def plans(path: str, names: Sequence[str]) -> None:
    """Print how SQLite answers the statements of a claim."""
    statements = DIALECT.statements()
    with closing(sqlite3.connect(path)) as connection:
        for name in names:
            statement = statements[name]
            given = [None] * len(statement.parameters)
            steps = connection.execute(f"EXPLAIN QUERY PLAN {statement.sql}", given).fetchall()
            print(f"  {name}:")
            for *_, step in steps:
                print(f"    {step}")


async def measure(name: str, url: str, given: argparse.Namespace) -> None:
    print(f"{name}:")
    await cost(url, given.finished, given.waiting)
    await turns(url, given.waiting, given.keys)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--finished", type=int, default=1_000_000)
    parser.add_argument("--waiting", type=int, default=100_000)
    parser.add_argument("--keys", type=int, default=10_000)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "claims.db")
        asyncio.run(measure("sqlite", path, given))
        plans(path, ("ready_candidates", "due_candidates", "levels_of_queue", "lanes_of_level",
                     "runs_of_lane", "count_running", "restricting_flows"))  # fmt: skip
    with PostgresServer.start() as server:
        asyncio.run(measure("postgres", server.create_database(), given))
    return 0


if __name__ == "__main__":
    sys.exit(main())
