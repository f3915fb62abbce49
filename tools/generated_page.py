"""The command of a tool that writes a page of the docs, or says whether it is stale."""

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
