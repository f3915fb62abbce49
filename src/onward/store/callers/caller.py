"""What the store needs of a caller's connection."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence


class Caller(Protocol):
    """A caller's connection. With a driver that is not async, nothing here suspends."""

    async def fetch(self, sql: str, values: Sequence[object] = ()) -> Sequence[Sequence[Any]]:
        """Run one statement in the caller's transaction and return its rows."""
        ...

    async def prepare_to_write(self) -> None:
        """Make sure that what is read first does not keep an open transaction from writing."""
        ...

    async def is_in_transaction(self) -> bool:
        """Return whether a write would wait for the caller's commit."""
        ...
