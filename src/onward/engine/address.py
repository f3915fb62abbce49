"""Addresses of databases, for those who do not open them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from onward.errors import StoreUnusable
from onward.store.address import SqliteAddress, masked, parse
from onward.store.presence import is_there

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["check_exists", "masked", "resolved"]


async def check_exists(url: str, advice: str) -> None:
    """Refuse to make a database by looking for one.

    Raises:
        StoreUnusable: there is none.
        Unavailable: it cannot be reached.
    """
    address = parse(url)
    if isinstance(address, SqliteAddress) and address.path is None:
        raise StoreUnusable(
            ":memory:", "exists only in its own process, so it is empty here", advice
        )
    if not await is_there(address):
        raise StoreUnusable(str(address), "does not exist, or is not an Onward database", advice)


def resolved(url: str, folder: Path) -> str:
    """Return an address; the name of a database file is relative to the folder."""
    address = parse(url)
    if isinstance(address, SqliteAddress) and address.path is not None:
        return str(folder / address.path)
    return url
