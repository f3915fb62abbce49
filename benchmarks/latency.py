"""How long one waits when nothing else is to be done, beside DBOS, in one run.

    start to finish    a run of one step, from the call that starts it to its result
    signal to result   a run that is parked, from the call that sends the signal to its result

Worker and client are one process, as with DBOS. The last lines show what a worker asks of the
database while it has nothing to do.

    python benchmarks/latency.py --times 200
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from onward import App, Signal, step, workflow

sys.path.insert(0, str(Path(__file__).parents[1]))
from benchmarks.group_commit import durable_postgres
from benchmarks.steps import ask_dbos

if TYPE_CHECKING:
    from collections.abc import Sequence

go = Signal("go", int)


@step
async def add(n: int) -> int:
    return n + 1


@workflow
async def short(n: int) -> int:
    return await add(n)


@workflow
async def told() -> int:
    return await go.wait()


async def ours(url: str, times: int) -> dict[str, list[float]]:
    app = App(url)
    finish, resume = [], []
    async with app, app.worker(workflows=[short, told]):
        await app.run(short, 1)
        for _ in range(times):
            began = time.perf_counter()
            await app.run(short, 1)
            finish.append((time.perf_counter() - began) * 1000)
        for _ in range(times):
            run = await app.start(told)
            while await run.state() != "waiting":  # noqa: ASYNC110 - nobody tells us
                await asyncio.sleep(0.002)
            began = time.perf_counter()
            await run.signal(go, 1)
            await run.result()
            resume.append((time.perf_counter() - began) * 1000)
    return {"finish": finish, "resume": resume}


async def idle(url: str, seconds: float) -> float:
    """Return how many statements an idle worker sends in a minute."""
    app = App(url)
    asked = 0
    async with app, app.worker(workflows=[short]):
        database = app._store.database
        read, claim = database.read, database.claim

        async def counted_read(work: object) -> object:
            nonlocal asked
            asked += 1
            return await read(work)

        async def counted_claim(*given: object) -> object:
            nonlocal asked
            asked += 1
            return await claim(*given)

        database.read, database.claim = counted_read, counted_claim
        await asyncio.sleep(seconds)
    return asked * 60 / seconds


def show(store: str, mine: dict[str, list[float]], peer: dict[str, list[float]]) -> None:
    for what, title in (("finish", "start to finish"), ("resume", "signal to result")):
        us, them = _middle(mine[what]), _middle(peer[what])
        print(
            f"{store:9} {title:17} {us[0]:9.2f} {us[1]:9.2f}   {them[0]:9.2f} {them[1]:9.2f}"
            f"   {them[0] / us[0]:7.1f}x"
        )


def _middle(values: Sequence[float]) -> tuple[float, float]:
    return statistics.median(values), sorted(values)[int(len(values) * 0.95)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--times", type=int, default=100)
    parser.add_argument("--idle", type=float, default=10.0, help="seconds to watch an idle worker")
    given = parser.parse_args()
    print("milliseconds                  ours p50       p95    DBOS p50       p95   ours is")
    with tempfile.TemporaryDirectory() as folder, durable_postgres(Path(folder)) as server:
        here = Path(folder)
        file, url = str(here / "ours.db"), server.create_database()
        show(
            "SQLite",
            asyncio.run(ours(file, given.times)),
            ask_dbos("dbos_latency.py", f"sqlite:///{here / 'dbos.db'}", given.times // 5),
        )
        show(
            "Postgres",
            asyncio.run(ours(url, given.times)),
            ask_dbos("dbos_latency.py", server.create_database(), given.times // 5),
        )
        for store, address in (("SQLite", file), ("Postgres", url)):
            asked = asyncio.run(idle(address, given.idle))
            print(f"{store:9} an idle worker sends {asked:.0f} statements a minute")


if __name__ == "__main__":
    main()
