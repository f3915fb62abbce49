"""A connection that a caller brings, whatever its driver: what the store needs of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from onward.errors import StoreUnusable

if TYPE_CHECKING:
    from collections.abc import Sequence


class Caller(Protocol):
    """A caller's connection. With a driver that is not async, `fetch` never really waits."""

    async def fetch(self, sql: str, values: Sequence[object] = ()) -> Sequence[Sequence[Any]]:
        """Run one statement in the caller's transaction and return its rows."""
        ...

    async def is_in_transaction(self) -> bool:
        """Say whether a write waits for the caller's commit; asked after a first `fetch`."""
        ...


def packages_of(connection: object) -> frozenset[str]:
    """Return the packages that an object's class and its bases come from."""
    return frozenset(kind.__module__.partition(".")[0] for kind in type(connection).__mro__)


async def driver_connection(connection: object, *, waits: bool) -> object:
    """Return a connection itself, or the driver's own if SQLAlchemy is around it."""
    if "sqlalchemy" not in packages_of(connection):
        return connection
    from onward.store.callers import sqlalchemy

    return await sqlalchemy.driver_connection(connection, waits=waits)


def refuse(connection: object, where: str, drivers: str) -> StoreUnusable:
    """Return the error for a connection that cannot carry writes to this store."""
    kind = f"{type(connection).__module__}.{type(connection).__qualname__}"
    return StoreUnusable(
        f"a connection of type {kind}",
        f"cannot carry writes to {where}",
        f"Pass a connection to the same database: {drivers}",
    )


def refuse_without_transaction(connection: object) -> StoreUnusable:
    """Return the error for a connection that commits every statement by itself."""
    kind = f"{type(connection).__module__}.{type(connection).__qualname__}"
    return StoreUnusable(
        f"a connection of type {kind}",
        "is in no transaction, so there is no commit to wait for",
        "Begin one around the call, or use the app itself",
    )
