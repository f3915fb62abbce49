"""What a claim costs beside many finished and waiting runs, and how keys share claims.

    python benchmarks/claims.py                     1,000,000 finished and 100,000 waiting runs
    python benchmarks/claims.py --finished 10000 --waiting 1000 --keys 100
    python benchmarks/claims.py --only postgres

It also prints the plans of the statements of a claim. It exits with status 1 if a claim beside
these runs takes more than 1.5 times as long as in an empty store, if a key waits too long for its
turn, if a claim that passes by many keys without room takes more than 100 ms, or if keys get other
shares than their weights.
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
from typing import TYPE_CHECKING, NamedTuple

import asyncpg

from onward.core.flow import FlowId, FlowKind, Rate
from onward.core.instant import HOUR
from onward.model.claims import Wanted
from onward.model.flow import DeclaredLimits
from onward.model.runs import Move, NewRun
from onward.store import Commit, Store, open_store
from onward.store.statements import Dialect
from onward.testing.postgres import PostgresServer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from onward.model.runs import ClaimedRun

NAME, WORKER = "work", "benchmark"
FREE, KEYED = "free", "keyed"
SLOTS = 100
ROUNDS, BATCH = 200, 5
MAX_RATIO = 1.5
MAX_CLOSED_MS = 100
OFTEN = Rate(1_000_000, HOUR)
SHARED, WEIGHT, MAX_DEVIATION = 10_000, 3, 0.05

STATEMENTS = (
    "claim", "ready_candidates", "due_candidates", "orphan_candidates", "claim_run", "claimed_runs",
    "restricting_flows", "flows_to_claim", "make_due_ready", "count_running",
    "count_holding", "levels_of_queue", "lanes_of_level", "next_keys", "open_lanes",
    "keys_to_claim", "runs_of_lane", "runs_of_lanes", "maintenance_due",
)  # fmt: skip

BIG_AND_SMALL = "CASE WHEN n % 2 = 0 THEN 'big' ELSE 'key' || (n % 500) END"
"""Half of the runs have one key, and the others 250."""

RUNS = """
    INSERT INTO {run} (namespace, uid, id, kind, name, queue, flow_key, state, due, finished_at,
                       created_at, updated_at)
    SELECT 'default', {prefix} || n, {prefix} || n, 'workflow', '{name}', {queue}, {key}, {state},
           {due}, {finished}, 1, 1 FROM ({numbers}) numbers
"""
DATA = """
    INSERT INTO {data} (namespace, uid, input, args_hash)
    SELECT 'default', {prefix} || n, {empty}, '' FROM ({numbers}) numbers
"""


class Load:
    """Inserts many runs at once, past the store."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.is_postgres = url.startswith("postgresql")
        schema = "onward." if self.is_postgres else ""
        self._names = {"run": f"{schema}onward_run", "data": f"{schema}onward_run_data"}

    async def runs(self, prefix: str, count: int, **given: str) -> None:
        """Insert runs whose ids begin with a prefix."""
        values = {
            **self._names, "name": NAME, "key": "NULL", "state": "'ready'", "due": "1",
            "finished": "NULL", "prefix": f"'{prefix}'", "numbers": self._numbers(count),
            "empty": "''::bytea" if self.is_postgres else "x''",
        }  # fmt: skip
        await self._execute(RUNS.format(**values | given))
        await self._execute(DATA.format(**values | given))

    def _numbers(self, count: int) -> str:
        if self.is_postgres:
            return f"SELECT n FROM generate_series(1, {count}) n"
        return (
            "WITH RECURSIVE series (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM series"
            f" WHERE n < {count}) SELECT n FROM series"
        )

    async def _execute(self, sql: str) -> None:
        if self.is_postgres:
            connection = await asyncpg.connect(self.url)
            try:
                await connection.execute(sql)
            finally:
                await connection.close()
            return
        with closing(sqlite3.connect(self.url)) as connection:
            connection.execute("PRAGMA synchronous = OFF")
            connection.execute(sql)
            connection.commit()

    async def settle(self) -> None:
        """Let the database tidy up what was inserted, as it does by itself in time."""
        if self.is_postgres:
            await self._execute("VACUUM ANALYZE")
            await self._execute("CHECKPOINT")


class Timed(NamedTuple):
    """What a claim returned, and how many milliseconds it took."""

    runs: list[ClaimedRun]
    took: float


async def claim(store: Store, queue: str, limit: int, *, limited: bool) -> Timed:
    wanted = Wanted(WORKER, (queue,), (NAME,), limit, limited=limited)
    began = time.perf_counter()
    runs = await store.claim(wanted)
    return Timed(runs, (time.perf_counter() - began) * 1000)


async def finish(store: Store, runs: Sequence[ClaimedRun]) -> None:
    writer = store.writer(WORKER)
    ends = [Commit(run.uid, run.fence, move=Move("succeeded")) for run in runs]
    await asyncio.gather(*map(writer.commit, ends))


async def claim_few(store: Store, queue: str) -> float:
    """Start a few runs, claim as many, finish them, and return how long the claim took."""
    key = "new" if queue == KEYED else None
    for number in range(BATCH):
        uid = f"new-{queue}-{number}-{time.monotonic_ns()}"
        await store.start(NewRun(uid, uid, NAME, b"j[]", "", queue=queue, flow_key=key))
    found = await claim(store, queue, BATCH, limited=queue == KEYED)
    assert len(found.runs) == BATCH, found.runs
    await finish(store, found.runs)
    return found.took


async def fill(load: Load, given: argparse.Namespace) -> None:
    """Insert the runs beside which claims are measured: finished, ready, with a key, asleep."""
    waiting = given.waiting
    await load.runs(
        "done", given.finished, queue=f"'{FREE}'", state="'succeeded'", due="NULL", finished="1"
    )
    await load.runs(FREE, waiting * 4 // 10, queue=f"'{FREE}'")
    await load.runs(KEYED, waiting * 4 // 10, queue=f"'{KEYED}'", key=BIG_AND_SMALL)
    asleep = {"state": "'waiting'", "due": "9000000000000000"}
    await load.runs("asleep", waiting // 10, queue=f"'{FREE}'", **asleep)
    await load.runs("late", waiting // 10, queue=f"'{KEYED}'", key=BIG_AND_SMALL, **asleep)
    await load.settle()


async def cost(empty: Store, full: Store, given: argparse.Namespace) -> bool:
    """Print what claims cost in an empty store and in a full one; measure them in turn."""
    is_good = True
    for queue in (FREE, KEYED):
        took: tuple[list[float], list[float]] = [], []
        for _ in range(ROUNDS):
            for store, times in zip((empty, full), took, strict=True):
                times.append(await claim_few(store, queue))
        before, after = (statistics.median(times[ROUNDS // 10 :]) for times in took)
        is_good &= after <= MAX_RATIO * before
        print(f"  claim of {BATCH} {queue:<5} runs: empty {before:5.2f} ms, beside"
              f" {given.finished:,} finished and {given.waiting:,} waiting {after:5.2f} ms,"
              f" {after / before:4.2f}x", flush=True)  # fmt: skip
    return is_good


async def claim_many(store: Store, queue: str, turns: int, *, limited: bool = True) -> list[Timed]:
    found: list[Timed] = []
    for _ in range(turns):
        found.append(await claim(store, queue, SLOTS, limited=limited))
        await finish(store, found[-1].runs)
    return found


async def turns(store: Store, load: Load, ahead: int, keys: int) -> bool:
    """Print after how many claims another key has its turn, behind many runs of one key."""
    await load.runs("a", ahead, key="'aaa'", queue="'turns'")
    await load.runs("b", keys, key="'key' || n", queue="'turns'", due="2")
    await load.settle()
    found = await claim_many(store, "turns", 10)
    order = [run.id for each in found for run in each.runs]
    first = next(place for place, run in enumerate(order, 1) if run.startswith("b"))
    others = sum(run.startswith("b") for run in order)
    print(f"  {ahead:,} runs of a key ahead of {keys:,} keys: another key is claim {first},"
          f" {others:,} of {len(order):,} claims are of other keys; claiming {SLOTS} at once took"
          f" {_typical(found):.1f} ms", flush=True)  # fmt: skip
    return first <= 2 * SLOTS


async def few_keys(store: Store, load: Load, keys: int = 500) -> None:
    """Print how long it takes to claim as many runs as a worker has slots, of many keys."""
    await load.runs("few", 20 * SLOTS, key=f"'key' || (n % {keys})", queue="'few'")
    await load.runs("many", 20 * SLOTS, queue="'many'")
    await load.settle()
    keyed = _typical(await claim_many(store, "few", 10))
    free = _typical(await claim_many(store, "many", 10, limited=False))
    print(f"  claiming {SLOTS} at once: {keyed:.1f} ms of {keys} keys, {free:.1f} ms without keys",
          flush=True)  # fmt: skip


CLOSED = {
    "that may have no runs": DeclaredLimits(0),
    "that have the one run they may have": DeclaredLimits(1),
    "that have used up their rate": DeclaredLimits(rate=Rate(1, HOUR)),
}


async def closed(store: Store, load: Load, keys: int) -> bool:
    """Print how a key is found behind many keys that have no room, for each reason."""
    is_good = True
    for number, (why, limits) in enumerate(CLOSED.items()):
        queue = f"closed{number}"
        await store.declare(FlowId(FlowKind.KEY, "*", queue), limits)
        await store.declare(FlowId(FlowKind.KEY, "open", queue), DeclaredLimits(SLOTS, OFTEN))
        await load.runs(f"first{number}", keys, key="'key' || n", queue=f"'{queue}'")
        await load.runs(f"next{number}", keys, key="'key' || n", queue=f"'{queue}'", due="2")
        await load.settle()
        while runs := (await claim(store, queue, 10 * SLOTS, limited=True)).runs:
            if limits.rate is not None:
                await finish(store, runs)
        await load.runs(f"open{number}", 4 * SLOTS, key="'open'", queue=f"'{queue}'", due="3")
        await load.settle()
        found = await claim_many(store, queue, 4)
        claimed = sum(len(each.runs) for each in found)
        print(f"  {keys:,} keys {why}: a claim of {claimed // 4} runs of the one with room took"
              f" {_typical(found):.1f} ms", flush=True)  # fmt: skip
        is_good &= claimed == 4 * SLOTS and _typical(found) <= MAX_CLOSED_MS
    return is_good


def _typical(found: Sequence[Timed]) -> float:
    return statistics.median(each.took for each in found)


async def shares(store: Store, load: Load) -> bool:
    """Print how two keys with endless work share claims by their weights."""
    await store.change_flow(
        FlowId(FlowKind.KEY, "heavy", "shares"), lambda row: row._replace(weight=WEIGHT)
    )
    for key in ("heavy", "light"):
        await load.runs(key, SHARED, key=f"'{key}'", queue="'shares'")
    order: list[str] = []
    limits = (1, 2, 5, 10, 7, 100, 3)  # workers with few free slots, and with many
    while len(order) < SHARED:
        limit = min(limits[len(order) % len(limits)], SHARED - len(order))
        found = await claim(store, "shares", limit, limited=True)
        await finish(store, found.runs)
        order += [run.id for run in found.runs]
    heavy = sum(run.startswith("heavy") for run in order)
    ratio = heavy / (len(order) - heavy)
    print(f"  weights {WEIGHT}:1, {len(order):,} claims: {heavy:,} and {len(order) - heavy:,},"
          f" {ratio:.3f}:1", flush=True)  # fmt: skip
    return abs(ratio / WEIGHT - 1) <= MAX_DEVIATION


async def plans(load: Load) -> None:
    """Print how the database answers the statements of a claim."""
    dialect = Dialect(postgres=True, database_time=True) if load.is_postgres else Dialect()
    statements = dialect.statements()
    settings = {"plan_cache_mode": "force_generic_plan", "enable_seqscan": "off",
                "search_path": "onward"}  # fmt: skip
    for name in (name for name in STATEMENTS if name in statements):
        statement = statements[name]
        print(f"  {name}:")
        if not load.is_postgres:
            with closing(sqlite3.connect(load.url)) as file:
                nothing = [None] * len(statement.parameters)
                for *_, step in file.execute(f"EXPLAIN QUERY PLAN {statement.sql}", nothing):
                    print(f"    {step}")
            continue
        connection = await asyncpg.connect(load.url, server_settings=settings)
        await connection.execute(f"PREPARE statement AS {statement.sql}")
        values = ", ".join(["NULL"] * len(statement.parameters))
        execute = f"EXECUTE statement({values})" if values else "EXECUTE statement"
        for row in await connection.fetch(f"EXPLAIN (COSTS OFF) {execute}"):
            print(f"    {row[0]}")
        await connection.close()


async def measure(empty_url: str, url: str, given: argparse.Namespace) -> bool:
    load = Load(url)
    async with open_store(empty_url) as empty, open_store(url) as store:
        for each in (empty, store):
            await each.take_lease(WORKER, HOUR)
            await each.declare(FlowId(FlowKind.KEY, "*", KEYED), DeclaredLimits(50))
            for queue in (FREE, KEYED):  # so that all plans are made
                await claim_few(each, queue)
        await fill(load, given)
        is_good = [await cost(empty, store, given)]
        is_good.append(await turns(store, load, given.waiting, given.keys))
        await few_keys(store, load)
        is_good.append(await closed(store, load, given.keys))
        is_good.append(await shares(store, load))
    await plans(load)
    return all(is_good)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--finished", type=int, default=1_000_000)
    parser.add_argument("--waiting", type=int, default=100_000)
    parser.add_argument("--keys", type=int, default=10_000)
    parser.add_argument("--only", choices=["sqlite", "postgres"])
    given = parser.parse_args()
    is_good = True
    if given.only != "postgres":
        print("sqlite:")
        with tempfile.TemporaryDirectory() as folder:
            urls = str(Path(folder) / "empty.db"), str(Path(folder) / "full.db")
            is_good &= asyncio.run(measure(*urls, given))
    if given.only != "sqlite":
        print("postgres:")
        with PostgresServer.start() as server:
            urls = server.create_database(), server.create_database()
            is_good &= asyncio.run(measure(*urls, given))
    return 0 if is_good else 1


if __name__ == "__main__":
    sys.exit(main())
