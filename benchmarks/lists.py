"""Lists, counts and groups in a large store: how long each takes, and the plan of its statement.

The store holds finished runs (a few failed, some with effects, many children of one map) and
waiting runs, half of them ready. Each question of operators is asked several times. The median and
the 95th percentile are printed, and `over 100 ms` where the latter is; `onward doctor` may take ten
seconds. `--plans` adds the plans.

    python -m benchmarks.lists                         1,000,000 finished and 100,000 waiting runs
    python -m benchmarks.lists --finished 10000 --waiting 1000 --plans
"""

from __future__ import annotations

import argparse
import asyncio
import sqlite3
import sys
import time
from contextlib import closing
from typing import TYPE_CHECKING, Any

import asyncpg

from benchmarks.large_store import (
    SCHEDULE,
    Size,
    add_options,
    postgres_store,
    size_of,
    sqlite_store,
)
from onward import App
from onward.core.instant import DAY
from onward.core.retention import Retention
from onward.model.run_filter import RunQuery
from onward.store.statements import Dialect

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

MAX_MS = 100
MAX_DOCTOR_MS = 10_000
MAX_SECONDS = 20
"""How long one question is asked again: if it is slow, that is the answer."""


def questions(size: Size) -> dict[str, Callable[[App], Awaitable[Any]]]:
    """Return what operators ask, by what they would call it."""
    some = f"order-{size.waiting + size.finished // 2}"
    first, parked = "order-2", "order-1"
    return {
        "runs": lambda app: app.runs(),
        "runs without children": lambda app: app.runs(children=False),
        "runs succeeded": lambda app: app.runs(state="succeeded"),
        "runs failed": lambda app: app.runs(state="failed"),
        "runs cancelled (none)": lambda app: app.runs(state="cancelled"),
        "runs waiting": lambda app: app.runs(state="waiting"),
        "runs running (none)": lambda app: app.runs(state="running"),
        "runs of a workflow": lambda app: app.runs(name="workflow-7"),
        "runs of no workflow": lambda app: app.runs(name="no such workflow"),
        "runs of a workflow, failed": lambda app: app.runs(name="workflow-0", state="failed"),
        "runs of a queue": lambda app: app.runs(queue="mail"),
        "runs of a queue, failed (none)": lambda app: app.runs(queue="mail", state="failed"),
        "runs of no queue": lambda app: app.runs(queue="no such queue"),
        "runs with a tag": lambda app: app.runs(tag="gpu"),
        "runs with no such tag": lambda app: app.runs(tag="none"),
        "runs of kind step (none)": lambda app: app.runs(kind="step"),
        "runs of an empty page": lambda app: app.runs(before="0"),
        "counts": lambda app: app.counts(),
        "count of a queue": lambda app: _count(app, RunQuery(queue="mail")),
        "count of no queue": lambda app: _count(app, RunQuery(queue="none")),
        "count of a workflow": lambda app: _count(app, RunQuery(name="workflow-7")),
        "count of runs that runs started": lambda app: app._engine.count_children(RunQuery(), 1000),
        "count of those that failed (none)": lambda app: app._engine.count_children(
            RunQuery(state="failed"), 1000
        ),
        "info": lambda app: app._engine.info(some),
        "beginning of an id": lambda app: app._engine.store.find_ids(some[:-1]),
        "beginning of no id": lambda app: app._engine.store.find_ids("no such id"),
        "why, ready": lambda app: app.why(first),
        "why, waiting": lambda app: app.why(parked),
        "why, ended": lambda app: app.why(some),
        "unserved": lambda app: app._engine.unserved(),
        "stats": lambda app: app._engine.stats(),
        "queues": lambda app: app.queues.list(),
        "dead letters": lambda app: app.dead.list(),
        "dead letters of an error": lambda app: app.dead.list(error="Declined"),
        "dead letters of no error": lambda app: app.dead.list(error="NoSuchError"),
        "count of dead letters": lambda app: app.dead.count(),
        "groups of dead letters": lambda app: app.dead.groups(),
        "effects pending": lambda app: app.effects.pending(),
        "effects of all runs": lambda app: app._engine.all_effects(limit=100, after=""),
        "effects, a later page": lambda app: app._engine.all_effects(
            limit=100, after=f"{size.finished // 2 // 100 * 100 + size.waiting:032x}"
        ),
        "schedules": lambda app: app.schedules.list(),
        "slots of a schedule": lambda app: app.schedules.slots(SCHEDULE),
        "bulk cancel, dry run": lambda app: app.bulk.cancel(dry_run=True),
        "bulk cancel of no queue, dry run": lambda app: app.bulk.cancel(dry_run=True, queue="none"),
        "bulk pause of a workflow, dry run": lambda app: app.bulk.pause(
            dry_run=True, name="workflow-7"
        ),
        "bulk retry, dry run": lambda app: app.bulk.retry(dry_run=True),
        "prune --dry-run, first part": lambda app: app._engine.prune(
            Retention(succeeded=DAY), None, dry_run=True
        ),
    }


DOCTOR = "onward doctor"


async def _examine(app: App) -> None:
    position: tuple[str, str] | None = None
    while True:
        part = await app._engine.examine(position, is_full=False)
        position = part.position
        if position is None:
            return


async def _count(app: App, query: RunQuery) -> int:
    return await app._engine.count_runs(query, 10_000)


async def ask(url: str, size: Size, times: int, only: str) -> dict[str, tuple[float, float]]:
    """Return the median and the 95th percentile of each question, in milliseconds."""
    found: dict[str, tuple[float, float]] = {}
    async with App(url) as app:
        for name, question in (questions(size) | {DOCTOR: _examine}).items():
            if only not in name:
                continue
            taken = []
            for _ in range(times):
                begun = time.perf_counter()
                await question(app)
                taken.append((time.perf_counter() - begun) * 1000)
                if sum(taken) > MAX_SECONDS * 1000:
                    break
            taken.sort()
            found[name] = (
                taken[len(taken) // 2],
                taken[min(len(taken) - 1, int(len(taken) * 0.95))],
            )
    return found


def show(where: str, found: dict[str, tuple[float, float]]) -> bool:
    print(f"\n{where:40} {'p50 ms':>10} {'p95 ms':>10}")
    for name, (median, late) in found.items():
        over = f"  over {_max_ms(name)} ms" if late > _max_ms(name) else ""
        print(f"{name:40} {median:10.1f} {late:10.1f}{over}")
    return all(late <= _max_ms(name) for name, (_, late) in found.items())


def _max_ms(name: str) -> int:
    return MAX_DOCTOR_MS if name == DOCTOR else MAX_MS


GROUPS = ("next_", "dead_", "ends_of_", "open_effects",
          "runs_beginning", "newest_slots", "queue_depths", "open_counts", "retention_facts",
          "ended_runs", "runs_in_need", "rare_needs", "ready_in_need",
          "some_runs_to_check", "late_in_need", "leases_with_runs", "paused_runs")  # fmt: skip


def is_planned(name: str) -> bool:
    return name.startswith(("list_", "count_", "check_", *GROUPS))


def plans_of_sqlite(path: str) -> None:
    with closing(sqlite3.connect(path)) as connection:
        for name, statement in Dialect().statements().items():
            if is_planned(name):
                print(f"\n{name} on SQLite")
                values = [None] * len(statement.parameters)
                for row in connection.execute(f"EXPLAIN QUERY PLAN {statement.sql}", values):
                    print(f"  {row[3]}")


async def plans_of_postgres(url: str) -> None:
    settings = {"plan_cache_mode": "force_generic_plan", "search_path": "onward"}
    connection = await asyncpg.connect(url, server_settings=settings)
    for name, statement in Dialect(postgres=True, database_time=True).statements().items():
        if is_planned(name):
            print(f"\n{name} on Postgres")
            await connection.execute(f"PREPARE p_{name} AS {statement.sql}")
            values = ", ".join(["NULL"] * len(statement.parameters))
            given = f"({values})" if values else ""
            for row in await connection.fetch(f"EXPLAIN EXECUTE p_{name}{given}"):
                print(f"  {row[0]}")
    await connection.close()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    add_options(parser)
    parser.add_argument("--times", type=int, default=20)
    parser.add_argument("--plans", action="store_true", help="print the plans of the statements")
    parser.add_argument("--question", default="", help="only questions with this in their name")
    asked = parser.parse_args()
    size = size_of(asked)
    in_time = True
    if asked.only != "postgres":
        with sqlite_store(size, asked.keep) as path:
            in_time &= show("SQLite", asyncio.run(ask(path, size, asked.times, asked.question)))
            if asked.plans:
                plans_of_sqlite(path)
    if asked.only != "sqlite":
        with postgres_store(size, asked.keep) as url:
            in_time &= show("Postgres", asyncio.run(ask(url, size, asked.times, asked.question)))
            if asked.plans:
                asyncio.run(plans_of_postgres(url))
    return 0 if in_time else 1


if __name__ == "__main__":
    sys.exit(main())
