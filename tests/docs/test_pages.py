"""Links on the pages work, named make targets exist, and the README stays short."""

import re
from pathlib import Path

import pytest

from tests.docs.pages import ROOT, anchors, links, pages, shown

MAX_README_LINES = 100
CODE_BY_LINE = 25


def targets() -> set[str]:
    """Return the names of the Makefile's targets."""
    return set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))


@pytest.mark.parametrize("page", pages(), ids=shown)
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    for target in links(page):
        path, _, anchor = target.partition("#")
        there = (page.parent / path).resolve() if path else page
        assert there.exists(), f"{target} does not exist"
        assert there.is_relative_to(ROOT), f"{target} leads out of the project"
        assert not anchor or anchor in anchors(there), f"{target}: no such heading"


@pytest.mark.parametrize("page", pages(), ids=shown)
def test_every_make_target_that_is_named_exists(page: Path) -> None:
    named = set(re.findall(r"(?:^|`)make ([a-z]+)", page.read_text(), re.MULTILINE))
    assert named - targets() == set()


def test_the_readme_names_the_two_commands() -> None:
    named = re.findall(r"^make ([a-z]+)", (ROOT / "README.md").read_text(), re.MULTILINE)
    assert named[:2] == ["demo", "test"]


def test_every_make_target_is_in_its_help_and_is_no_file() -> None:
    makefile = (ROOT / "Makefile").read_text()
    [phony] = re.findall(r"^\.PHONY: (.+)$", makefile, re.MULTILINE)
    helped = re.findall(r"^([a-z]+):.* ## .+\.$", makefile, re.MULTILINE)
    assert set(phony.split()) == set(helped) == targets()


def test_the_readme_is_short_and_shows_code_early() -> None:
    lines = (ROOT / "README.md").read_text().splitlines()
    assert len(lines) <= MAX_README_LINES
    assert lines.index("```python") < CODE_BY_LINE


def test_a_link_to_nowhere_is_seen(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# A title, here\n[a](b.md#c) `[code](x.md)` [far](https://example.org)\n")
    assert list(links(page)) == ["b.md#c"]
    assert anchors(page) == {"a-title-here"}
