"""Replies of the engine to requests of a run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from onward.runtime.execution.guard import GuardedRun, on_done
from onward.runtime.reading import STORE_ERRORS

if TYPE_CHECKING:
    import asyncio

    from onward.model.messages import InboxRow
    from onward.runtime.body.waits import RunInbox


class Overtaken(Exception):
    """A message has arrived for a run that must be read before another run follows it."""


class ReadingRun(GuardedRun, Protocol):
    """A run that reads its messages."""

    inbox: RunInbox
    is_loading: bool

    def pump(self) -> None: ...

    def drop(self) -> None: ...


def is_away(done: asyncio.Future[Any]) -> bool:
    """Return whether a question has no reply because the store, or the lease, is away.

    Raises:
        Exception: the store replied, but the reply cannot be used.
    """
    error = None if done.cancelled() else done.exception()
    if error is not None and not isinstance(error, STORE_ERRORS):
        raise error
    return done.cancelled() or error is not None


def take_payloads(execution: ReadingRun, asked: asyncio.Future[list[InboxRow]]) -> None:
    """Wait for the payloads of messages that were left out because there were so many bytes."""

    def read(done: asyncio.Future[list[InboxRow]]) -> None:
        execution.is_loading = False
        if is_away(done):
            execution.drop()
        else:
            execution.inbox.fill(done.result())
            execution.pump()

    execution.is_loading = True
    on_done(execution, asked, read)
