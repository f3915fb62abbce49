"""Replies to what a run asks of its store."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from onward.runtime.reading import STORE_ERRORS

if TYPE_CHECKING:
    import asyncio


def is_away(done: asyncio.Future[Any]) -> bool:
    """Return whether a question has no reply because the store, or the lease, is away.

    Raises:
        Exception: the store replied, but the reply cannot be used.
    """
    error = None if done.cancelled() else done.exception()
    if error is not None and not isinstance(error, STORE_ERRORS):
        raise error
    return done.cancelled() or error is not None
