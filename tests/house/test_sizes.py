"""Nothing grows past what a reader can hold: the sizes are counted."""

import ast
from pathlib import Path

import pytest

from tests.house.source import body_lines, files, functions, shown, tree

MAX_SOURCE_LINES = 500
MAX_TEST_LINES = 600
MAX_FUNCTION_LINES = 60
# With more, CPython gives each object a dict of its own: five times the memory, and slow access.
MAX_ATTRIBUTES = 29

# A SQL file may be longer, if it is listed here with the reason.
LONG_SQL: dict[str, str] = {}


DOCUMENTED = '''
@decorated
def f() -> None:
    """Not counted.

    Nor is this.
    """
    one()
    two()
'''


def lines(path: Path) -> int:
    return len(path.read_text().splitlines())


def test_neither_decorator_nor_docstring_counts_as_code() -> None:
    [function] = functions(ast.parse(DOCUMENTED))
    assert body_lines(function) == 3


@pytest.mark.parametrize(
    ("folders", "most"),
    [
        (("src", "tools", "benchmarks", "examples"), MAX_SOURCE_LINES),
        (("tests",), MAX_TEST_LINES),
    ],
)
def test_no_python_file_is_too_long(folders: tuple[str, ...], most: int) -> None:
    found = {shown(path): lines(path) for path in files(*folders)}
    assert found, "nothing was counted"
    assert {path: n for path, n in found.items() if n > most} == {}


def test_no_function_is_too_long() -> None:
    long = {
        f"{shown(path)}:{function.lineno} {function.name}": body_lines(function)
        for path in files("src", "tools", "benchmarks", "examples", "tests")
        for function in functions(tree(path))
        if body_lines(function) > MAX_FUNCTION_LINES
    }
    assert long == {}


def test_the_list_of_long_sql_files_is_complete_and_has_no_stale_entry() -> None:
    found = {shown(path) for path in files("src", suffix=".sql") if lines(path) > MAX_SOURCE_LINES}
    assert found == set(LONG_SQL)


def attributes(class_: ast.ClassDef) -> set[str]:
    """Return the attributes that the methods of a class set."""
    return {
        node.attr
        for node in ast.walk(class_)
        if isinstance(node, ast.Attribute)
        and isinstance(node.ctx, ast.Store)
        and isinstance(node.value, ast.Name)
        and node.value.id == "self"
    }


def test_no_object_of_a_run_has_too_many_attributes() -> None:
    found = {
        f"{shown(path)} {node.name}": len(attributes(node))
        for path in files("src/onward/runtime/execution", "src/onward/runtime/body")
        for node in ast.walk(tree(path))
        if isinstance(node, ast.ClassDef)
    }
    assert found["src/onward/runtime/execution/execution.py Execution"] > 20
    assert {name: count for name, count in found.items() if count > MAX_ATTRIBUTES} == {}
