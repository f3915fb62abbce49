"""Named SQL statements, read from `.sql` files and rendered for one database.

The files are written for SQLite, with `:name` parameters. The Postgres text is derived by the rules
in `_for_postgres`: tables get their schema, parameters become `$1`, `:now` becomes the database's
own clock, and a list, which is a JSON array on SQLite, becomes an array. Row locks, which only
Postgres has, are left out for SQLite. What cannot be derived stands in a folder of its own, whole:
`sql/sqlite/` (batches are written part by part in the writer's transaction) and `sql/postgres/`
(batches are single statements). A test lists what stands there.

A text that several statements share is a part: it follows a line `-- part: name`, and `{name}`
stands for it. A header may name parameters in the order in which rows give them
(`-- name: add_record(run, …)`); others follow in the order in which the text uses them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from importlib.resources.abc import Traversable

# The time at which Postgres received the statement. Unlike clock_timestamp() it is stable, so an
# index can be searched by it; unlike now() it does not stand still in a long transaction.
POSTGRES_CLOCK = "(extract(epoch FROM statement_timestamp()) * 1000000)::bigint"

_HEADER = re.compile(r"^-- (name|part): (\w+)(?:\(([\w\s,-]*)\))?$", re.MULTILINE)
_PART = re.compile(r"\{(\w+)\}")
_COMMENT = re.compile(r"--[^\n]*")
_PARAMETER = re.compile(r"(?<![:\w]):([a-z]\w*)")
_INDEX_HINT = re.compile(r" INDEXED BY \w+")
_ROW_LOCK = re.compile(r"\s+FOR (?:NO KEY UPDATE|UPDATE|KEY SHARE)(?: SKIP LOCKED)?")
_IN_TEXTS = re.compile(r"IN \(SELECT value FROM json_each\(:(\w+)\)\)")
_IN_NUMBERS = re.compile(r"IN \(SELECT CAST\(value AS BIGINT\) FROM json_each\(:(\w+)\)\)")
_EACH_TEXT = re.compile(r"json_each\(:(\w+)\) (\w+)")
_LOOKUP = re.compile(
    r"(CROSS|LEFT) JOIN (onward_\w+) (\w+)\s+ON ([\s\S]*?)"
    r"(?=\n\s*(?:CROSS|LEFT|JOIN|WHERE|ORDER|UNION|\))|;|\Z)"
)
_IDENTITY = "GENERATED ALWAYS AS IDENTITY"
_TABLE = re.compile(r"CREATE TABLE (onward_\w+)")


@dataclass(frozen=True, slots=True)
class Statement:
    """SQL text for one database, with the order in which its parameters are given."""

    name: str
    sql: str
    parameters: tuple[str, ...]
    row: tuple[str, ...] = ()
    """The first of them, if rows give these in this order."""

    def arrange(self, given: dict[str, object]) -> tuple[object, ...]:
        """Return the values of `given` in the order that the text asks for."""
        return tuple([given[name] for name in self.parameters])

    def arrange_rest(self, given: dict[str, object]) -> tuple[object, ...]:
        """Return the values of `given` that rows do not give."""
        return tuple([given[name] for name in self.parameters[len(self.row) :]])


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
        """Return every named statement, rendered; all callers share the result."""
        return _statements(self)

    def render(self, name: str, text: str, order: tuple[str, ...] = ()) -> Statement:
        """Render one statement with numbered parameters, those in `order` first."""
        sql = _COMMENT.sub("", text).strip()
        sql = self._for_postgres(sql) if self.postgres else _ROW_LOCK.sub("", sql)
        # Only SQLite is given rows as they are; Postgres refuses a parameter that no text uses.
        names = [] if self.postgres else list(order)

        def numbered(match: re.Match[str]) -> str:
            if match[1] not in names:
                names.append(match[1])
            return f"{'$' if self.postgres else '?'}{names.index(match[1]) + 1}"

        text = _PARAMETER.sub(numbered, sql)
        return Statement(name, text, tuple(names), () if self.postgres else order)

    def _for_postgres(self, sql: str) -> str:
        sql = _INDEX_HINT.sub("", sql)  # SQLite would not choose it without statistics
        sql = _IN_TEXTS.sub(r"= ANY (:\1::text[])", sql)
        sql = _IN_NUMBERS.sub(r"= ANY (:\1::bigint[])", sql)
        sql = _EACH_TEXT.sub(r"unnest(:\1::text[]) WITH ORDINALITY \2 (value, key)", sql)
        sql = _LOOKUP.sub(_lateral, sql)
        sql = self._qualified(sql.replace("instr(", "strpos("))
        clock = POSTGRES_CLOCK if self.database_time else ":now::bigint"
        sql = re.sub(r"(?<![:\w]):now\b", clock, sql)
        return sql if self.skip_locked else sql.replace(" SKIP LOCKED", "")

    def script(self, text: str) -> list[str]:
        """Render DDL, which has no parameters, as single statements."""
        sql = _COMMENT.sub("", text)
        if self.postgres:
            sql = re.sub(r"\) STRICT(, WITHOUT ROWID)?;", ");", sql)
            # A key that SQLite assigns by itself.
            sql = sql.replace("INTEGER NOT NULL PRIMARY KEY", f"INTEGER {_IDENTITY} PRIMARY KEY")
            sql = re.sub(r"\bBLOB\b", "BYTEA", re.sub(r"\bINTEGER\b", "BIGINT", sql))
            # Sorted by bytes, as on SQLite: an index finds the ids that begin with a text.
            sql = re.sub(r"\bTEXT\b", 'TEXT COLLATE "C"', sql)
            sql = self._qualified(sql)
        return [part.strip() for part in sql.split(";") if part.strip()]

    def _qualified(self, sql: str) -> str:
        return re.sub(
            r"\bonward_\w+\b",
            lambda match: f"{self.schema}.{match[0]}" if match[0] in tables() else match[0],
            sql,
        )


@cache
def _statements(dialect: Dialect) -> dict[str, Statement]:
    # Takes 30 ms, which every open of a database would pay.
    texts = [*_texts("sql"), *_texts(f"sql/{dialect.name}")]
    parts = {each.name: each.sql for each in texts if each.is_part}
    return {
        each.name: dialect.render(each.name, _composed(each.sql, parts), each.order)
        for each in texts
        if not each.is_part
    }


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
    return frozenset(text.name for text in _texts(f"sql/{folder}") if not text.is_part)


class _Text(NamedTuple):
    """A statement, or a part of statements, as it stands in a file."""

    name: str
    sql: str
    order: tuple[str, ...]
    is_part: bool


def _texts(path: str) -> Iterator[_Text]:
    for entry in sorted(_folder(path).iterdir(), key=lambda entry: entry.name):
        if entry.name.endswith(".sql"):
            found = _HEADER.split(entry.read_text("utf-8"))
            for kind, name, order, sql in zip(*(found[n::4] for n in (1, 2, 3, 4)), strict=True):
                yield _Text(name, sql, tuple(re.findall(r"\w+", order or "")), kind == "part")


def _composed(sql: str, parts: Mapping[str, str]) -> str:
    """Put parts in the place of their names in braces."""
    sql = _COMMENT.sub("", sql)
    return _PART.sub(lambda found: _composed(parts[found[1]], parts).strip(), sql)


def _lateral(join: re.Match[str]) -> str:
    """Look up each row by itself.

    A plan that was made while the table was empty would otherwise read the whole namespace and
    pick from that. On SQLite the same is said by CROSS JOIN, which keeps the order of the loops.
    """
    kind, table, alias, condition = join.groups()
    subquery = f"(SELECT * FROM {table} {alias} WHERE {condition} OFFSET 0)"  # noqa: S608 - ours
    end = "" if kind == "CROSS" else " ON true"
    return f"{kind} JOIN LATERAL {subquery} {alias}{end}"


def _folder(path: str) -> Traversable:
    folder: Traversable = files("onward.store")
    for part in path.split("/"):
        folder = folder / part
    return folder
