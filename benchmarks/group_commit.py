"""Rows a second of our group commit, beside a bare insert of the same rows, in one run.

Two hundred writers each append records to a run of their own and wait for every one. The bare
insert writes rows of the same width, into a table of the same shape, in commits of the size that
our group commit reached: `executemany` on SQLite, `unnest` arrays on Postgres.

With `--workers 100`, so many workers of one process have a run each instead, on Postgres: first
with a group commit each, then all with the one that the store has for them.

    make bench                                           # everything
    python benchmarks/group_commit.py                    # this alone
    python benchmarks/group_commit.py --workers 100      # many workers
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import tempfile
import time
from itertools import count, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import asyncpg

from onward.model.records import NewRecord
from onward.model.runs import NewRun
from onward.store import Commit, Store, Wanted, open_store
from onward.store.sqlite.connection import connect
from onward.store.statements import Dialect, migrations
from onward.testing.postgres import PostgresServer

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterator

WORKER = "bench"
PAYLOAD = b'json:{"order":1234567,"state":"paid","items":["a","b","c"],"total":99.5}'
ARGUMENTS = b'json:{"order":1234567}'


def a_record(run: str, number: int) -> NewRecord:
    return NewRecord(
        run, f":charge#{number}", 1, number, "step", "charge", "succeeded", "9f86d081884c7d65",
        payload=PAYLOAD, args=ARGUMENTS,
    )  # fmt: skip


async def group_commit(store: Store, writers: int, seconds: float) -> tuple[float, float, float]:
    """Return rows a second, rows a commit, and the CPU microseconds of this process a row."""
    await store.take_lease(WORKER)
    uids = [store.new_uid() for _ in range(writers)]
    await asyncio.gather(*(store.start(NewRun(uid, uid, "bench", b"json:1", "h")) for uid in uids))
    claimed = await store.claim(Wanted(WORKER, ("default",), ("bench",), limit=writers))
    writer = store.writer(WORKER)
    end = time.perf_counter() + seconds

    async def write(uid: str, fence: int) -> int:
        number = 0
        while time.perf_counter() < end:
            number += 1
            await writer.commit(Commit(uid, fence, (a_record(uid, number),)))
        return number

    began, cpu = time.perf_counter(), time.process_time()
    rows = sum(await asyncio.gather(*(write(run.uid, run.fence) for run in claimed)))
    took = time.perf_counter() - began
    cpu_us = (time.process_time() - cpu) * 1e6 / rows
    await store.drop_lease(WORKER)
    batches = sum(lane.batches for lane in writer.group.lanes)
    return rows / took, rows / batches, cpu_us


async def many_workers(
    store: Store, count: int, seconds: float, *, are_shared: bool
) -> tuple[float, float, float]:
    """Return commits a second of workers with one run each, and the p50 and p99 of their length."""
    group = store.group_commit if are_shared else None
    names = [f"{store.new_uid()}" for _ in range(count)]
    runs = []
    for name in names:
        await store.take_lease(name)
        uid = store.new_uid()
        await store.start(NewRun(uid, uid, "bench", b"json:1", "h"))
        runs += await store.claim(Wanted(name, ("default",), ("bench",), limit=1))
    end = time.perf_counter() + seconds
    lengths: list[float] = []

    async def write(name: str, uid: str, fence: int) -> None:
        writer, number, begun = store.writer(name, group), 0, time.perf_counter()
        while begun < end:
            number += 1
            await writer.commit(Commit(uid, fence, (a_record(uid, number),)))
            now = time.perf_counter()
            lengths.append(now - begun)
            begun = now

    began = time.perf_counter()
    works = [write(name, run.uid, run.fence) for name, run in zip(names, runs, strict=True)]
    await asyncio.gather(*works)
    took = time.perf_counter() - began
    for name in names:
        await store.drop_lease(name)
        store.part(name)
    lengths.sort()
    return len(lengths) / took, lengths[len(lengths) // 2], lengths[len(lengths) * 99 // 100]


async def compare_workers(url: str, count: int, seconds: float, repeats: int) -> None:
    print(
        f"{count} workers with a run each, {repeats} rounds of {seconds:g} s, Postgres, medians\n"
    )
    print("                        commits/s   p50 ms   p99 ms")
    async with open_store(url) as store:
        results: dict[bool, list[tuple[float, float, float]]] = {False: [], True: []}
        for _ in range(repeats):
            for are_shared, found in results.items():
                found.append(await many_workers(store, count, seconds, are_shared=are_shared))
    for are_shared, found in results.items():
        rate, p50, p99 = (statistics.median(column) for column in zip(*found, strict=True))
        name = "one group commit" if are_shared else "a group commit each"
        print(f"{name:20} {rate:12,.0f} {p50 * 1e3:8.1f} {p99 * 1e3:8.1f}")


def a_row(run: str, number: int) -> tuple[Any, ...]:
    """Return a row as our store writes it."""
    return (
        "bare", run, f":charge#{number}", 1, number, "step", "charge", "succeeded",
        "9f86d081884c7d65", None, None, None, PAYLOAD, None, number, number, ARGUMENTS,
    )  # fmt: skip


def rows_forever(width: int) -> Iterator[tuple[Any, ...]]:
    """Yield rows as our store writes them, `width` runs in turn."""
    uids = [f"01a1de9b-5b4c-728b-97c9-{number:012x}" for number in range(width)]
    for number in count(1):
        for uid in uids:
            yield a_row(uid, number)


SQLITE_INSERT = f"INSERT INTO onward_record VALUES ({', '.join('?' * 17)})"
_TYPES = ["text"] * 3 + ["bigint"] * 2 + ["text"] * 5 + ["bigint"] * 2 + ["bytea"] * 2
_ARRAYS = ", ".join(
    f"${n}::{kind}[]" for n, kind in enumerate([*_TYPES, "bigint", "bigint", "bytea"], 1)
)
POSTGRES_INSERT = f"INSERT INTO onward.onward_record SELECT * FROM unnest({_ARRAYS})"


def bare_file(path: Path) -> sqlite3.Connection:
    """Return a connection to a file with our tables, set as our own connections are."""
    connection = connect(path)
    for statement in Dialect().script(migrations()[0]):
        connection.execute(statement)
    return connection


def bare_sqlite(path: Path, batch: int, seconds: float) -> float:
    connection = bare_file(path)
    source = rows_forever(200)
    written, began = 0, time.perf_counter()
    while time.perf_counter() - began < seconds:
        rows = list(islice(source, batch))
        connection.execute("BEGIN IMMEDIATE")
        connection.executemany(SQLITE_INSERT, rows)
        connection.execute("COMMIT")
        written += batch
    rate = written / (time.perf_counter() - began)
    connection.close()
    return rate


async def bare_postgres(url: str, batch: int, seconds: float) -> float:
    connection = await asyncpg.connect(url, server_settings={"jit": "off"})
    source = rows_forever(200)
    written, began = 0, time.perf_counter()
    while time.perf_counter() - began < seconds:
        rows = list(islice(source, batch))
        await connection.execute(POSTGRES_INSERT, *zip(*rows, strict=True))
        written += batch
    rate = written / (time.perf_counter() - began)
    await connection.close()
    return rate


async def on_sqlite(seconds: float, writers: int) -> tuple[float, float, float, float]:
    with tempfile.TemporaryDirectory() as folder:
        ours_at, bare_at = Path(folder, "ours.db"), Path(folder, "bare.db")
        async with open_store(str(ours_at)) as store:
            rate, batch, cpu = await group_commit(store, writers, seconds)
        bare = await asyncio.to_thread(bare_sqlite, bare_at, round(batch), seconds)
    return rate, batch, cpu, bare


async def on_postgres(seconds: float, writers: int, url: str) -> tuple[float, float, float, float]:
    async with open_store(url) as store:
        rate, batch, cpu = await group_commit(store, writers, seconds)
    bare = await bare_postgres(url, round(batch), seconds)
    return rate, batch, cpu, bare


def durable_postgres(folder: Path) -> PostgresServer:
    """Start a Postgres on disk that keeps what it acknowledges, as one in production does."""
    folder.chmod(0o755)
    settings = {
        "fsync": "on",
        "synchronous_commit": "on",
        "full_page_writes": "on",
        "shared_buffers": "256MB",
    }
    return PostgresServer.start(settings=settings, where=folder)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--seconds", type=float, default=2.0, help="how long each side runs")
    parser.add_argument("--writers", type=int, default=200)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--workers", type=int, help="compare many workers on Postgres instead")
    options = parser.parse_args()
    if options.workers is not None:
        with tempfile.TemporaryDirectory() as folder, durable_postgres(Path(folder)) as server:
            url = server.create_database()
            work = compare_workers(url, options.workers, options.seconds, options.repeats)
            asyncio.run(work)
        return

    print(
        f"{options.writers} writers, {options.repeats} rounds of {options.seconds:g} s, medians\n"
    )
    print("             ours rows/s   rows/commit   CPU µs/row   bare rows/s   ours / bare")
    with tempfile.TemporaryDirectory() as folder, durable_postgres(Path(folder)) as server:
        for name in ("SQLite FULL", "Postgres"):
            results = []
            for _ in range(options.repeats):
                if name == "Postgres":
                    url = server.create_database()
                    results.append(asyncio.run(on_postgres(options.seconds, options.writers, url)))
                    server.drop_database(url)
                else:
                    results.append(asyncio.run(on_sqlite(options.seconds, options.writers)))
            rate, batch, cpu, bare = (
                statistics.median(column) for column in zip(*results, strict=True)
            )
            ratio = statistics.median(result[0] / result[3] for result in results)
            print(f"{name:12} {rate:12,.0f} {batch:13.0f} {cpu:12.1f} {bare:13,.0f} {ratio:12.2f}")


if __name__ == "__main__":
    main()
