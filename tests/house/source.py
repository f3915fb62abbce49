"""What the house tests read: the project's files, parsed once."""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "onward"

Function = ast.FunctionDef | ast.AsyncFunctionDef


def files(*folders: str, suffix: str = ".py") -> list[Path]:
    """Return the files of these folders, generated code apart, in a stable order."""
    found = [path for folder in folders for path in (ROOT / folder).rglob(f"*{suffix}")]
    return sorted(path for path in found if "generated" not in path.parts)


def shown(path: Path) -> str:
    """Return the path as it stands in messages and lists: from the project's root."""
    return path.relative_to(ROOT).as_posix()


@cache
def tree(path: Path) -> ast.Module:
    """Return the parsed file."""
    return ast.parse(path.read_text(), filename=str(path))


def functions(module: ast.Module) -> Iterator[Function]:
    """Yield every function of a module, nested ones and methods too."""
    for node in ast.walk(module):
        if isinstance(node, Function):
            yield node


def body_lines(function: Function) -> int:
    """Count the lines from `def` to the end, without decorators and docstring."""
    assert function.end_lineno is not None
    lines = function.end_lineno - function.lineno + 1
    first = function.body[0]
    if ast.get_docstring(function) is not None and first.end_lineno is not None:
        lines -= first.end_lineno - first.lineno + 1
    return lines


def names_used(module: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield (line, dotted name) for each use of an imported thing, whatever it is called here.

    `from time import time as clock` and then `clock()` is a use of `time.time`.
    """
    origin = _origins(module)
    for node in ast.walk(module):
        if isinstance(node, ast.Attribute | ast.Name) and (name := _dotted(node)):
            root, _, rest = name.partition(".")
            if root in origin:
                yield node.lineno, f"{origin[root]}.{rest}" if rest else origin[root]


def modules_imported(module: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield (line, module) for each import statement, wherever it stands."""
    for node in ast.walk(module):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.lineno, node.module


def _origins(module: ast.Module) -> dict[str, str]:
    origin: dict[str, str] = {}
    for node in ast.walk(module):
        if isinstance(node, ast.Import):
            for alias in node.names:
                local = alias.asname or alias.name.partition(".")[0]
                origin[local] = alias.name if alias.asname else local
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                origin[alias.asname or alias.name] = f"{node.module}.{alias.name}"
    return origin


def _dotted(node: ast.expr) -> str:
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute) and (owner := _dotted(node.value)):
        return f"{owner}.{node.attr}"
    return ""
