"""SQL is text in files: it is never put together by code."""

import ast
import re
from collections.abc import Iterator

import pytest

from tests.house.source import files, shown, tree

RUNS_SQL = {
    "copy_from_query", "cursor", "execute", "executemany", "executescript", "fetch", "fetchall",
    "fetchmany", "fetchrow", "fetchval", "prepare",
}  # fmt: skip

STATEMENT = re.compile(
    r"\s*(?:SELECT|INSERT INTO|UPDATE|DELETE FROM|MERGE|WITH|CREATE|ALTER|DROP|TRUNCATE|PRAGMA|"
    r"ATTACH|LISTEN|UNLISTEN|NOTIFY|SET|BEGIN|SAVEPOINT|VACUUM)\s"
)

# Statements that take no parameters where a name or a number must stand, and why it is safe there.
ALLOWED = {
    "src/onward/store/postgres/connections.py": "CREATE SCHEMA; the name was checked",
    "src/onward/store/sqlite/row_statements.py": "WITH given; a text of a file, for several rows",
    "src/onward/testing/postgres.py": "CREATE and DROP DATABASE; the names are made there",
}


def made_sql(module: ast.Module) -> Iterator[int]:
    """Yield the lines on which a statement is put together."""
    for node in ast.walk(module):
        if isinstance(node, ast.expr) and is_made(node) and STATEMENT.match(opening(node)):
            yield node.lineno
        elif (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr in RUNS_SQL
            and node.args
            and is_made(node.args[0])
            and not STATEMENT.match(opening(node.args[0]))
        ):
            yield node.args[0].lineno


def is_made(node: ast.expr) -> bool:
    """Tell whether a text is put together here: an f-string, `+`, `%` or `.format()`."""
    match node:
        case ast.JoinedStr(values=values):
            return any(isinstance(value, ast.FormattedValue) for value in values)
        case ast.BinOp(op=ast.Add() | ast.Mod()):
            return isinstance(leftmost(node), ast.Constant | ast.JoinedStr)
        case ast.Call(func=ast.Attribute(attr="format", value=ast.Constant())):
            return True
    return False


def opening(node: ast.expr) -> str:
    """Return how the text begins, as far as it is written there."""
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.JoinedStr(values=[ast.Constant(value=str(text)), *_]):
            return text
        case ast.BinOp():
            return opening(leftmost(node))
        case ast.Call(func=ast.Attribute(value=text_node)):
            return opening(text_node)
    return ""


def leftmost(node: ast.expr) -> ast.expr:
    while isinstance(node, ast.BinOp):
        node = node.left
    return node


@pytest.mark.parametrize(
    "code",
    [
        'db.execute(f"delete from {table}")',
        'await tx.fetch("select " + columns)',
        'db.executemany("insert into t values (%s)" % value, rows)',
        'db.execute("drop table {}".format(table))',
        'text = f"SELECT * FROM {table}"',
        'text = f"CREATE DATABASE {name}"',
        'text = "PRAGMA user_version = " + str(n)',
    ],
)
def test_a_statement_put_together_is_seen(code: str) -> None:
    [_] = made_sql(ast.parse(code, mode="exec"))


@pytest.mark.parametrize(
    "code",
    [
        'db.execute("select 1")',
        'db.execute(statement("claim_runs"), run=run)',
        'message = f"update {name} first"',
        'path.open(f"{name}.sql")',
        "total = count + 1",
    ],
)
def test_what_is_no_statement_is_left_alone(code: str) -> None:
    assert list(made_sql(ast.parse(code))) == []


def test_no_statement_is_put_together_by_code() -> None:
    made = {shown(path): list(made_sql(tree(path))) for path in files("src")}
    assert {path: lines for path, lines in made.items() if lines and path not in ALLOWED} == {}


def test_every_exception_is_still_needed() -> None:
    made = {shown(path) for path in files("src") if any(made_sql(tree(path)))}
    assert set(ALLOWED) - made == set()
