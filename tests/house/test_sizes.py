"""Nothing grows past what a reader can hold: the sizes are counted."""

import ast
from pathlib import Path

import pytest

from tests.house.source import body_lines, files, functions, shown, tree

MAX_SOURCE_LINES = 500
MAX_TEST_LINES = 600
MAX_FUNCTION_LINES = 60

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
