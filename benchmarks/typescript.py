"""W1 with a worker in Node beside one in Python, through a server: steps a second.

The runs are started by a process of Python, and executed by a worker that is a process of its own,
once in Node and once in Python, in turn. Each worker has executed a few runs before, so that its
code is compiled. The server is a process of its own, too. Node and npm must be installed.

    python benchmarks/typescript.py
    python benchmarks/typescript.py --rounds 5 --runs 2000
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

sys.path.insert(0, str(Path(__file__).parents[1]))
from benchmarks.group_commit import durable_postgres
from benchmarks.workloads import ROOT, STEPS, count, tune_collector
from onward import App
from tests.clients.conftest import copy_client

if TYPE_CHECKING:
    from collections.abc import Iterator

WARM_RUNS = 50


def commands(client: Path) -> dict[str, list[str]]:
    """Return how each of the two workers is started."""
    return {
        "Node": ["node", str(client / "programs" / "steps_worker.js")],
        "Python": [sys.executable, __file__, "--work"],
    }


@contextmanager
def process(command: list[str], **environment: str) -> Iterator[str]:
    """Enter with the first line that a process prints; it ends with its input."""
    pipe = subprocess.PIPE
    with subprocess.Popen(
        command, stdin=pipe, stdout=pipe, text=True, env=os.environ | environment
    ) as started:
        assert started.stdout is not None
        try:
            yield started.stdout.readline().strip()
        finally:
            started.terminate()


async def measure(address: str, runs: int) -> float:
    """Return how many steps a second a worker executes."""
    async with App(f"onward://{address}") as app:

        async def execute(number: int) -> None:
            options = count.options(queue="node")
            started = await asyncio.gather(*(app.start(options, STEPS) for _ in range(number)))
            await asyncio.gather(*(run.result() for run in started))

        await execute(WARM_RUNS)
        began = time.perf_counter()
        await execute(runs)
        return runs * STEPS / (time.perf_counter() - began)


async def work(slots: int) -> None:
    """Be the worker in Python."""
    tune_collector()
    app = App(os.environ["ONWARD_URL"])
    async with app, app.worker(queues=["node"], workflows=[count], slots=slots):
        print("ready", flush=True)
        await asyncio.Event().wait()


def rate(runner: asyncio.Runner, url: str, command: list[str], runs: int) -> float:
    """Return the steps a second of one worker on a new database."""
    serve = [sys.executable, str(ROOT / "benchmarks" / "workloads.py"), "--serve", url]
    with (
        process(serve) as address,
        process(command, ONWARD_URL=f"onward://{address}", SLOTS=str(runs)),
    ):
        return runner.run(measure(address, runs))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--work", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work:
        asyncio.run(work(int(os.environ["SLOTS"])))
        return
    with (
        tempfile.TemporaryDirectory() as folder,
        durable_postgres(Path(folder)) as server,
        asyncio.Runner() as runner,  # one for all: gRPC keeps using its first loop
    ):
        workers = commands(copy_client(Path(folder)))
        print("                Node steps/s   Python steps/s   Node beside Python")
        for database in ("SQLite", "Postgres"):
            found: dict[str, list[float]] = {name: [] for name in workers}
            for number in range(options.rounds):
                for name, command in workers.items():
                    file = str(Path(folder, f"{number}-{name}.db"))
                    url = file if database == "SQLite" else server.create_database()
                    found[name].append(rate(runner, url, command, options.runs))
            node, python = (statistics.median(found[name]) for name in ("Node", "Python"))
            pairs = zip(found["Node"], found["Python"], strict=True)
            ratio = statistics.median(one / other for one, other in pairs)
            print(f"{database:14}{node:14,.0f}{python:17,.0f}{ratio:19.2f} x")


if __name__ == "__main__":
    main()
