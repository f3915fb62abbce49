"""A store with many finished and waiting runs, for benchmarks: filled past the engine, and kept.

To fill a store of a million runs takes minutes. With `--keep FOLDER` it is filled once, as a file
in that folder and as a template database in the server of ONWARD_TEST_POSTGRES_URL, and copied
from there.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import sqlite3
import tempfile
import time
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import asyncpg

from onward import App
from onward.core.ids import uid7
from onward.core.instant import DAY, MINUTE
from onward.testing.postgres import VARIABLE, PostgresServer

if TYPE_CHECKING:
    import argparse
    from collections.abc import AsyncIterator, Iterator

COLUMNS = {
    "onward_run": (
        "namespace", "uid", "id", "kind", "name", "queue", "tags", "state", "due", "fence", "seq",
        "parent", "parent_identity", "cancel_with_parent", "error_type", "failed_step",
        "created_at", "finished_at", "updated_at",
    ),
    "onward_run_data": ("namespace", "uid", "input", "args_hash"),
    "onward_record": (
        "namespace", "run", "identity", "attempt", "seq", "kind", "name", "state", "payload",
        "opened_at", "closed_at",
    ),
    "onward_effect": (
        "namespace", "key", "run", "identity", "name", "args", "args_hash", "state", "version",
        "attempt", "created_at", "updated_at",
    ),
    "onward_slot": (
        "namespace", "schedule", "at", "until", "slots", "disposition", "run", "timing",
        "decided_at",
    ),
}  # fmt: skip
BATCH = 20_000

WORKFLOWS = 20
FAILED_OF, EFFECT_OF, UNSETTLED_OF, TAGGED_OF = 1000, 100, 100_000, 1000
"""One of so many finished runs failed, has an effect, has one that is not settled, has a tag."""
OPEN_CHILD_OF = 1000
"""One of so many waiting runs is a child of a finished run, which must stay."""
SLOTS = 10_000
SCHEDULE = "nightly"


@dataclass(frozen=True)
class Size:
    """How many runs there are: of those that wait, half are ready."""

    finished: int = 1_000_000
    waiting: int = 100_000

    @property
    def total(self) -> int:
        return self.finished + self.waiting

    @property
    def map(self) -> int:
        """How many of the newest runs are the children of one."""
        return self.finished // 20


@dataclass(frozen=True)
class Filler:
    """Makes rows. The waiting runs are the oldest, and the children of a map the newest."""

    size: Size
    now: int

    def uid(self, n: int) -> str:
        return uid7(self.at(n), n)

    def at(self, n: int) -> int:
        return self.now - 3 * DAY + n * 2 * DAY // self.size.total

    def state(self, n: int) -> str:
        if n < self.size.waiting:
            return "waiting" if n % 2 else "ready"
        return "failed" if n % FAILED_OF == 0 and not self.is_mapped(n) else "succeeded"

    def is_mapped(self, n: int) -> bool:
        return n >= self.size.total - self.size.map

    def parent(self, n: int) -> str | None:
        if self.is_mapped(n):
            return self.uid(self.size.total - self.size.map - 1)
        if n < self.size.waiting and n % OPEN_CHILD_OF == 0:
            return self.uid(self.size.waiting + n + 1)
        return None

    def rows(self, n: int) -> Iterator[tuple[str, tuple[Any, ...]]]:
        uid, at, state, parent = self.uid(n), self.at(n), self.state(n), self.parent(n)
        is_open = n < self.size.waiting
        has_failed = state == "failed"
        due = {"waiting": self.now + DAY + n, "ready": at}.get(state)
        error = ("shop.Declined", "ValueError")[n // FAILED_OF % 2] if has_failed else ""
        yield "onward_run", (
            "default", uid, f"order-{n}", "map" if self.is_mapped(n) else "workflow",
            f"workflow-{n % WORKFLOWS}", "mail" if n % WORKFLOWS == 1 else "default",
            "gpu" if n % TAGGED_OF == 3 else "", state, due, int(state != "ready"),
            int(not is_open), parent, None if parent is None else f"child#{n}",
            int(self.is_mapped(n)), error,
            "charge" if has_failed else "", at, None if is_open else at, at,
        )  # fmt: skip
        yield "onward_run_data", ("default", uid, b"json:[]", "hash")
        if not is_open:
            yield "onward_record", (
                "default", uid, "charge#1", 1, 1, "step", "charge", "succeeded", b"json:1", at, at,
            )  # fmt: skip
        if not is_open and n % EFFECT_OF == 0:
            is_settled = n % UNSETTLED_OF != 0
            yield "onward_effect", (
                "default", f"{n:032x}", uid, "e#1", "charge", b"json:[]", "h",
                "applied" if is_settled else "indeterminate", 1, 1, at, at,
            )  # fmt: skip
        if n < SLOTS:
            at = self.now - (SLOTS - n) * MINUTE
            yield "onward_slot", (
                "default", SCHEDULE, at, at, 1, "missed", None, "* * * * * UTC", at,
            )  # fmt: skip


async def fill(url: str, size: Size) -> None:
    """Create the schema, and write the rows past the engine."""
    async with App(url) as app:
        now = await app._store.now()
        await app.schedules.create(SCHEDULE, "workflow-0", cron="* * * * *")
    filler = Filler(size, now)
    async for table in _postgres(url) if url.startswith("postgresql") else _sqlite(url):
        for begin in range(0, size.total, BATCH):
            batch: dict[str, list[tuple[Any, ...]]] = {name: [] for name in COLUMNS}
            for n in range(begin, min(begin + BATCH, size.total)):
                for name, row in filler.rows(n):
                    batch[name].append(row)
            for name, rows in batch.items():
                await table(name, rows)


async def _sqlite(path: str) -> AsyncIterator[Any]:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA synchronous = OFF")

        async def table(name: str, rows: list[tuple[Any, ...]]) -> None:
            columns = COLUMNS[name]
            connection.execute("BEGIN")
            marks = ", ".join("?" * len(columns))
            text = f"INSERT INTO {name} ({', '.join(columns)}) VALUES ({marks})"
            connection.executemany(text, rows)
            connection.execute("COMMIT")

        yield table
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")


async def _postgres(url: str) -> AsyncIterator[Any]:
    connection = await asyncpg.connect(url)

    async def table(name: str, rows: list[tuple[Any, ...]]) -> None:
        await connection.copy_records_to_table(
            name, schema_name="onward", columns=COLUMNS[name], records=rows
        )

    yield table
    await connection.execute("VACUUM ANALYZE")
    await connection.close()


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that say which store is measured."""
    parser.add_argument("--finished", type=int, default=1_000_000)
    parser.add_argument("--waiting", type=int, default=100_000)
    parser.add_argument("--only", choices=["sqlite", "postgres"])
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="fill each store once only")


def size_of(asked: argparse.Namespace) -> Size:
    return Size(asked.finished, asked.waiting)


@contextmanager
def sqlite_store(size: Size, keep: Path | None) -> Iterator[str]:
    """Return the path of a filled file, a copy of the one that is kept."""
    with tempfile.TemporaryDirectory(dir=keep) as folder:
        path = Path(folder) / "large.db"
        kept = None if keep is None else keep / f"large-{size.finished}-{size.waiting}.db"
        if kept is None or not kept.exists():
            _timed(str(path), size)
            if kept is not None:
                shutil.copy(path, kept)
        else:
            shutil.copy(kept, path)
        yield str(path)


@contextmanager
def postgres_store(size: Size, keep: Path | None) -> Iterator[str]:
    """Return the address of a filled database, a copy of the one that is kept by the server."""
    with PostgresServer.start() as server:
        if keep is None or VARIABLE not in os.environ:
            url = server.create_database()
            _timed(url, size)
        else:
            url = server.create_database(asyncio.run(_template(os.environ[VARIABLE], server, size)))
        yield url


async def _template(admin: str, server: PostgresServer, size: Size) -> str:
    name = f"onward_large_{size.finished}_{size.waiting}"
    connection = await asyncpg.connect(admin)
    try:
        if not await connection.fetchval("SELECT 1 FROM pg_database WHERE datname = $1", name):
            await connection.execute(f'CREATE DATABASE "{name}"')
            await asyncio.to_thread(_timed, server.url(name), size)
    finally:
        await connection.close()
    return name


def _timed(url: str, size: Size) -> None:
    begun = time.perf_counter()
    asyncio.run(fill(url, size))
    print(f"filled with {size.total:,} runs in {time.perf_counter() - begun:.0f} s")
