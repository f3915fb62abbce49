"""The page on configuration lists every option and every variable that there is."""

from __future__ import annotations

import inspect
import re
from typing import TYPE_CHECKING

import click
import pytest

from onward import App
from onward.cli.main import commands
from onward.cli.settings import DEFAULTS, variable
from tests.docs.pages import ROOT
from tests.house.source import files

if TYPE_CHECKING:
    from collections.abc import Callable

PAGE = (ROOT / "docs" / "guides" / "configuration.md").read_text()
VARIABLE = re.compile(r"\bONWARD_[A-Z]+(?:_[A-Z]+)*\b")


def section(title: str) -> str:
    return PAGE.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def listed(title: str) -> set[str]:
    """Return the names in the first columns of the tables of a section."""
    rows = re.findall(r"^\| (`[^|]*) \|", section(title), re.MULTILINE)
    return {name for row in rows for name in re.findall(r"`(\w+)`", row)}


@pytest.mark.parametrize(("title", "call"), [("The App", App), ("Workers", App.worker)])
def test_every_argument_is_listed(title: str, call: Callable[..., object]) -> None:
    assert inspect.signature(call).parameters.keys() - {"self"} <= listed(title)


def test_no_argument_of_a_worker_is_invented() -> None:
    assert listed("Workers") <= inspect.signature(App.worker).parameters.keys()


def test_every_flag_of_a_worker_is_listed() -> None:
    command = commands().commands["worker"]
    flags = {name for option in command.params for name in option.opts if name.startswith("--")}
    assert isinstance(command, click.Command)
    assert flags - {f"--{name}" for name in DEFAULTS} <= set(re.findall(r"`(--[\w-]+)`", PAGE))


def test_every_variable_is_listed() -> None:
    used = {name for path in files("src") for name in VARIABLE.findall(path.read_text())}
    used |= {variable(name) for name in (*DEFAULTS, "debug", "worker_stall_limit", "server_grpc")}
    assert used == set(VARIABLE.findall(PAGE))
