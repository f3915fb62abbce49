"""What a map over many items costs in memory: how far the worker's process grows, and how long.

Each database has a worker in a process of its own, with the list, the results and the run that maps
in it as well. Memory is what the system says is resident, sampled while it works.

    python benchmarks/map_memory.py
    python benchmarks/map_memory.py --items 20000 --limit 10
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from onward import App, step, workflow

sys.path.insert(0, str(Path(__file__).parents[1]))
from benchmarks.group_commit import durable_postgres

if TYPE_CHECKING:
    from collections.abc import Sequence

GROWTH_MOST_MIB = 200
SAMPLE_SECONDS = 0.05
MIB = 1024 * 1024


@step
async def triple(n: int) -> int:
    return 3 * n


@workflow
async def map_as_list(count: int, limit: int) -> int:
    return sum(await triple.map(range(count), limit=limit))


@workflow
async def map_one_by_one(count: int, limit: int) -> int:
    total = 0
    async for result in triple.map(range(count), limit=limit):
        total += result
    return total


WAYS = {"list": map_as_list, "async for": map_one_by_one}


def resident() -> float:
    """Return how much memory this process has, in MiB."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / MIB


async def watch(most: list[float]) -> None:
    """Keep the largest size that this process ever had."""
    while True:
        most[0] = max(most[0], resident())
        await asyncio.sleep(SAMPLE_SECONDS)


async def measure(url: str, way: str, count: int, limit: int) -> dict[str, Any]:
    """Run one map and return what it took."""
    app = App(url)
    async with app, app.worker():
        await app.run(WAYS[way], limit, limit)  # what is needed once is there by now
        before = resident()
        most = [before]
        watcher = asyncio.create_task(watch(most))
        began = time.perf_counter()
        run = await app.start(WAYS[way], count, limit)
        total = await run.result()
        seconds = time.perf_counter() - began
        watcher.cancel()
        assert total == 3 * count * (count - 1) // 2, "a result is missing"
        chunks = sum(row.kind == "child" for row in await run.history())
    return {"before": before, "growth": most[0] - before, "seconds": seconds, "chunks": chunks}


def in_a_process(url: str, way: str, count: int, limit: int) -> dict[str, Any]:
    """Measure in a process of its own, so that nothing else is counted."""
    words = ["--measure", url, "--way", way, "--items", str(count), "--limit", str(limit)]
    told = subprocess.run([sys.executable, __file__, *words], check=True, stdout=subprocess.PIPE)
    found: dict[str, Any] = json.loads(told.stdout)
    return found


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--items", type=int, default=100_000)
    parser.add_argument("--limit", type=int, default=100)
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    parser.add_argument("--way", choices=list(WAYS), help=argparse.SUPPRESS)
    options = parser.parse_args(words)
    sizes = (options.items, options.limit)
    if options.measure:
        print(json.dumps(asyncio.run(measure(options.measure, options.way, *sizes))))
        return 0

    print(f"{options.items:,} items, {options.limit} at a time\n")
    print("                      before MiB   growth MiB   seconds   items/s   chunks")
    worst = 0.0
    with tempfile.TemporaryDirectory() as folder, durable_postgres(Path(folder)) as server:
        for name in ("SQLite", "Postgres"):
            for way in WAYS:
                file = str(Path(folder, f"{way.replace(' ', '-')}.db"))
                url = file if name == "SQLite" else server.create_database()
                took = in_a_process(url, way, *sizes)
                worst = max(worst, took["growth"])
                rate = options.items / took["seconds"]
                memory = f"{took['before']:10.0f} {took['growth']:12.0f}"
                rest = f"{took['seconds']:9.1f} {rate:9,.0f} {took['chunks']:8}"
                print(f"{name:9} {way:9}  {memory} {rest}")
    print(f"\nAt most {GROWTH_MOST_MIB} MiB are promised.")
    return 0 if worst < GROWTH_MOST_MIB else 1


if __name__ == "__main__":
    sys.exit(main())
