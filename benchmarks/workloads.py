"""Seven workloads on both databases, for one source tree or for several side by side.

    W1   many runs of ten steps each, all at once, after a few others: steps a second
    W2   one short run at a time, from its start to its result: milliseconds (median, 99th percent)
    W3   one run of many steps, one after the other: milliseconds a step
    W4   many runs without steps: starts a second while no worker is up, then runs a second with one
    W5   one run that starts a thousand children at once: seconds
    W6   many runs that sleep until the same moment: seconds from that moment to the last result
    W7   ten thousand starts at once: starts a second

Each workload runs in a process of its own, whose CPU time is measured, too: it says more than the
time that passed where other programs use the machine. Several trees take turns within a round, so
that a slow moment of the machine hits all of them. With `--tuned` the garbage collector runs as
rarely as in a process that is a worker and nothing else, in the same way for all trees. With
`--remote` the last tree is measured once more, through a server in a process of its own, whose CPU
time is another figure.

    python benchmarks/workloads.py --tuned
    python benchmarks/workloads.py --tuned --tree ../before --tree . --rounds 5 --only W1 W5
    python benchmarks/workloads.py --tuned --remote --only W1 W3 W7
    python benchmarks/workloads.py --json > figures.json
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import onward
from onward import App, step, workflow

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

ROOT = Path(__file__).parents[1]
STEPS = 10
ENDED: list[None] = []
UNITS = {
    "W1 steps/s": 1, "W2 p50 ms": -1, "W2 p99 ms": -1, "W3 ms/step": -1,
    "W4 starts/s": 1, "W4 drain/s": 1, "W5 s": -1, "W6 late s": -1, "W7 starts/s": 1, "CPU s": -1,
}  # fmt: skip
"""What is measured, and whether more (1) or less (-1) is better."""


@step
async def add(n: int) -> int:
    return n + 1


@workflow
async def count(steps: int) -> int:
    n = 0
    for _ in range(steps):
        n = await add(n)
    return n


@workflow
async def nothing(n: int) -> int:
    ENDED.append(None)
    return n


@workflow
async def family(size: int) -> int:
    return sum(await asyncio.gather(*(nothing(n) for n in range(size))))


@workflow
async def sleeper(until: datetime) -> None:
    await onward.sleep_until(until)


async def started(app: App, number: int) -> float:
    """Start runs of `nothing`, five hundred at a time, and return how many a second."""
    began = time.perf_counter()
    for at in range(0, number, 500):
        size = min(500, number - at)
        await asyncio.gather(*(app.start(nothing, n) for n in range(size)))
    return number / (time.perf_counter() - began)


async def w1(app: App, runs: int = 1000) -> dict[str, float]:
    async with app.worker():  # or W1 would also measure how connections are opened
        await asyncio.gather(*(app.run(count, 3) for _ in range(50)))
    async with app.worker(slots=runs):
        began = time.perf_counter()
        handles = await asyncio.gather(*(app.start(count, STEPS) for _ in range(runs)))
        await asyncio.gather(*(run.result() for run in handles))
        return {"W1 steps/s": runs * STEPS / (time.perf_counter() - began)}


async def w2(app: App, times: int = 200) -> dict[str, float]:
    async with app.worker():
        await app.run(count, 1)
        took = []
        for _ in range(times):
            began = time.perf_counter()
            await app.run(count, 1)
            took.append((time.perf_counter() - began) * 1000)
        return {"W2 p50 ms": statistics.median(took), "W2 p99 ms": sorted(took)[times * 99 // 100]}


async def w3(app: App, steps: int = 1000) -> dict[str, float]:
    async with app.worker():
        began = time.perf_counter()
        await app.run(count, steps)
        return {"W3 ms/step": (time.perf_counter() - began) * 1000 / steps}


async def w4(app: App, runs: int = 5000) -> dict[str, float]:
    rate = await started(app, runs)
    began = time.perf_counter()
    async with app.worker(slots=1000):
        while len(ENDED) < runs:  # noqa: ASYNC110 - the bodies only count
            await asyncio.sleep(0.005)
        while (await app.counts()).get("succeeded", 0) < runs:  # noqa: ASYNC110 - as above
            await asyncio.sleep(0.005)
        return {"W4 starts/s": rate, "W4 drain/s": runs / (time.perf_counter() - began)}


async def w5(app: App, children: int = 1000) -> dict[str, float]:
    async with app.worker(slots=2000):
        await app.run(family, 1)
        began = time.perf_counter()
        await app.run(family, children)
        return {"W5 s": time.perf_counter() - began}


async def w6(app: App, runs: int = 2000, seconds: float = 4) -> dict[str, float]:
    async with app.worker(slots=1000, warm=10):
        due = onward.now() + timedelta(seconds=seconds)
        handles = await asyncio.gather(*(app.start(sleeper, due) for _ in range(runs)))
        await asyncio.gather(*(run.result() for run in handles))
        return {"W6 late s": (onward.now() - due).total_seconds()}


async def w7(app: App, runs: int = 10_000) -> dict[str, float]:
    began = time.perf_counter()
    await asyncio.gather(*(app.start(nothing, n) for n in range(runs)))
    return {"W7 starts/s": runs / (time.perf_counter() - began)}


WORKLOADS: dict[str, Callable[[App], Awaitable[dict[str, float]]]] = {
    "W1": w1, "W2": w2, "W3": w3, "W4": w4, "W5": w5, "W6": w6, "W7": w7,
}  # fmt: skip


def tune_collector() -> None:
    # Not by the engine: every tree is to be measured with the same collector.
    gc.collect()
    gc.freeze()
    gc.set_threshold(100_000, 50, 100)


async def measure(name: str, url: str, *, tuned: bool) -> dict[str, float]:
    if tuned:
        tune_collector()
    began = time.process_time()
    async with App(url) as app:
        figures = await WORKLOADS[name](app)
    return figures | {f"{name} CPU s": time.process_time() - began}


class Column(NamedTuple):
    """What is measured: the engine of a tree, embedded or behind a server."""

    tree: Path
    is_remote: bool = False

    @property
    def head(self) -> str:
        return "remote" if self.is_remote else self.tree.resolve().name[:12]

    @property
    def environment(self) -> dict[str, str]:
        return {**os.environ, "PYTHONPATH": str(self.tree.resolve() / "src")}


def runner_of_servers() -> asyncio.Runner:
    """Return what `onward server` runs on; earlier trees have no function for it."""
    try:
        from onward.cli.server import server_runner
    except ImportError:
        return asyncio.Runner()
    return server_runner()


async def serve(url: str) -> None:
    """Serve a database until the input ends: print the address, and at the end the CPU time."""
    from onward.server.process import OnwardServer

    tune_collector()
    async with OnwardServer(url, grpc="127.0.0.1:0") as server:
        began = time.process_time()
        print(server.address, flush=True)
        await asyncio.to_thread(sys.stdin.read)
        print(time.process_time() - began, flush=True)


def ask(column: Column, name: str, url: str, *, tuned: bool) -> dict[str, float]:
    """Measure one workload in a process that imports the engine from a tree."""
    if not column.is_remote:
        return ask_at(column, name, url, tuned=tuned)
    command = [sys.executable, __file__, "--serve", url]
    pipe = subprocess.PIPE
    with subprocess.Popen(
        command, env=column.environment, stdin=pipe, stdout=pipe, text=True
    ) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        address = server.stdout.readline().strip()
        figures = ask_at(column, name, f"onward://{address}", tuned=tuned)
        server.stdin.close()
        return figures | {f"{name} server CPU s": float(server.stdout.readline())}


def ask_at(column: Column, name: str, url: str, *, tuned: bool) -> dict[str, float]:
    command = [sys.executable, __file__, "--measure", name, url, *(["--tuned"] if tuned else [])]
    answer = subprocess.run(
        command, env=column.environment, check=True, capture_output=True, text=True
    )
    figures: dict[str, float] = json.loads(answer.stdout.splitlines()[-1])
    return figures


def compare(
    columns: list[Column], names: Iterable[str], rounds: int, *, tuned: bool
) -> dict[str, list[list[float]]]:
    """Return for each figure, by its database and title, a list a tree of what each round gave."""
    # Not above: a measuring process may have an older tree, which need not have what this imports.
    sys.path.insert(0, str(ROOT))
    from benchmarks.group_commit import durable_postgres

    found: dict[str, list[list[float]]] = {}
    with (
        tempfile.TemporaryDirectory() as files,
        tempfile.TemporaryDirectory() as folder,
        durable_postgres(Path(folder)) as server,
    ):
        for number in range(rounds):
            for name in names:
                for place, column in enumerate(columns):
                    file = str(Path(files, f"{number}-{name}-{place}.db"))
                    urls = {"SQLite": file, "Postgres": server.create_database()}
                    for database, url in urls.items():
                        for title, figure in ask(column, name, url, tuned=tuned).items():
                            figures = found.setdefault(f"{database} {title}", [[] for _ in columns])
                            figures[place].append(figure)
                print(f"round {number + 1} of {rounds}: {name} measured", file=sys.stderr)
    return found


def show(found: dict[str, list[list[float]]], columns: list[Column]) -> None:
    heads = "".join(f"{column.head:>14}" for column in columns)
    print(f"{'':26}{heads}    last beside first")
    for title, figures in found.items():
        figure = title.split(" ", 1)[1]
        sign = UNITS["CPU s" if figure.endswith("CPU s") else figure]
        medians = [statistics.median(each) if each else 0 for each in figures]
        ratios = [
            (last / first) ** sign for first, last in zip(figures[0], figures[-1], strict=False)
        ]
        beside = f"{statistics.median(ratios):14.2f} x" if len(columns) > 1 and ratios else ""
        print(f"{title:26}" + "".join(f"{each:14,.2f}" for each in medians) + beside)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tree", type=Path, action="append", help="a source tree; may repeat")
    parser.add_argument("--only", nargs="+", choices=WORKLOADS, default=list(WORKLOADS))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--tuned", action="store_true", help="let the collector run rarely")
    parser.add_argument("--remote", action="store_true", help="also measure through a server")
    parser.add_argument("--serve", metavar="URL", help=argparse.SUPPRESS)
    parser.add_argument("--json", action="store_true", help="print every round's figures as JSON")
    parser.add_argument("--measure", nargs=2, metavar=("WORKLOAD", "URL"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        print(json.dumps(asyncio.run(measure(*options.measure, tuned=options.tuned))))
        return
    if options.serve:
        with runner_of_servers() as runner:
            runner.run(serve(options.serve))
        return
    columns = [Column(tree) for tree in options.tree or [ROOT]]
    if options.remote:
        columns.append(Column(columns[-1].tree, is_remote=True))
    found = compare(columns, options.only, options.rounds, tuned=options.tuned)
    if options.json:
        print(json.dumps(found, indent=2))
    else:
        show(found, columns)


if __name__ == "__main__":
    main()
