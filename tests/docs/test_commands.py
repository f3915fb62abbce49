"""`onward` accepts the commands on the pages."""

import shlex
from pathlib import Path

import click
import pytest

from onward.cli.main import commands
from tests.docs.pages import fences, pages, shown


def named() -> list[tuple[Path, str]]:
    """Return every command `onward ...` in the shell blocks and sessions of the pages."""
    return [
        (page, line.removeprefix("$ "))
        for page in pages()
        for fence in fences(page)
        if fence.language in ("sh", "console")
        for line in fence.text.splitlines()
        if line.removeprefix("$ ").startswith("onward ")
    ]


def understand(line: str) -> click.Context:
    """Parse a command as the shell and `onward` would, without running it.

    Raises:
        click.UsageError: the command or one of its arguments does not exist.
    """
    command: click.Command | None = commands()
    _, *words = shlex.split(line, comments=True)
    while isinstance(command, click.Group):
        _, command, words = command.resolve_command(click.Context(command), words)
    assert command is not None
    return command.make_context(command.name, words)


@pytest.mark.parametrize(
    "line", [pytest.param(line, id=f"{shown(page)}: {line}") for page, line in named()]
)
def test_a_command_in_a_page_is_understood(line: str) -> None:
    understand(line)


@pytest.mark.parametrize(
    "line", ["onward defects list", "onward effects resolve 3f perhaps --reason x"]
)
def test_a_command_that_is_wrong_is_seen(line: str) -> None:
    with pytest.raises(click.UsageError):
        understand(line)
