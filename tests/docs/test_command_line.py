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
from click.testing import CliRunner, Result

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


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the database that the page's script creates; it is where commands look."""
    for name in [name for name in os.environ if name.startswith("ONWARD_")]:
        monkeypatch.delenv(name)
    [sample] = [block for block in fences(PAGE) if block.language == "python"]
    (tmp_path / "sample.py").write_text(sample.text)
    script = [sys.executable, "-W", "error", "sample.py"]
    subprocess.run(script, cwd=tmp_path, capture_output=True, timeout=60, check=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*words: str) -> Result:
    return CliRunner().invoke(commands(), words, prog_name="onward")


@pytest.mark.usefixtures("folder")
def test_the_commands_of_the_page_run_in_their_order() -> None:
    effect = json.loads(run("effects", "list", "--json").stdout)["id"]
    for line in lines():
        program, *words = shlex.split(line.replace(AN_ID, effect[:6]))
        assert program == "onward"
        answer = run(*words)
        assert answer.exit_code == 0, f"{line}: {answer.output} {answer.exception!r}"
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
