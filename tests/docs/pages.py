"""Reads the project's Markdown pages: their code, links and headings."""

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]

FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#{1,6} (.+)$", re.MULTILINE)


class Fence(NamedTuple):
    """A block of code in a page."""

    language: str
    text: str
    line: int


def pages() -> list[Path]:
    """Return every documentation page."""
    flat = [
        path for folder in (".", "changes", "examples") for path in (ROOT / folder).glob("*.md")
    ]
    return sorted([*flat, *(ROOT / "docs").rglob("*.md")])


def shown(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@cache
def fences(page: Path) -> list[Fence]:
    """Return the page's blocks of code, in order."""
    text = page.read_text()
    return [
        Fence(found[1], found[2], text.count("\n", 0, found.start()) + 1)
        for found in FENCE.finditer(text)
    ]


def prose(page: Path) -> str:
    """Return the page without its code."""
    return re.sub(r"`[^`\n]*`", "", FENCE.sub("", page.read_text()))


def links(page: Path) -> Iterator[str]:
    """Yield the targets of links within this project."""
    for target in LINK.findall(prose(page)):
        if not re.match(r"[a-z]+:", target):
            yield target


def anchors(page: Path) -> set[str]:
    """Return the anchors of the page's headings."""
    headings = HEADING.findall(FENCE.sub("", page.read_text()))
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
