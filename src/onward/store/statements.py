"""Named SQL statements, read from `.sql` files and rendered for one database.

The files are valid SQLite as they stand, with `:name` parameters. The Postgres text is derived:
tables get their schema, parameters become `$1`, the parameter `:now` becomes the database's own
clock, the choice of an index goes, which SQLite would not make without statistics, and a few words
of DDL change. The batched hot path is written for each database in a folder of its own
(`sql/sqlite/`: row by row in the writer's transaction; `sql/postgres/`: one statement a batch); a
test lists what stands there.

A header may name parameters in the order in which rows give them (`-- name: add_record(run, …)`);
others follow in the order in which the text uses them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from importlib.resources.abc import Traversable

# The time at which Postgres received the statement. Unlike clock_timestamp() it is stable, so an
# index can be searched by it; unlike now() it does not stand still in a long transaction.
POSTGRES_CLOCK = "(extract(epoch FROM statement_timestamp()) * 1000000)::bigint"

_HEADER = re.compile(r"^-- name: (\w+)(?:\(([\w\s,-]*)\))?$", re.MULTILINE)
_COMMENT = re.compile(r"--[^\n]*")
_PARAMETER = re.compile(r"(?<![:\w]):([a-z]\w*)")
_INDEX_HINT = re.compile(r" INDEXED BY \w+")
_IDENTITY = "GENERATED ALWAYS AS IDENTITY"
_TABLE = re.compile(r"CREATE TABLE (onward_\w+)")


@dataclass(frozen=True, slots=True)
class Statement:
    """SQL text for one database, with the order in which its parameters are given."""

    name: str
    sql: str
    parameters: tuple[str, ...]

    def arrange(self, given: dict[str, object]) -> tuple[object, ...]:
        """Return the values of `given` in the order that the text asks for."""
        return tuple([given[name] for name in self.parameters])


@dataclass(frozen=True, slots=True)
class Dialect:
    """How statements are rendered: for SQLite, or for one kind of Postgres."""

    postgres: bool = False
    schema: str = "onward"
    database_time: bool = False
    skip_locked: bool = True

    @property
    def name(self) -> str:
        """The folder that holds the statements of this database alone."""
        return "postgres" if self.postgres else "sqlite"

    def statements(self) -> dict[str, Statement]:
        """Return every named statement, rendered."""
        texts = dict(_texts("sql")) | dict(_texts(f"sql/{self.name}"))
        return {name: self.render(name, *text) for name, text in texts.items()}

    def render(self, name: str, text: str, order: tuple[str, ...] = ()) -> Statement:
        """Render one statement with numbered parameters, those in `order` first."""
        sql = _COMMENT.sub("", text).strip()
        if self.postgres:
            sql = self._qualified(_INDEX_HINT.sub("", sql))
            clock = POSTGRES_CLOCK if self.database_time else ":now::bigint"
            sql = re.sub(r"(?<![:\w]):now\b", clock, sql)
            if not self.skip_locked:
                sql = sql.replace(" SKIP LOCKED", "")
        # Only SQLite is given rows as they are; Postgres refuses a parameter that no text uses.
        names = [] if self.postgres else list(order)

        def numbered(match: re.Match[str]) -> str:
            if match[1] not in names:
                names.append(match[1])
            return f"{'$' if self.postgres else '?'}{names.index(match[1]) + 1}"

        return Statement(name, _PARAMETER.sub(numbered, sql), tuple(names))

    def script(self, text: str) -> list[str]:
        """Render DDL, which has no parameters, as single statements."""
        sql = _COMMENT.sub("", text)
        if self.postgres:
            sql = re.sub(r"\) STRICT(, WITHOUT ROWID)?;", ");", sql)
            # A key that SQLite assigns by itself.
            sql = sql.replace("INTEGER NOT NULL PRIMARY KEY", f"INTEGER {_IDENTITY} PRIMARY KEY")
            sql = re.sub(r"\bBLOB\b", "BYTEA", re.sub(r"\bINTEGER\b", "BIGINT", sql))
            sql = self._qualified(sql)
        return [part.strip() for part in sql.split(";") if part.strip()]

    def _qualified(self, sql: str) -> str:
        return re.sub(
            r"\bonward_\w+\b",
            lambda match: f"{self.schema}.{match[0]}" if match[0] in tables() else match[0],
            sql,
        )


@cache
def migrations() -> tuple[str, ...]:
    """Return the texts of all migrations, oldest first; the first one leads to schema 1."""
    folder = _folder("sql/migrations")
    return tuple(
        entry.read_text("utf-8") for entry in sorted(folder.iterdir(), key=lambda entry: entry.name)
    )


@cache
def tables() -> frozenset[str]:
    """Return the names of all tables that the migrations make."""
    return frozenset(name for text in migrations() for name in _TABLE.findall(text))


def own_statements(folder: str) -> frozenset[str]:
    """Return the names of the statements that only one database has, or has its own text for."""
    return frozenset(name for name, _ in _texts(f"sql/{folder}"))


def _texts(path: str) -> Iterator[tuple[str, tuple[str, tuple[str, ...]]]]:
    for entry in sorted(_folder(path).iterdir(), key=lambda entry: entry.name):
        if entry.name.endswith(".sql"):
            parts = _HEADER.split(entry.read_text("utf-8"))
            for name, order, text in zip(parts[1::3], parts[2::3], parts[3::3], strict=True):
                yield name, (text, tuple(re.findall(r"\w+", order or "")))


def _folder(path: str) -> Traversable:
    folder: Traversable = files("onward.store")
    for part in path.split("/"):
        folder = folder / part
    return folder
