"""Commands in this process and in processes of their own, on a SQLite file and on Postgres."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import pytest
from click.testing import CliRunner

from onward.cli.main import commands
from tests.house.source import ROOT
from tests.kit.databases import postgres_template

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["postgres_template"]


class Answer(NamedTuple):
    """What a command answered."""

    status: int
    out: str
    err: str

    @property
    def things(self) -> list[dict[str, Any]]:
        """What `--json` printed."""
        return [json.loads(line) for line in self.out.splitlines()]

    @property
    def thing(self) -> dict[str, Any]:
        """The only thing that `--json` printed."""
        [only] = self.things
        return only


def shortened(text: str) -> str:
    """Return what was printed, with URL for the database in commands that it suggests."""
    return re.sub(r"onward --db \S+ ", "onward --db URL ", text)


class Ask(Protocol):
    """Runs a command."""

    def __call__(self, *words: str, **environment: str) -> Answer: ...


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    for name in [name for name in os.environ if name.startswith("ONWARD_")]:
        monkeypatch.delenv(name)


@pytest.fixture
def ask() -> Ask:
    """Runs a command in this process."""

    def ask(*words: str, **environment: str) -> Answer:
        got = CliRunner(env=environment).invoke(commands(), words, prog_name="onward")
        if got.exception is not None and not isinstance(got.exception, SystemExit):
            raise got.exception
        return Answer(got.exit_code, got.stdout, got.stderr)

    return ask


@pytest.fixture
def process() -> Ask:
    """Runs a command in a process of its own."""

    def process(*words: str, **environment: str) -> Answer:
        got = subprocess.run(
            [sys.executable, "-W", "error", "-m", "onward", *words],
            env=os.environ | environment,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        return Answer(got.returncode, got.stdout, got.stderr)

    return process


@pytest.fixture(params=["file", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The address of a database: a file that is not there yet, or a Postgres with its tables."""
    if request.param == "postgres":
        address: str = request.getfixturevalue("postgres_url")
        return address
    return str(tmp_path / "shop.db")


@pytest.fixture(scope="session")
def _filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    # In a process of its own, where no other test has defined anything.
    folder = tmp_path_factory.mktemp("shop")
    code = "import asyncio, sys; from tests.cli.shop import fill; asyncio.run(fill(sys.argv[1]))"
    command = [sys.executable, "-c", code, str(folder / "onward.db")]
    subprocess.run(command, cwd=ROOT, capture_output=True, timeout=60, check=True)
    return folder


@pytest.fixture
def shop(_filled: Path, tmp_path: Path) -> str:
    """A file in which one of everything waits for somebody; it is where commands look first."""
    shutil.copytree(_filled, tmp_path, dirs_exist_ok=True)
    return str(tmp_path / "onward.db")
