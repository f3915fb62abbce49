"""The contracts on imports break when they should: each is broken here on purpose, in a copy."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.house.source import ROOT

ROOMS = ("testing", "store", "codec", "telemetry", "core")


@pytest.fixture
def house(tmp_path: Path) -> Path:
    """A copy of the sources that a test may spoil. Rooms not built yet stand there empty."""
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "src", tmp_path / "src", ignore=ignored)
    for room in ROOMS:
        folder = tmp_path / "src" / "onward" / room
        folder.mkdir(exist_ok=True)
        (folder / "__init__.py").touch()
    return tmp_path


def lint(house: Path) -> subprocess.CompletedProcess[str]:
    command = Path(sys.executable).with_name("lint-imports")
    return subprocess.run(
        [command, "--no-cache", "--no-logo"],
        cwd=house,
        env={**os.environ, "PYTHONPATH": str(house / "src"), "COLUMNS": "200"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_the_house_as_it_stands_keeps_its_contracts(house: Path) -> None:
    answer = lint(house)
    assert answer.returncode == 0, answer.stdout + answer.stderr
    assert "0 broken" in answer.stdout


@pytest.mark.parametrize(
    ("room", "line", "contract"),
    [
        ("core", "import onward.store", "Rooms"),
        ("core", "import onward.codec", "Rooms"),
        ("codec", "import onward.store", "Rooms"),
        ("telemetry", "import onward.codec", "Rooms"),
        ("store", "import onward.testing", "Rooms"),
        ("core", "import time", "The core has no clock"),
        ("core", "import asyncio", "The core has no clock"),
        ("core", "import msgspec", "The core has no clock"),
        ("sdk", "import onward.store.store", "Only the engine names a store"),
        ("cli", "import onward.store.address", "Only the engine names a store"),
        ("runtime", "import onward.store.hints", "Only the engine names a store"),
        ("store", "import pickle", "Payloads are never pickled"),
    ],
)
def test_a_forbidden_import_breaks_its_contract(
    house: Path, room: str, line: str, contract: str
) -> None:
    (house / "src" / "onward" / room / "stray.py").write_text(f"{line}\n")
    answer = lint(house)
    assert answer.returncode == 1, answer.stdout + answer.stderr
    assert f"onward.{room}.stray" in answer.stdout
    broken = [text for text in answer.stdout.splitlines() if " BROKEN" in text]
    assert any(text.startswith(contract) for text in broken)


def test_errors_import_nothing_of_ours(house: Path) -> None:
    with (house / "src" / "onward" / "errors" / "__init__.py").open("a") as errors:
        errors.write("\nimport onward.core\n")
    answer = lint(house)
    assert answer.returncode == 1
    assert "onward.errors -> onward.core" in answer.stdout


def test_a_room_that_is_not_on_the_plan_breaks_the_contract(house: Path) -> None:
    (house / "src" / "onward" / "attic").mkdir()
    (house / "src" / "onward" / "attic" / "__init__.py").touch()
    answer = lint(house)
    assert answer.returncode == 1
    assert "onward.attic" in answer.stdout or "- attic" in answer.stdout
