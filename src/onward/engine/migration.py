"""Migrating a database without working with it: which schema it has, and bringing it up to date."""

from __future__ import annotations

from typing import NamedTuple

from onward.engine.server_address import is_server, parse_server
from onward.errors import StoreUnusable
from onward.store.address import SqliteAddress, parse
from onward.store.migrations import known, missing
from onward.store.opening import open_store
from onward.store.presence import schema_at


class Migration(NamedTuple):
    """A migration of a database. A schema of 0 is none: the database holds nothing of Onward."""

    where: str
    before: int
    after: int


async def plan_migration(url: str) -> Migration:
    """Return what opening the database would do to its schema; nothing is created or changed.

    Raises:
        StoreUnusable: it cannot be used.
        SchemaTooNew: a newer Onward has migrated it.
        Unavailable: it cannot be reached.
    """
    if is_server(url):
        raise StoreUnusable(
            str(parse_server(url)),
            "is a server, which migrates its own database when it starts",
            "Use the address of the database: postgresql://user@host/database",
        )
    address = parse(url)
    if isinstance(address, SqliteAddress) and address.path is None:
        raise StoreUnusable(
            ":memory:",
            "exists only in the process that opened it",
            "Use a file, or postgresql://user@host/database",
        )
    before = await schema_at(address)
    missing(before, str(address))
    return Migration(str(address), before, known())


async def migrate(url: str) -> Migration:
    """Create the schema, or bring it up to date.

    Raises:
        StoreUnusable: it cannot be used, or this role may not change its schema.
        SchemaTooNew: a newer Onward has migrated it.
        Unavailable: it cannot be reached.
    """
    plan = await plan_migration(url)
    if plan.before != plan.after:
        async with open_store(url):
            """Opening a store migrates it."""
    return plan
