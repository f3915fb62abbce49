"""Replies to what a run asks of its store."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from onward.runtime.execution.guard import on_done
from onward.runtime.reading import STORE_ERRORS

if TYPE_CHECKING:
    import asyncio

    from onward.model.messages import InboxRow
    from onward.runtime.execution.execution import Execution


def is_away(done: asyncio.Future[Any]) -> bool:
    """Return whether a question has no reply because the store, or the lease, is away.

    Raises:
        Exception: the store replied, but the reply cannot be used.
    """
    error = None if done.cancelled() else done.exception()
    if error is not None and not isinstance(error, STORE_ERRORS):
        raise error
    return done.cancelled() or error is not None


def take_payloads(execution: Execution, asked: asyncio.Future[list[InboxRow]]) -> None:
    """Wait for the payloads of messages that were left out because there were so many bytes."""

    def read(done: asyncio.Future[list[InboxRow]]) -> None:
        execution.is_loading = False
        if is_away(done):
            execution.drop()
        else:
            execution.mail.fill(done.result())
            execution.pump()

    execution.is_loading = True
    on_done(execution, asked, read)
