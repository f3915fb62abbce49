"""The interpreters from 3.11 on that are installed here, each with what Onward needs to run."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

makes_environments = pytest.mark.timeout(900)
"""For a test that may be the first: it installs over a network, which may be slow."""


@cache
def pythons() -> tuple[Path, ...]:
    """Return an interpreter per minor version, oldest first; the one that runs this is among them.

    Others get an environment of their own below `.cache`, made on first use.
    """
    found = {sys.version_info.minor: Path(sys.executable)}
    for minor in range(11, 20):
        for folder in _folders():
            python = folder / f"python3.{minor}"
            if minor not in found and python.exists() and _runs(python):
                found[minor] = _environment(python, minor)
    return tuple(found[minor] for minor in sorted(found))


def _folders() -> list[Path]:
    listed = [Path(folder) for folder in os.environ.get("PATH", "").split(os.pathsep) if folder]
    return [*listed, *sorted(Path(sys.base_prefix).parent.glob("*/bin"))]


def _runs(python: Path) -> bool:
    command = [str(python), "-c", "import venv, ensurepip"]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def _environment(python: Path, minor: int) -> Path:
    folder = ROOT / ".cache" / f"python3.{minor}"
    inside = folder / "bin" / "python"
    ready = folder / "ready"
    folder.parent.mkdir(exist_ok=True)
    with (folder.parent / f"{folder.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # the tests of another process may be making it
        if not ready.exists():
            _make(python, folder, inside)
            ready.touch()
    return inside


def _make(python: Path, folder: Path, inside: Path) -> None:
    subprocess.run([str(python), "-m", "venv", "--clear", str(folder)], check=True)
    install = [str(inside), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*install, "cronsim>=2.6", "msgspec>=0.18.6", "pytest>=8"], check=True)
