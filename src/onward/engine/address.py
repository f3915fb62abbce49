"""Addresses of databases, for those who do not open them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from onward.engine.server_address import is_server, parse_server
from onward.errors import BadStoreUrl, StoreUnusable
from onward.store.address import SqliteAddress, parse
from onward.store.address import masked as masked_store
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
    if is_server(url):
        return
    address = parse(url)
    if isinstance(address, SqliteAddress) and address.path is None:
        raise StoreUnusable(
            ":memory:", "exists only in the process that opened it, so it is empty here", advice
        )
    if not await is_there(address):
        raise StoreUnusable(str(address), "does not exist, or is not an Onward database", advice)


def masked(url: str) -> str:
    """Return an address without the password in it, fit for logs."""
    if not is_server(url):
        return masked_store(url)
    try:
        return str(parse_server(url))
    except BadStoreUrl as refusal:
        return refusal.url


def resolved(url: str, folder: Path) -> str:
    """Return an address; the name of a file in it is relative to the folder."""
    if is_server(url):
        return str(parse_server(url, folder))
    address = parse(url)
    if isinstance(address, SqliteAddress) and address.path is not None:
        return str(folder / address.path)
    return url
