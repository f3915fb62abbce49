"""`app.workers`: the workers of a store, for operators."""

from __future__ import annotations

from typing import TYPE_CHECKING

from onward.engine.workers import WorkerInfo
from onward.sdk.inside import refuse_in_body

if TYPE_CHECKING:
    from onward.engine.client_engine import ClientEngine

__all__ = ["WorkerInfo", "Workers"]


class Workers:
    """Operations on the workers of an app's store (`app.workers`): list and drain them.

    Example:
        >>> import asyncio
        >>> from onward import App
        >>> async def main() -> None:
        ...     app = App(":memory:")
        ...     async with app, app.worker(slots=8):
        ...         for worker in await app.workers.list():
        ...             print(worker.state, worker.queues, worker.running, "of", worker.slots)
        >>> asyncio.run(main())
        alive ('default',) 0 of 8
    """

    def __init__(self, engine: ClientEngine) -> None:
        self._opened = engine

    @property
    def _engine(self) -> ClientEngine:
        refuse_in_body("a call to app.workers")
        return self._opened

    async def list(self, *, gone: bool = False) -> list[WorkerInfo]:
        """Return the workers that have not left, newest first.

        Args:
            gone: Whether to also return workers that have left. Their rows are removed after a day.
        """
        return await self._engine.list_workers(gone=gone)

    async def drain(self, id: str) -> bool:  # noqa: A002 - it is the user's word
        """Drain a worker: it takes no more runs, finishes its running steps and leaves.

        The worker notices within about a second. It then shuts down as it does after SIGTERM: it
        waits up to `drain` for steps in progress and releases its runs, and `onward worker` exits
        with status 0.

        Returns:
            False if the worker has already left.

        Raises:
            NotFound: there is no worker with this id.
        """
        return await self._engine.drain_worker(id)
