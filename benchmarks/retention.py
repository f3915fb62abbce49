"""Retention while steps are recorded: what it does to claims, and that what must stay stays.

A worker records steps at a given rate, and claims are timed. Meanwhile another process deletes the
finished runs of a large store: without a pause, as `onward prune` does, or with `--duty 0.2` for a
fifth of the time, as each worker does. It does so for ten seconds, then not for two and a half, in
turn. The 50th and 99th percentile of a claim are printed for both. At the end it is checked that
these are still there: open runs, finished runs with an open child, runs with an effect that is not
settled, and the ids of the deleted runs.

    python -m benchmarks.retention                     1,000,000 finished and 100,000 waiting runs
    python -m benchmarks.retention --finished 20000 --waiting 1000 --duty 0.2
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
from collections import Counter
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING

from benchmarks.large_store import (
    OPEN_CHILD_OF,
    UNSETTLED_OF,
    Size,
    add_options,
    postgres_store,
    size_of,
    sqlite_store,
)
from onward.core.instant import HOUR
from onward.core.retention import Retention
from onward.errors import NotFound
from onward.model.claims import Wanted
from onward.model.records import NewRecord
from onward.model.run_filter import RunQuery
from onward.model.runs import Move, NewRun
from onward.store import Commit, Store, open_store
from onward.store.runs.retention import prune

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from onward.model.retention import Position
    from onward.model.runs import ClaimedRun

NAME, QUEUE, WORKER = "measured", "measured", "benchmark"
KEEP = Retention(HOUR, HOUR, HOUR, HOUR)
MAX_RATIO = 2
STEPS_OF_RUN = 1000
BURST = 0.2
"""How many seconds a worker deletes at a time."""
TURN, BREAK = 10.0, 2.5
"""Seconds with and without retention, in turn. Both processes read the same monotonic clock."""


def is_turn() -> bool:
    """Return whether runs are deleted now."""
    return time.monotonic() % (TURN + BREAK) < TURN


class Load:
    """A worker that records steps, and claims that are timed."""

    def __init__(self, store: Store, rate: int) -> None:
        self._store = store
        self._writer = store.writer(WORKER)
        self._rate = rate
        self.steps = 0
        self.steps_in = {True: 0, False: 0}
        self.claims: dict[bool, list[float]] = {True: [], False: []}
        """How long each took, with and without retention."""

    async def record(self) -> None:
        """Record steps of one long run after another, so many a second."""
        begun, seq, run = time.monotonic(), 0, await self._claim("steps")
        while True:
            due = int((time.monotonic() - begun) * self._rate)
            if self.steps >= due:
                await asyncio.sleep(0.005)
                continue
            count = min(due - self.steps, 100, STEPS_OF_RUN - seq)
            records = [_record(run, seq + n + 1) for n in range(count)]
            commits = [Commit(run.uid, run.fence, (record,)) for record in records]
            await asyncio.gather(*map(self._writer.commit, commits))
            seq += count
            self.steps += count
            self.steps_in[is_turn()] += count
            if seq == STEPS_OF_RUN:
                await self._end(run)
                seq, run = 0, await self._claim("steps")

    async def time_claims(self) -> None:
        """Claim a run about fifty times a second."""
        while True:
            await self._end(await self._claim("claims"))
            await asyncio.sleep(0.02)

    async def _claim(self, queue: str) -> ClaimedRun:
        uid = self._store.new_uid()
        await self._store.start(NewRun(uid, uid, NAME, b"json:[]", "", queue=queue))
        begun, turn = time.perf_counter(), is_turn()
        [run] = await self._store.claim(Wanted(WORKER, (queue,), (NAME,), 1))
        if queue == "claims":
            self.claims[turn].append((time.perf_counter() - begun) * 1000)
        return run

    async def _end(self, run: ClaimedRun) -> None:
        await self._writer.commit(Commit(run.uid, run.fence, move=Move("succeeded")))


def _record(run: ClaimedRun, seq: int) -> NewRecord:
    name = f"step#{seq}"
    return NewRecord(run.uid, name, 1, seq, "step", "step", "succeeded", "hash", payload=b"json:1")


@asynccontextmanager
async def under_load(store: Store, rate: int) -> AsyncIterator[Load]:
    load = Load(store, rate)
    tasks = [asyncio.create_task(load.record()), asyncio.create_task(load.time_claims())]
    try:
        yield load
    finally:
        for task in tasks:
            if task.done():
                task.result()
            task.cancel()
        for task in tasks:
            with suppress(asyncio.CancelledError):
                await task


async def delete(url: str, duty: float, max_seconds: float) -> dict[str, int]:
    """Delete all that may be deleted; return rows by table, and whether nothing is left."""
    deleted: Counter[str] = Counter()
    position: Position | None = None
    end = time.monotonic() + max_seconds
    async with open_store(url) as store:
        while time.monotonic() < end:
            begun = time.monotonic()
            while is_turn() and time.monotonic() - begun < BURST:
                rows, position = await prune(store, KEEP, position)
                deleted.update(rows)
                if position is None:
                    return {**deleted, "is_done": 1}
            await asyncio.sleep(max(0.01, (time.monotonic() - begun) * (1 / duty - 1)))
    return dict(deleted)


async def delete_apart(url: str, asked: argparse.Namespace) -> dict[str, int]:
    """Delete in another process."""
    options = ["--delete", url, "--duty", str(asked.duty), "--max-seconds", str(asked.max_seconds)]
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "benchmarks.retention", *options, stdout=asyncio.subprocess.PIPE
    )
    out, _ = await process.communicate()
    rows: dict[str, int] = json.loads(out)
    return rows


async def check(store: Store, size: Size, deleted: int) -> list[str]:
    """Return what is not as it must be after all has been deleted."""
    wrong = []
    parents = {size.waiting + n + 1 for n in range(0, size.waiting, OPEN_CHILD_OF)}
    unsettled = {n for n in range(size.waiting, size.total) if n % UNSETTLED_OF == 0}
    for n in sorted(parents | unsettled):
        try:
            await store.newest(f"order-{n}")
        except NotFound:
            wrong.append(f"order-{n} was deleted")
    if deleted != size.finished - len(parents | unsettled):
        wrong.append(f"{deleted} runs were deleted")
    is_open = await store.count_runs(RunQuery(is_open=True), size.total)
    if is_open < size.waiting:
        wrong.append(f"only {is_open} open runs are left")
    some = set(range(size.waiting + 2, size.total, size.finished // 100)) - parents - unsettled
    answers = {n: str(await store.not_found(f"order-{n}")) for n in sorted(some)}
    forgotten = [n for n, answer in answers.items() if "deleted by retention" not in answer]
    return wrong + [f"the id order-{n} is forgotten" for n in forgotten]


def percentiles(taken: list[float]) -> tuple[float, float]:
    found = sorted(taken)
    return found[len(found) // 2], found[int(len(found) * 0.99)]


async def measure(where: str, url: str, size: Size, asked: argparse.Namespace) -> bool:
    async with open_store(url) as store:
        await store.take_lease(WORKER, 24 * HOUR)
        async with under_load(store, asked.rate) as load:
            begun = time.monotonic()
            rows = await delete_apart(url, asked)
            took = time.monotonic() - begun
        is_done = rows.pop("is_done", 0)
        wrong = await check(store, size, rows["onward_run"]) if is_done else []
    without, with_retention = percentiles(load.claims[False]), percentiles(load.claims[True])
    ratio = with_retention[1] / without[1]
    print(f"\n{where}: {rows['onward_run']:,} runs deleted in {took:.0f} s, {rows}")
    share = BREAK / (TURN + BREAK)
    for name, is_on, part in (("without", False, share), ("with", True, 1 - share)):
        p50, p99 = percentiles(load.claims[is_on])
        steps = load.steps_in[is_on] / (took * part)
        print(
            f"  {name:<7} retention: {steps:,.0f} steps/s, claim p50 {p50:.1f} ms, p99 {p99:.1f} ms"
        )
    print(f"  p99, with by without: {ratio:.2f}")
    print("  what must stay: " + ("; ".join(wrong) or "checked" if is_done else "not checked"))
    return not wrong and ratio <= MAX_RATIO


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    add_options(parser)
    parser.add_argument("--rate", type=int, default=1000, help="steps a second")
    parser.add_argument("--duty", type=float, default=1.0, help="the part of the time it deletes")
    parser.add_argument("--max-seconds", type=float, default=3600)
    parser.add_argument("--delete", metavar="URL", help="only delete, and print what as JSON")
    asked = parser.parse_args()
    if asked.delete:
        print(json.dumps(asyncio.run(delete(asked.delete, asked.duty, asked.max_seconds))))
        return 0
    size = size_of(asked)
    is_fine = True
    if asked.only != "postgres":
        with sqlite_store(size, asked.keep) as path:
            is_fine &= asyncio.run(measure("SQLite", path, size, asked))
    if asked.only != "sqlite":
        with postgres_store(size, asked.keep) as url:
            is_fine &= asyncio.run(measure("Postgres", url, size, asked))
    return 0 if is_fine else 1


if __name__ == "__main__":
    sys.exit(main())
