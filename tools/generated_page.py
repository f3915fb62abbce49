"""The command of a tool that writes pages of the docs, or says whether they are stale."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


def keep(what: str, usual: Path, page: Callable[[], str]) -> int:
    """Write what `page` returns, or with `--check` compare it; return the exit status."""
    parser = argparse.ArgumentParser(description=what)
    parser.add_argument("--check", action="store_true", help="only say whether the page is stale")
    parser.add_argument("--page", type=Path, default=usual, help="where the page is")
    options = parser.parse_args()
    if not options.check:
        options.page.write_text(page(), encoding="utf-8")
        return 0
    if options.page.exists() and options.page.read_text(encoding="utf-8") == page():
        return 0
    print(f"{options.page.name} is stale: run `make docs`.", file=sys.stderr)
    return 1


def keep_folder(what: str, usual: Path, pages: Callable[[], dict[str, str]]) -> int:
    """Write the pages of a folder, or with `--check` compare them; return the exit status."""
    parser = argparse.ArgumentParser(description=what)
    parser.add_argument("--check", action="store_true", help="only say which pages are stale")
    parser.add_argument("--folder", type=Path, default=usual, help="where the pages are")
    options = parser.parse_args()
    wanted = pages()
    there = {page.name: page.read_text("utf-8") for page in options.folder.glob("*.md")}
    stale = sorted(n for n in wanted.keys() | there.keys() if wanted.get(n) != there.get(n))
    for name in stale:
        page = options.folder / name
        if options.check:
            print(f"{page.name} is stale: run `make docs`.", file=sys.stderr)
        elif name in wanted:
            page.parent.mkdir(exist_ok=True)
            page.write_text(wanted[name], encoding="utf-8")
        else:
            page.unlink()
    return 1 if stale and options.check else 0
