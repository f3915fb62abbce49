"""Where a store is: the address that a user gives, parsed.

A password may stand in an address, and in the wrong place of a wrong one. So nothing that fails
shows the text that was given: only parts that were understood and hold no password are shown.
"""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit, urlunsplit

from onward.errors import BadStoreUrl

if TYPE_CHECKING:
    from urllib.parse import SplitResult

_POSTGRES = ("postgresql", "postgres")
_SCHEME = re.compile(r"[a-z][a-z0-9+.-]*", re.ASCII | re.IGNORECASE)
# Longer than one letter: C:/data is a path.
_MISSING_SLASH = re.compile(r"\s*([a-z][a-z0-9+.-]+:/|(postgres(ql)?|sqlite)(//|:))", re.IGNORECASE)
_KEYWORDS = re.compile(
    r"(^|\s)(host|hostaddr|port|dbname|user|password|passfile|service|sslmode|sslpassword|options)"
    r"\s*=",
    re.IGNORECASE,
)
_USER = re.compile(r"(//)?[^/\\]*:[^@]*@")


@dataclass(frozen=True, slots=True)
class SqliteAddress:
    """A file, or a database that lives in memory (`path` is None)."""

    path: Path | None

    def __str__(self) -> str:
        return ":memory:" if self.path is None else str(self.path)


@dataclass(frozen=True, slots=True)
class PostgresAddress:
    """A Postgres server. `pooled` means that a transaction pooler is in between."""

    url: str = field(repr=False)
    pooled: bool = False
    schema: str = "onward"

    def __str__(self) -> str:
        parts = urlsplit(self.url)
        options = {"pgbouncer": "true"} if self.pooled else {}
        if self.schema != "onward":
            options["onward_schema"] = self.schema
        return urlunsplit((parts.scheme, shown_place(parts), parts.path, urlencode(options), ""))


def parse(url: str) -> SqliteAddress | PostgresAddress:
    """Parse the address of a store.

    A file name, `:memory:`, `sqlite:///path`, or `postgresql://user@host/database`. Postgres takes
    `?pgbouncer=true` (behind a transaction pooler: no LISTEN, no prepared statements) and
    `?onward_schema=name` beside the driver's own options.

    Raises:
        BadStoreUrl: it is none of these.
    """
    if not isinstance(url, str):
        raise BadStoreUrl("…", f"is of type {type(url).__name__}, not str")
    if "\0" in url:
        raise BadStoreUrl("…", "contains a NUL character")
    if not url.strip():
        raise BadStoreUrl("", "is empty")
    if _KEYWORDS.search(url.partition("://")[0]):
        raise BadStoreUrl(
            "…=…", "is a list of libpq keywords. Write it as postgresql://user@host:5432/database"
        )
    scheme, mark, rest = url.partition("://")
    if not mark:
        return _file(url)
    if scheme == "sqlite":
        return _sqlite(rest)
    if scheme in _POSTGRES:
        return _postgres(url)
    if not _SCHEME.fullmatch(scheme):
        raise BadStoreUrl("…://…", "does not begin with a scheme such as postgresql")
    raise BadStoreUrl(f"{scheme}://…", f"has the scheme {scheme!r}, which Onward does not know")


def masked(url: str) -> str:
    """Return an address without the password in it, fit for logs."""
    try:
        address = parse(url)
    except BadStoreUrl as refusal:
        return refusal.url
    return url if isinstance(address, SqliteAddress) else str(address)


class BadServerUrl(ValueError):
    """The URL of a server cannot be parsed; the message quotes nothing of it."""


def split_server(url: str) -> SplitResult:
    """Return the parts of the URL of a server.

    Raises:
        BadServerUrl: user, password, host and port cannot be distinguished for certain.
    """
    fact = None
    try:
        parts = urlsplit(url)
    except ValueError:  # it quotes the address
        fact = "has a host that is not valid, or '[' or ']' in its password (write %5B and %5D)"
    else:
        if "@" in parts.path + parts.query or parts.fragment:
            fact = (
                "has '@' or '#' after the host. In the password, write '/', '?' and '#' as %2F, "
                "%3F and %23; after the host, write '@' as %40"
            )
        elif not all(map(_has_valid_port, _hosts(parts).split(","))):
            fact = "has a port that is not a number"
    if fact is not None:  # raised here, so that no other error is in its context
        raise BadServerUrl(fact)
    # Drivers differ in which '@' they take for the last one.
    account, mark, hosts = parts.netloc.rpartition("@")
    return parts._replace(netloc=account.replace("@", "%40") + mark + hosts)


def shown_place(parts: SplitResult) -> str:
    """Return user and host of the URL of a server, fit for logs."""
    user, mark, _ = parts.netloc.rpartition("@")[0].partition(":")
    at = f"{user}{':***' if mark else ''}@" if user or mark else ""
    return at + _hosts(parts)


def _hosts(parts: SplitResult) -> str:
    return parts.netloc.rpartition("@")[2]


def _has_valid_port(host: str) -> bool:
    port = host.rpartition("]")[2].partition(":")[2]
    return not port or (port.isascii() and port.isdigit() and int(port[:6]) < 1 << 16)


def _file(text: str) -> SqliteAddress:
    if text == ":memory:":
        return SqliteAddress(None)
    if text.startswith("file:"):
        raise BadStoreUrl("file:…", "is a SQLite URI, which Onward does not support")
    if _MISSING_SLASH.match(text):
        raise BadStoreUrl("…:/…", "is a URL without '://' after its scheme")
    if _USER.match(text):
        raise BadStoreUrl("…:…@…", "looks like a URL without its scheme, such as postgresql://")
    path = Path(text)
    with suppress(RuntimeError):  # there is no such user: it is a plain name
        path = path.expanduser()
    return SqliteAddress(path)


def _sqlite(rest: str) -> SqliteAddress:
    if not rest.startswith("/"):
        raise BadStoreUrl(
            "sqlite://…", "lacks the third slash (sqlite:///relative.db, sqlite:////abs.db)"
        )
    path = unquote(rest[1:])
    if "\0" in path:
        raise BadStoreUrl("sqlite:///…", "contains a NUL character")
    return _file(path or ":memory:")


def _postgres(url: str) -> PostgresAddress:
    fact = None
    try:
        parts = split_server(url)
    except BadServerUrl as error:
        fact = str(error)
    if fact is not None:
        raise BadStoreUrl("postgresql://…", fact)
    options = dict(parse_qsl(parts.query, keep_blank_values=True))
    pooled = options.pop("pgbouncer", "false").lower()
    schema = options.pop("onward_schema", "onward")
    clean = PostgresAddress(urlunsplit(parts._replace(query=urlencode(options))))
    if pooled not in ("true", "false"):
        raise BadStoreUrl(str(clean), "has a pgbouncer option that is neither true nor false")
    if not (schema.isidentifier() and schema.isascii() and schema == schema.lower()):
        fact = "has an onward_schema option that is not a plain lower-case word"
        raise BadStoreUrl(str(clean), fact)
    return PostgresAddress(clean.url, pooled == "true", schema)
