"""The promises page lists every promise, each with existing tests."""

import re
from pathlib import Path

import pytest

from tests.docs.named import NAMED, missing
from tests.docs.pages import ROOT

PAGE = ROOT / "docs" / "promises.md"
README = ROOT / "README.md"


def promises(page: Path) -> dict[str, str]:
    """Return the text of each promise."""
    parts = re.split(r"^## (P\d+): .+$", page.read_text(), flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def test_every_promise_is_there() -> None:
    assert list(promises(PAGE)) == [f"P{number}" for number in range(1, 12)]


@pytest.mark.parametrize("number", promises(PAGE))
def test_a_promise_names_tests_that_are_there(number: str) -> None:
    text = promises(PAGE)[number]
    assert NAMED.search(text)
    assert text.count("::") == len(NAMED.findall(text))
    assert missing(text) == []


def test_the_readme_leads_to_what_shows_its_promises() -> None:
    assert "(docs/promises.md)" in README.read_text()
