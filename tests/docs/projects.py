"""Projects on the pages: blocks of code that begin with the name of their file."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from tests.docs.pages import fences

if TYPE_CHECKING:
    from pathlib import Path

    from tests.docs.pages import Fence

FILE = re.compile(r"# ([\w/]+\.py)\n")


def file_of(fence: Fence) -> str | None:
    """Return the file that a block of code shows, if it is one of a project."""
    found = FILE.match(fence.text) if fence.language == "python" else None
    return found and found[1]


def write_project(page: Path, folder: Path) -> list[str]:
    """Write the files of a page's project, and return their names."""
    files = {name: fence.text for fence in fences(page) if (name := file_of(fence))}
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return list(files)
