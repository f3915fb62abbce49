"""The API reference has every public name, and the tool that writes it sees stale pages."""

from __future__ import annotations

import importlib
import os
import re
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

import onward
from onward import errors, handles, telemetry
from tests.docs.pages import ROOT, fences, links
from tools import docstrings

if TYPE_CHECKING:
    from pathlib import Path

FOLDER = ROOT / "docs" / "reference"
PAGES = sorted(FOLDER.glob("*.md"))
PUBLIC = sorted({*onward.__all__, *handles.__all__, *errors.__all__, *telemetry.__all__})


def written(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    tool = str(ROOT / "tools" / "write_reference.py")
    return subprocess.run(
        [sys.executable, tool, "--folder", str(folder), *options],
        capture_output=True,
        check=False,
        text=True,
        timeout=60,
    )


@pytest.mark.parametrize("name", PUBLIC)
def test_the_reference_has_every_public_name(name: str) -> None:
    text = "\n".join(page.read_text() for page in PAGES)
    heading = r"^#{2,3} (?:class )?" if name != "OnwardError" else r"`onward\.errors\."
    assert re.search(heading + name + r"\b", text, re.MULTILINE)


def test_what_was_written_is_not_stale_until_a_docstring_changes(tmp_path: Path) -> None:
    assert written(tmp_path).returncode == 0
    assert written(tmp_path, "--check").returncode == 0

    page = tmp_path / "app.md"
    page.write_text(page.read_text().replace("Start a run", "Begin a run"))
    told = written(tmp_path, "--check")

    assert told.returncode == 1
    assert told.stderr == "app.md is stale: run `make docs`.\n"


def test_a_page_that_is_no_longer_written_is_removed(tmp_path: Path) -> None:
    (tmp_path / "old.md").write_text("# Old\n")
    assert written(tmp_path, "--check").returncode == 1
    assert written(tmp_path).returncode == 0
    assert not (tmp_path / "old.md").exists()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_page_shows_nothing_of_the_machine_that_wrote_it(page: Path) -> None:
    text = page.read_text()
    assert " object at 0x" not in text
    assert str(ROOT) not in text
    assert not [value for value in os.environ.values() if len(value) > 20 and value in text]


def test_links_of_the_reference_lead_to_entries() -> None:
    found = [target for page in PAGES for target in links(page)]
    assert len(found) > 100


# --- reading docstrings ---------------------------------------------------------------------------


async def sample(name: str, /, *rest: int, size: float = 1.5, **more: object) -> str:
    """Summarise it.

    A second paragraph:

        with code()

    Args:
        name: What to call it,
            in two lines.
        *rest: More.

    Raises:
        ValueError: it is wrong.

    Example:
        >>> 1 + 1
        2
    """
    return name


def test_a_docstring_becomes_markdown() -> None:
    assert docstrings.render(sample) == [
        "Summarise it.\n\nA second paragraph:\n\n```python\nwith code()\n```",
        "**Args**\n\n- `name`: What to call it, in two lines.\n- `*rest`: More.",
        "**Raises**\n\n- `ValueError`: it is wrong.",
        "```pycon\n>>> 1 + 1\n2\n```",
    ]


def test_a_signature_is_shown_as_it_is_written() -> None:
    assert docstrings.signature("sample", sample) == (
        "async sample(name: str, /, *rest: int, size: float = 1.5, **more: object) -> str"
    )


def test_a_long_signature_has_one_parameter_a_line() -> None:
    shown = docstrings.signature("a_name_that_is_so_long_that_nothing_fits_beside_it", sample)
    assert shown.splitlines()[1:3] == ["    name: str,", "    /,"]


def test_a_default_that_depends_on_the_machine_is_not_shown() -> None:
    def look(where: object = os.environ) -> None: ...

    assert docstrings.signature("look", look) == "look(where: object = ...)"


def test_examples_of_the_reference_are_those_that_tests_run() -> None:
    shown = [fence for page in PAGES for fence in fences(page) if fence.language == "pycon"]
    run = importlib.import_module("tests.docs.test_docstrings").examples()
    known = {example.source for test in run for example in test.examples}
    first = [re.sub(r"^(>>>|\.\.\.) ?", "", fence.text.splitlines()[0]) for fence in shown]
    assert len(first) > 30
    assert [line for line in first if not any(each.startswith(line) for each in known)] == []
