"""Which connections of callers may carry writes: checked before each use."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, ClassVar

from onward.errors import StoreUnusable

if TYPE_CHECKING:
    from onward.store.callers.caller import Caller


class Admission(ABC):
    """Checks a caller's connection; each database has its own rules.

    Args:
        connection: What the caller gave.
        where: The address of the store, for messages.
        waits: The connection may be an async one.

    Raises:
        StoreUnusable: it is of no kind that could be taken.
    """

    known: ClassVar[frozenset[str]]
    """The packages whose connections are supported."""

    channel: str | None = None
    """Where a hint may be sent with the caller's commit; known once the connection was checked."""

    def __init__(self, connection: object, where: str, *, waits: bool) -> None:
        self._connection = connection
        self._where = where
        self._waits = waits
        self._inner: object = None
        self._caller: Caller | None = None
        if not self.known & packages_of(connection):
            raise self._refusal()

    async def __call__(self, *, writes: bool = True) -> Caller:
        """Return how to use the connection.

        Raises:
            StoreUnusable: it is of another kind or leads elsewhere, or it is to be written through
                and is in no transaction.
        """
        inner = await self._unwrapped()
        if self._caller is None or inner is not self._inner:
            self._caller = await self._examined(inner)
            self._inner = inner
        if writes and not await self._caller.is_in_transaction():
            raise StoreUnusable(
                f"a connection of type {_kind(self._connection)}",
                "is not in a transaction",
                "Begin a transaction first, or call the app directly instead of through within()",
            )
        return self._caller

    @abstractmethod
    async def _examined(self, inner: object) -> Caller:
        """Return how to use a driver's connection, if it leads to our database."""

    @abstractmethod
    def _drivers(self) -> str:
        """Name the supported drivers, for an error message."""

    def _refusal(self) -> StoreUnusable:
        return StoreUnusable(
            f"a connection of type {_kind(self._connection)}",
            f"cannot write to {self._where}",
            f"Pass a connection to the same database: {self._drivers()}",
        )

    async def _unwrapped(self) -> object:
        """Return the driver's connection: with SQLAlchemy around it, a new one each transaction."""
        if "sqlalchemy" not in packages_of(self._connection):
            return self._connection
        from onward.store.callers import sqlalchemy

        return await sqlalchemy.driver_connection(self._connection, waits=self._waits)


def packages_of(connection: object) -> frozenset[str]:
    """Return the packages that an object's class and its bases come from."""
    return frozenset(kind.__module__.partition(".")[0] for kind in type(connection).__mro__)


def _kind(connection: object) -> str:
    return f"{type(connection).__module__}.{type(connection).__qualname__}"
