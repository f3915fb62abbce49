"""Where a store is: the text that a user gives, understood."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit, urlunsplit

from onward.errors import BadStoreUrl

_POSTGRES = ("postgresql", "postgres")


@dataclass(frozen=True, slots=True)
class SqliteAddress:
    """A file, or a database that lives in memory (`path` is None)."""

    path: Path | None

    def __str__(self) -> str:
        return ":memory:" if self.path is None else str(self.path)


@dataclass(frozen=True, slots=True)
class PostgresAddress:
    """A Postgres server. `pooled` says that a transaction pooler stands in between."""

    url: str
    pooled: bool = False
    schema: str = "onward"

    def __str__(self) -> str:
        return masked(self.url)


def parse(url: str) -> SqliteAddress | PostgresAddress:
    """Understand the address of a store.

    A file name, `:memory:`, `sqlite:///path`, or `postgresql://user@host/database`. Postgres takes
    `?pgbouncer=true` (behind a transaction pooler: no LISTEN, no prepared statements) and
    `?onward_schema=name` beside the driver's own options.

    Raises:
        BadStoreUrl: it is none of these.
    """
    if not isinstance(url, str):
        raise BadStoreUrl(repr(url), "is no text")
    if not url.strip() or "\0" in url:
        raise BadStoreUrl(url, "is empty or holds a NUL")
    scheme, mark, rest = url.partition("://")
    if not mark:
        return _file(url)
    if scheme == "sqlite":
        return _sqlite(url, rest)
    if scheme in _POSTGRES:
        return _postgres(url)
    raise BadStoreUrl(masked(url), f"has the scheme {scheme!r}, which Onward does not know")


def masked(url: str) -> str:
    """Return an address without the password in it, fit for logs."""
    parts = urlsplit(url)
    if not parts.password:
        return url
    host = parts.netloc.rpartition("@")[2]
    return urlunsplit(parts._replace(netloc=f"{parts.username or ''}:***@{host}"))


def _file(text: str) -> SqliteAddress:
    if text == ":memory:":
        return SqliteAddress(None)
    if text.startswith("file:"):
        raise BadStoreUrl(text, "is a SQLite URI, which Onward does not take")
    return SqliteAddress(Path(text).expanduser())


def _sqlite(url: str, rest: str) -> SqliteAddress:
    if not rest.startswith("/"):
        raise BadStoreUrl(url, "lacks the third slash (sqlite:///relative.db, sqlite:////abs.db)")
    path = unquote(rest[1:])
    return _file(path or ":memory:")


def _postgres(url: str) -> PostgresAddress:
    parts = urlsplit(url)
    options = dict(parse_qsl(parts.query, keep_blank_values=True))
    pooled = options.pop("pgbouncer", "false").lower()
    schema = options.pop("onward_schema", "onward")
    if pooled not in ("true", "false"):
        raise BadStoreUrl(masked(url), "has a pgbouncer option that is neither true nor false")
    if not (schema.isidentifier() and schema.isascii() and schema == schema.lower()):
        raise BadStoreUrl(masked(url), "names a schema that is not a plain lower-case word")
    clean = urlunsplit(parts._replace(query=urlencode(options)))
    return PostgresAddress(clean, pooled == "true", schema)
