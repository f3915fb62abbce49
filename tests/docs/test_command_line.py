"""The commands on the command line page run as printed, and the page lists every command."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from typing import TYPE_CHECKING

import click
import pytest

from onward.cli.main import commands
from onward.cli.settings import DEFAULTS, variable
from tests.docs.pages import ROOT, fences

if TYPE_CHECKING:
    from pathlib import Path

PAGE = ROOT / "docs" / "guides" / "command-line.md"
AN_ID = "3f2a9c"  # on the page; real ids differ


def lines() -> list[str]:
    return [
        line for block in fences(PAGE) if block.language == "sh" for line in block.text.splitlines()
    ]


def run(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    settings = {name: value for name, value in os.environ.items() if not name.startswith("ONWARD_")}
    return subprocess.run(
        [sys.executable, "-W", "error", *words],
        cwd=folder,
        env=settings,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with the database that the page's script creates."""
    [sample] = [block for block in fences(PAGE) if block.language == "python"]
    (tmp_path / "sample.py").write_text(sample.text)
    assert run(tmp_path, "sample.py").returncode == 0
    return tmp_path


@pytest.mark.timeout(600)  # each command is a process
def test_the_commands_of_the_page_run_in_their_order(folder: Path) -> None:
    listed = run(folder, "-m", "onward", "effects", "list", "--json").stdout
    effect = json.loads(listed)["id"]
    for line in lines():
        program, *words = shlex.split(line.replace(AN_ID, effect[:6]))
        assert program == "onward"
        answer = run(folder, "-m", "onward", *words)
        assert answer.returncode == 0, f"{line}: {answer.stdout}{answer.stderr}"
        assert answer.stdout != "" or "effects list" in line


def test_every_command_is_on_the_page() -> None:
    text = PAGE.read_text()
    names: list[str] = []
    for name, command in commands().commands.items():
        names += command.commands if isinstance(command, click.Group) else [name]
    assert [name for name in names if f"`{name}" not in text and f" {name} " not in text] == []


def test_every_setting_is_on_the_page() -> None:
    text = PAGE.read_text()
    for name, default in DEFAULTS.items():
        assert f"| `--{name}` | `{variable(name)}` | `{name}` | `{default}` |" in text
