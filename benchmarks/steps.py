"""Steps a second, beside the floor of a bare group commit and beside DBOS, in one run.

    W1   many runs of ten steps each, all at once
    W3   one run of many steps, one after the other

The floor is the least that is still durable: a coroutine a run, a row a step (as wide as ours), one
flusher that writes whatever gathered while it was writing. No claims, no fence, no replay, no
retries, no checks. DBOS is installed into an environment of its own on first use.

    make bench
    python benchmarks/steps.py --runs 1000 --rounds 3
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import subprocess
import sys
import tempfile
import time
import venv
from pathlib import Path
from typing import TYPE_CHECKING, Any

import asyncpg

from onward import App, step, workflow
from onward.runtime.worker.process import tune_collector

sys.path.insert(0, str(Path(__file__).parents[1]))
from benchmarks.group_commit import (
    POSTGRES_INSERT,
    SQLITE_INSERT,
    a_row,
    bare_file,
    durable_postgres,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

ROOT = Path(__file__).parents[1]
STEPS = 10


@step
async def add(n: int) -> int:
    return n + 1


@workflow
async def count(steps: int) -> int:
    n = 0
    for _ in range(steps):
        n = await add(n)
    return n


async def ours(url: str, runs: int, long: int) -> tuple[float, float]:
    """Return W1 in steps a second and W3 in milliseconds a step."""
    tune_collector()  # as `onward worker` does
    app = App(url)
    async with app, app.worker(slots=max(runs, 100)):
        began = time.perf_counter()
        started = await asyncio.gather(*(app.start(count, STEPS) for _ in range(runs)))
        await asyncio.gather(*(run.result() for run in started))
        rate = runs * STEPS / (time.perf_counter() - began)
        began = time.perf_counter()
        await app.run(count, long)
        return rate, (time.perf_counter() - began) * 1000 / long


class Flusher:
    """Group commit and nothing else: rows of the width of ours, in a table of the same shape."""

    def __init__(self, write: Callable[[list[tuple[Any, ...]]], Awaitable[None]]) -> None:
        self._write = write
        self._rows: list[tuple[tuple[Any, ...], asyncio.Future[None]]] = []
        self._task: asyncio.Task[None] | None = None

    def put(self, run: str, number: int) -> asyncio.Future[None]:
        loop = asyncio.get_running_loop()
        done: asyncio.Future[None] = loop.create_future()
        self._rows.append((a_row(run, number), done))
        if self._task is None:
            self._task = loop.create_task(self._flush())
        return done

    async def _flush(self) -> None:
        while self._rows:
            rows, self._rows = self._rows, []
            await self._write([row for row, _ in rows])
            for _, done in rows:
                done.set_result(None)
        self._task = None


async def floor(flusher: Flusher, runs: int, long: int) -> tuple[float, float]:
    """Return W1 and W3 of the bare group commit."""

    async def one(run: str, steps: int) -> None:
        for number in range(steps):
            await flusher.put(run, number)

    began = time.perf_counter()
    uids = (f"01a1de9b-5b4c-728b-97c9-{number:012x}" for number in range(runs))
    await asyncio.gather(*(one(uid, STEPS) for uid in uids))
    rate = runs * STEPS / (time.perf_counter() - began)
    began = time.perf_counter()
    await one("01a1de9b-5b4c-728b-97c9-ffffffffffff", long)
    return rate, (time.perf_counter() - began) * 1000 / long


async def floor_sqlite(path: Path, runs: int, long: int) -> tuple[float, float]:
    connection = bare_file(path)

    def insert(rows: list[tuple[Any, ...]]) -> None:
        connection.execute("BEGIN IMMEDIATE")
        connection.executemany(SQLITE_INSERT, rows)
        connection.execute("COMMIT")

    try:
        return await floor(Flusher(lambda rows: asyncio.to_thread(insert, rows)), runs, long)
    finally:
        connection.close()


async def floor_postgres(url: str, runs: int, long: int) -> tuple[float, float]:
    connection = await asyncpg.connect(url, server_settings={"jit": "off"})

    async def write(rows: list[tuple[Any, ...]]) -> None:
        await connection.execute(POSTGRES_INSERT, *zip(*rows, strict=True))

    try:
        return await floor(Flusher(write), runs, long)
    finally:
        await connection.close()


def dbos(url: str, runs: int, long: int) -> tuple[float, float]:
    """Return W1 and W3 of DBOS, run in an environment of its own."""
    found = ask_dbos("dbos_steps.py", url, runs, long)
    return found["w1"], found["w3"]


def ask_dbos(script: str, *given: object) -> dict[str, Any]:
    """Run a script in an environment that has DBOS, and return what it printed."""
    python = ROOT / ".cache" / "dbos" / "bin" / "python"
    if not python.exists():
        venv.create(python.parents[1], with_pip=True)
        subprocess.run([python, "-m", "pip", "install", "-q", "dbos"], check=True)
    peer = Path(__file__).parent / "peers" / script
    command = [str(python), str(peer), *map(str, given)]
    told = subprocess.run(command, check=True, capture_output=True, text=True)
    found: dict[str, Any] = json.loads(told.stdout.splitlines()[-1])
    return found


def show(name: str, rounds: Sequence[tuple[tuple[float, float], ...]]) -> None:
    """Print a database's medians, each beside the others of the same round."""
    for place, title in ((0, "W1 steps/s  "), (1, "W3 ms/step  ")):
        mine, bare, peer = (
            statistics.median(each[who][place] for each in rounds) for who in range(3)
        )
        of_floor = statistics.median(
            (each[0][place] / each[1][place]) ** (1 - 2 * place) for each in rounds
        )
        times = (mine / peer) ** (1 - 2 * place)
        ours_and_floor = f"{mine:12,.2f} {bare:12,.2f} {of_floor:10.0%}"
        print(f"{name:9} {title} {ours_and_floor} {peer:12,.2f} {times:9.0f}x")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--runs", type=int, default=1000, help="runs of W1, all at once")
    parser.add_argument("--steps", type=int, default=1000, help="steps of W3")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    sizes = (options.runs, options.steps)
    few = (max(options.runs // 5, 10), max(options.steps // 10, 50))

    print("                            ours        floor    of floor         DBOS  ours/DBOS")
    with tempfile.TemporaryDirectory() as folder, durable_postgres(Path(folder)) as server:
        on_sqlite, on_postgres = [], []
        for number in range(options.rounds):
            here = Path(folder, f"round-{number}")
            here.mkdir()
            on_sqlite.append(
                (
                    asyncio.run(ours(str(here / "ours.db"), *sizes)),
                    asyncio.run(floor_sqlite(here / "floor.db", *sizes)),
                    dbos(f"sqlite:///{here / 'dbos.db'}", *few),
                )
            )
            url = server.create_database()
            on_postgres.append(
                (
                    asyncio.run(ours(url, *sizes)),
                    asyncio.run(floor_postgres(url, *sizes)),
                    dbos(server.create_database(), *few),
                )
            )
        show("SQLite", on_sqlite)
        show("Postgres", on_postgres)


if __name__ == "__main__":
    main()
