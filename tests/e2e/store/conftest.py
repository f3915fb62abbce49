"""An address of each kind, and processes that end with their test."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]

Spawn = Callable[..., subprocess.Popen[str]]


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The address of a database in which nothing has been made yet."""
    if request.param == "sqlite":
        yield str(tmp_path / "onward.db")
    else:
        yield request.getfixturevalue("postgres_url")


@pytest.fixture
def spawn() -> Iterator[Spawn]:
    """Starts `python -m MODULE ARGUMENTS…` with an environment on top of this one."""
    with ExitStack() as running:

        def start(module: str, *arguments: object, **environ: str) -> subprocess.Popen[str]:
            process = subprocess.Popen(
                [sys.executable, "-m", module, *map(str, arguments)],
                cwd=ROOT,
                env={**os.environ, **environ},
                stdout=subprocess.PIPE,
                text=True,
            )
            running.enter_context(process)
            running.callback(process.kill)
            return process

        yield start
