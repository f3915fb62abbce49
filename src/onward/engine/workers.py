"""Workers as operators see them, and draining them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from onward.core.run import RunKind
from onward.engine.display import shown_time, shown_time_or_none
from onward.errors import NotFound

if TYPE_CHECKING:
    from onward.model.workers import WorkerRow
    from onward.store.store import Store

_NOT_SHOWN = (f"{RunKind.STEP} ", f"{RunKind.MAP} ", "onward.")
"""How the names of routed steps, of map chunks and of Onward's own workflows begin."""


@dataclass(frozen=True, slots=True)
class WorkerInfo:
    """A worker that uses the store.

    Attributes:
        id: Its id. A worker gets a new id whenever its process starts, and after it has lost its
            lease.
        state: alive, draining (alive, but it takes no more runs), dead (it has not renewed its
            lease in time) or left.
        host: The machine that it runs on.
        pid: The id of its process.
        version: The version of its App, if runs are pinned to it.
        queues: The queues whose runs it takes.
        tags: Its tags.
        workflows: The workflows that it knows.
        slots: How many runs may execute at a time.
        running: How many runs it is executing.
        draining: Whether it has stopped taking runs, after a signal or because an operator drained
            it.
        started_at: When it joined.
        renewed_at: When it last renewed its lease; None if it has no lease.
        left_at: When it left, or was found to be dead.

    Example:
        >>> import asyncio
        >>> from onward import App
        >>> async def main() -> None:
        ...     app = App(":memory:")
        ...     async with app, app.worker(queues=["mail"]) as worker:
        ...         await app.workers.drain(worker.id)
        ...         for info in await app.workers.list():
        ...             print(info.state, info.queues)
        >>> asyncio.run(main())
        draining ('mail',)
    """

    id: str
    state: str
    host: str
    pid: int
    version: str | None
    queues: tuple[str, ...]
    tags: tuple[str, ...]
    workflows: tuple[str, ...]
    slots: int
    running: int
    draining: bool
    started_at: datetime
    renewed_at: datetime | None
    left_at: datetime | None


async def list_workers(store: Store, *, gone: bool) -> list[WorkerInfo]:
    """Return workers, newest first; with `gone`, also those that have left."""
    return [_info(row) for row in await store.workers(gone=gone)]


async def drain_worker(store: Store, worker: str) -> bool:
    """Let a worker take no more runs and leave; return False if it has left already.

    Raises:
        NotFound: there is no such worker.
    """
    if await store.drain_worker(worker):
        return True
    if not any(row.worker == worker for row in await store.workers(gone=True)):
        raise NotFound("worker", worker, store.namespace)
    return False


def _info(row: WorkerRow) -> WorkerInfo:
    return WorkerInfo(
        row.worker,
        _state(row),
        row.host,
        row.pid,
        row.version,
        _names(row.queues),
        _names(row.tags),
        tuple(name for name in _names(row.names) if not name.startswith(_NOT_SHOWN)),
        row.slots,
        row.running,
        bool(row.draining),
        shown_time(row.started_at),
        shown_time_or_none(row.renewed_at),
        shown_time_or_none(row.left_at),
    )


def _state(row: WorkerRow) -> str:
    if row.left_at is not None:
        return "left"
    if not row.is_alive:
        return "dead"
    return "draining" if row.draining else "alive"


def _names(text: str) -> tuple[str, ...]:
    return tuple(filter(None, text.split("\n")))
