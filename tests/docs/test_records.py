"""Decision records and changelog fragments follow their format."""

import re
import tomllib
from pathlib import Path

import pytest

from tests.docs.pages import FENCE, ROOT, shown

ADR = ROOT / "docs" / "adr"
DECISIONS = sorted(ADR.glob("[0-9]*.md"))
MAX_PAGE_LINES = 60

FRAGMENT = re.compile(r"(?:\d+|\+[a-z0-9-]+)\.(?P<kind>[a-z]+)(?:\.\d+)?\.md")
FRAGMENTS = sorted(path for path in (ROOT / "changes").iterdir() if path.name != "README.md")


@pytest.mark.parametrize("page", DECISIONS, ids=shown)
def test_a_decision_has_a_number_and_the_three_headings(page: Path) -> None:
    text = FENCE.sub("", page.read_text())
    assert text.startswith(f"# {page.name[:4]}. ")
    headings = re.findall(r"^## (.+)$", text, re.MULTILINE)
    assert headings == ["Context", "Decision", "What we gave up"]


@pytest.mark.parametrize("page", DECISIONS, ids=shown)
def test_a_decision_fits_a_page(page: Path) -> None:
    assert len(page.read_text().splitlines()) <= MAX_PAGE_LINES


def test_decisions_are_numbered_without_gaps() -> None:
    numbers = [int(page.name[:4]) for page in DECISIONS]
    assert numbers == list(range(1, len(numbers) + 1))


def test_the_list_of_decisions_is_complete() -> None:
    listed = re.findall(r"\]\((\d{4}-[\w-]+\.md)\) \|", (ADR / "README.md").read_text())
    assert listed == [page.name for page in DECISIONS]


@pytest.mark.parametrize("fragment", FRAGMENTS, ids=shown)
def test_a_change_is_named_after_its_issue_and_kind(fragment: Path) -> None:
    named = FRAGMENT.fullmatch(fragment.name)
    assert named, f"{fragment.name} is not like 2.added.md"
    assert named["kind"] in kinds()
    assert fragment.read_text().strip()


def test_the_kinds_of_changes_are_explained() -> None:
    explained = re.findall(r"^\| `([a-z]+)` \|", (ROOT / "changes/README.md").read_text(), re.M)
    assert explained == kinds()


def kinds() -> list[str]:
    """Return the kinds of changes that towncrier is configured for."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    return [kind["directory"] for kind in settings["tool"]["towncrier"]["type"]]
