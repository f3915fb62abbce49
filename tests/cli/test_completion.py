"""Shells complete commands, as the command line page says."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.cli.conftest import Ask


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_is_given_its_script(process: Ask, shell: str) -> None:
    answer = process(_ONWARD_COMPLETE=f"{shell}_source")
    assert answer.status == 0
    assert "_ONWARD_COMPLETE" in answer.out


def test_commands_are_completed(process: Ask) -> None:
    answer = process(_ONWARD_COMPLETE="bash_complete", COMP_WORDS="onward runs wa", COMP_CWORD="2")
    assert answer.out == "plain,watch\n"
