"""Time, randomness and threads enter through few doors, so that a simulation can stand in them."""

import ast
from collections.abc import Iterator
from fnmatch import fnmatchcase
from typing import NamedTuple

import pytest

from tests.house.source import files, modules_imported, names_used, shown, tree

# What a simulation must be able to replace. `asyncio.sleep` is free: the event loop is its port.
GUARDED = (
    "asyncio.to_thread",
    "concurrent.futures.*PoolExecutor",
    "datetime.date.today",
    "datetime.datetime.now",
    "datetime.datetime.today",
    "datetime.datetime.utcnow",
    "multiprocessing.*",
    "onward.system.exiting.call_in_thread",
    "os.getrandom",
    "os.urandom",
    "random.*",
    "secrets.*",
    "threading.Thread",
    "threading.Timer",
    "time.clock_gettime*",
    "time.monotonic*",
    "time.perf_counter*",
    "time.sleep",
    "time.time*",
    "uuid.uuid*",
)


class Door(NamedTuple):
    """A file in which guarded things may be used, which ones, and why there."""

    file: str
    names: set[str]
    why: str


# A name that its file no longer uses must go from here.
DOORS = [
    Door(
        "src/onward/cli/reloader.py",
        {"asyncio.to_thread"},
        "it looks at all files of a project while the server in the same event loop answers",
    ),
    Door(
        "src/onward/sdk/effect.py",
        {"uuid.uuid4"},
        "the key of an effect that is called outside a run, where nothing is replayed",
    ),
    Door(
        "src/onward/sdk/inside.py",
        {"datetime.datetime.now", "random.Random", "uuid.uuid4"},
        "now, uuid and random outside a run; inside they come from the run",
    ),
    Door(
        "src/onward/runtime/body/forbidden.py",
        {
            "random._inst", "random.Random", "random.Random.__init__",
            "random.Random.__init__.__code__",
        },
        "compared with what a workflow body calls, never called",
    ),
    Door(
        "src/onward/server/process.py",
        {"asyncio.to_thread"},
        "slots of schedules are counted outside of the event loop of the server",
    ),
    Door(
        "src/onward/engine/local_worker.py",
        {"asyncio.to_thread"},
        "slots of schedules are counted outside of the event loop; without `spawn` they are inline",
    ),
    Door(
        "src/onward/runtime/worker/session.py",
        {"onward.system.exiting.call_in_thread"},
        "the thread that keeps the lease is joined; without `spawn` there is none",
    ),
    Door(
        "src/onward/system/clock.py",
        {
            "secrets.randbits", "secrets.token_hex", "threading.Thread", "time.clock_gettime_ns",
            "time.monotonic_ns", "time.time_ns",
        },
        "the machine's own clock, randomness and threads, behind the ports of core",
    ),
    Door(
        "src/onward/store/sqlite/database.py",
        {"asyncio.to_thread", "onward.system.exiting.call_in_thread"},
        "opening and closing a file may block; without `spawn`, as in a simulation, it is inline",
    ),
    Door(
        "src/onward/store/sqlite/locks.py",
        {"time.sleep"},
        "a process waits for a lock that another one holds; a database in memory has none",
    ),
    Door(
        "src/onward/telemetry/failpoints.py",
        {"time.sleep"},
        "a paused process waits for a file that a test removes; real processes only",
    ),
    Door(
        "src/onward/testing/randomness.py",
        {"random.Random"},
        "seeded, so the same numbers come each time",
    ),
    Door(
        "src/onward/testing/cluster.py",
        {"secrets.token_hex", "time.monotonic", "time.sleep"},
        "starts a real Postgres and waits for it",
    ),
    Door(
        "src/onward/testing/cluster_cleanup.py",
        {"time.monotonic", "time.sleep"},
        "a process of its own that ends a real Postgres and sees it gone",
    ),
    Door(
        "src/onward/testing/postgres.py",
        {"concurrent.futures.ThreadPoolExecutor", "secrets.token_hex"},
        "names databases of a real Postgres, and reaches it from sync code",
    ),
]  # fmt: skip

# Reading these runs code that whoever wrote the bytes has chosen. There is no door.
PICKLES = {"cloudpickle", "dill", "jsonpickle", "marshal", "pickle", "shelve"}


class Use(NamedTuple):
    """One call of a guarded thing."""

    file: str
    name: str
    line: int


def uses(module: ast.Module, file: str) -> Iterator[Use]:
    for line, name in names_used(module):
        if any(fnmatchcase(name, guarded) for guarded in GUARDED):
            yield Use(file, name, line)


def opened() -> set[tuple[str, str]]:
    return {(door.file, name) for door in DOORS for name in door.names}


def all_uses() -> list[Use]:
    return [use for path in files("src") for use in uses(tree(path), shown(path))]


@pytest.mark.parametrize(
    ("code", "name"),
    [
        ("import time\ntime.time()", "time.time"),
        ("import time as t\nt.monotonic_ns()", "time.monotonic_ns"),
        ("from time import time as clock\nclock()", "time.time"),
        ("from datetime import datetime\ndatetime.now()", "datetime.datetime.now"),
        ("import datetime as dt\ndt.datetime.now(dt.UTC)", "datetime.datetime.now"),
        ("import random\nrandom.random()", "random.random"),
        ("from uuid import uuid4\nmake = uuid4", "uuid.uuid4"),
        ("def f():\n    import threading\n    threading.Thread()", "threading.Thread"),
        (
            "import concurrent.futures\nconcurrent.futures.ThreadPoolExecutor()",
            "concurrent.futures.ThreadPoolExecutor",
        ),
    ],
)
def test_a_guarded_thing_is_seen_under_any_name(code: str, name: str) -> None:
    assert name in {use.name for use in uses(ast.parse(code), "a.py")}


@pytest.mark.parametrize(
    "code",
    [
        "import time\ntime.struct_time",
        "from datetime import datetime\ndatetime.fromisoformat('')",
        "import uuid\nuuid.UUID('')",
        "import threading\nthreading.Lock()",
        "clock.time()",
    ],
)
def test_what_reads_no_clock_and_draws_no_chance_is_free(code: str) -> None:
    assert list(uses(ast.parse(code), "a.py")) == []


def test_time_chance_and_threads_are_used_at_the_doors_only() -> None:
    stray = [use for use in all_uses() if (use.file, use.name) not in opened()]
    assert [f"{use.file}:{use.line} {use.name}" for use in stray] == []


def test_every_door_is_still_used() -> None:
    assert opened() - {(use.file, use.name) for use in all_uses()} == set()


def test_nothing_is_ever_pickled() -> None:
    named = [
        f"{shown(path)}:{line} {name}"
        for path in files("src")
        for line, name in [*modules_imported(tree(path)), *texts(tree(path))]
        if name.partition(".")[0] in PICKLES
    ]
    assert named == []


def texts(module: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield each string, for `import_module("pickle")` is an import too."""
    for node in ast.walk(module):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.lineno, node.value
