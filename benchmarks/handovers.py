"""How quickly two processes on one SQLite file notice each other, and what an idle one costs.

bare database   a row is inserted in one process; the other, which looks every millisecond,
                inserts an answer, for which the first looks likewise
start           a run is started in one process, its worker is in the other; to the result
within          the same, started through a plain sqlite3 connection in a transaction
idle            CPU of a process with a worker that has nothing to do

python benchmarks/handovers.py --times 500
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from onward import App, workflow
from onward.store.sqlite import admission

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

LOOK_SECONDS = 0.001


@workflow
async def echo(n: int) -> int:
    return n


# --- the bare database ----------------------------------------------------------------------------


def connect(path: str) -> sqlite3.Connection:
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("CREATE TABLE IF NOT EXISTS note (id INTEGER PRIMARY KEY, side TEXT)")
    return connection


def await_note(connection: sqlite3.Connection, number: int, side: str) -> None:
    asked = "SELECT 1 FROM note WHERE id = ? AND side = ?"
    while not connection.execute(asked, (number, side)).fetchall():
        time.sleep(LOOK_SECONDS)


def answer(path: str) -> None:
    with closing(connect(path)) as connection:
        print("ready", flush=True)
        number = 0
        while True:
            await_note(connection, 2 * number, "asked")
            connection.execute("INSERT INTO note VALUES (?, 'answered')", (2 * number + 1,))
            number += 1


def bare(path: str, times: int) -> list[float]:
    took = []
    with closing(connect(path)) as connection, other("answer", path):
        for number in range(times):
            began = time.perf_counter()
            connection.execute("INSERT INTO note VALUES (?, 'asked')", (2 * number,))
            await_note(connection, 2 * number + 1, "answered")
            took.append((time.perf_counter() - began) * 1000)
    return took


# --- Onward ---------------------------------------------------------------------------------------


async def work(path: str) -> None:
    app = App(path)
    async with app, app.worker(workflows=[echo]):
        print("ready", flush=True)
        await asyncio.Event().wait()


async def started(path: str, times: int) -> list[float]:
    took = []
    async with App(path) as app:
        for number in range(times):
            began = time.perf_counter()
            await (await app.start(echo, number)).result()
            took.append((time.perf_counter() - began) * 1000)
    return took


async def started_within(path: str, times: int) -> list[float]:
    took = []
    # With an old SQLite library this is refused between processes, as it may damage the file. This
    # file is thrown away.
    vars(admission)["has_wal_reset_bug"] = lambda: False
    async with App(path) as app:
        with closing(sqlite3.connect(path)) as connection:
            for number in range(times):
                began = time.perf_counter()
                run = await app.within(connection).start(echo, number)
                connection.commit()
                await run.result()
                took.append((time.perf_counter() - began) * 1000)
    return took


def idle_percent(pid: int, seconds: float) -> float:
    before = cpu_of(pid)
    time.sleep(seconds)
    return (cpu_of(pid) - before) / seconds * 100


def cpu_of(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextmanager
def other(role: str, path: str) -> Iterator[int]:
    """Run the other process, and yield its id once it is ready."""
    command = [sys.executable, __file__, "--role", role, "--file", path]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        try:
            yield process.pid
        finally:
            process.kill()


def show(title: str, took: Sequence[float], beside: Sequence[float]) -> None:
    ranked, middle = sorted(took), statistics.median(took)
    print(
        f"{title:15} {middle:9.1f} {ranked[int(len(ranked) * 0.95)]:9.1f}"
        f" {ranked[int(len(ranked) * 0.99)]:9.1f} {ranked[-1]:9.1f}"
        f"   {middle / statistics.median(beside):7.1f}x"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--times", type=int, default=500)
    parser.add_argument("--idle", type=float, default=20.0, help="seconds to watch an idle worker")
    parser.add_argument("--role", choices=("answer", "work"), help=argparse.SUPPRESS)
    parser.add_argument("--file", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.role == "answer":
        return answer(given.file)
    if given.role == "work":
        return asyncio.run(work(given.file))
    with tempfile.TemporaryDirectory() as folder:
        beside = bare(f"{folder}/bare.db", given.times)
        path = f"{folder}/ours.db"
        print("milliseconds          p50       p95       p99      most   to bare")
        show("bare database", beside, beside)
        with other("work", path) as pid:
            show("start", asyncio.run(started(path, given.times)), beside)
            show("within", asyncio.run(started_within(path, given.times)), beside)
            time.sleep(1)
            print(f"idle worker     {idle_percent(pid, given.idle):.2f} % of a core")
    return None


if __name__ == "__main__":
    main()
