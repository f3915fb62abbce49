"""Finds the tests that pages refer to."""

import ast
import re
from functools import cache
from pathlib import Path

from tests.docs.pages import ROOT

NAMED = re.compile(r"`((?:tests|src)/[\w/]+\.py)::(\w+)`")


@cache
def names_in(path: Path) -> set[str]:
    """Return the names of the tests in a file."""
    return {
        node.name
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        if node.name.startswith("test_")
    }


def missing(text: str) -> list[str]:
    """Return the tests that a page names and that do not exist."""
    return [
        f"{path}::{name}"
        for path, name in NAMED.findall(text)
        if not (ROOT / path).exists() or name not in names_in(ROOT / path)
    ]
