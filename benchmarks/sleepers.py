"""Ten thousand runs asleep in one worker: what they cost, and how late they wake.

All are due at the same moment, which is the worst case. They are evicted, so each is claimed, read
and replayed when its time has come.

    python benchmarks/sleepers.py            10,000 sleepers on SQLite and on Postgres
    python benchmarks/sleepers.py --count 2000
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import sys
import tempfile
import time
import tracemalloc
from datetime import datetime, timedelta
from pathlib import Path

import onward
from onward import App, workflow
from onward.runtime.worker.process import tune_collector
from onward.testing.postgres import PostgresServer

WARM = 10
SLOTS = 2000
AWAKE: list[float] = []


@workflow
async def sleeper(until: datetime) -> None:
    await onward.sleep_until(until)
    AWAKE.append(time.time())


async def starts(app: App, count: int, until: datetime) -> None:
    for at in range(0, count, 500):
        await asyncio.gather(*(app.start(sleeper, until) for _ in range(min(500, count - at))))


async def asleep(app: App, count: int) -> None:
    while (await app.counts()).get("waiting", 0) < count:  # noqa: ASYNC110 - nobody tells us
        await asyncio.sleep(0.1)


async def measure(url: str, count: int, seconds: float) -> dict[str, float]:
    AWAKE.clear()
    until = onward.now() + timedelta(seconds=seconds)
    app = App(url)
    async with app, app.worker(slots=SLOTS, warm=WARM) as worker:
        await starts(app, 100, onward.now())  # so that all code is loaded, and all caches are warm
        while len(AWAKE) < 100:  # noqa: ASYNC110 - nobody tells us
            await asyncio.sleep(0.01)
        AWAKE.clear()
        tune_collector()  # as `worker.serve()` does
        tracemalloc.start()
        before = tracemalloc.get_traced_memory()[0]
        await starts(app, count, until)
        await asleep(app, count)
        gc.collect()
        grown = tracemalloc.get_traced_memory()[0] - before
        tracemalloc.stop()
        held = len(worker.running)
        spare = until.timestamp() - time.time()
        while len(AWAKE) < count:  # noqa: ASYNC110 - nobody tells us
            await asyncio.sleep(0.05)
    late = [at - until.timestamp() for at in AWAKE]
    return {
        "bytes_each": grown / count,
        "slots_held": held,
        "asleep_before": spare,
        "first_late": min(late),
        "last_late": max(late),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--seconds", type=float, default=60.0, help="from the first start")
    given = parser.parse_args()
    print(f"{given.count:,} sleepers, {WARM} kept warm")
    print(f"{'store':10}{'bytes each':>12}{'slots held':>12}{'first late':>12}{'last late':>12}")
    with tempfile.TemporaryDirectory() as folder, PostgresServer.start() as server:
        for store, url in (
            ("sqlite", str(Path(folder) / "sleepers.db")),
            ("postgres", server.create_database()),
        ):
            seen = asyncio.run(measure(url, given.count, given.seconds))
            if seen["asleep_before"] < 0:
                print("They were due before all were asleep: give --seconds more.")
                return 1
            print(
                f"{store:10}{seen['bytes_each']:12.0f}{seen['slots_held']:12.0f}"
                f"{seen['first_late']:11.2f}s{seen['last_late']:11.2f}s"
            )
    return 0


if __name__ == "__main__":
    sys.exit(main())
