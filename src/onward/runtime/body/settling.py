"""Waiting for the outcome of an effect."""

from __future__ import annotations

import asyncio
from typing import Any

from onward.runtime.body.body import Evicted


async def until_settled(asked: asyncio.Future[Any]) -> Any:
    """Wait until the effect is settled, even if this branch is cancelled meanwhile."""
    stopped: asyncio.CancelledError | None = None
    while not asked.done():
        try:
            await asyncio.wait([asked])
        except asyncio.CancelledError as error:
            stopped = error
    failure = None if asked.cancelled() else asked.exception()
    if stopped is not None and not isinstance(failure, Evicted):
        if isinstance(failure, asyncio.CancelledError):  # it was dropped: say what is known of it
            stopped.add_note(str(failure))
        raise stopped
    return asked.result()
