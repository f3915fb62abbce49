"""Group commit: whatever arrived while the last batch was under way becomes the next batch.

There are no timers. A lone write goes out at once; a thousand concurrent ones go out in a few
batches. A batch that fails because of one member is halved until the culprit is alone, so that
only it is refused. What the caller of a write does meanwhile (be cancelled, go away) changes
nothing about the write.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from onward.errors import Rejected

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

Item = TypeVar("Item")
Answer = TypeVar("Answer")


class Lane(Generic[Item, Answer]):
    """A queue of writes of one kind, written in batches, one batch at a time.

    Args:
        apply: Writes what it can of the items, all or nothing, and returns an answer per item, or
            `None` for one that has to wait for the next batch; the first is never put off. It
            raises `Rejected` when an item cannot be written, and `Unavailable` when nothing can.
        name: Names the task, for people who look at a stack dump.
        most: How many items are looked at together.
    """

    def __init__(
        self,
        apply: Callable[[list[Item]], Awaitable[Sequence[Answer | None]]],
        *,
        name: str,
        most: int = 500,
    ) -> None:
        self._apply = apply
        self._name = name
        self._most = most
        self._waiting: list[tuple[Item, asyncio.Future[Answer]]] = []
        self._task: asyncio.Task[None] | None = None
        self.batches = 0
        self.items = 0

    def submit(self, item: Item) -> asyncio.Future[Answer]:
        """Queue a write and return the future of its answer."""
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Answer] = loop.create_future()
        self._waiting.append((item, answer))
        if self._task is None:
            self._task = loop.create_task(self._drain(), name=self._name)
        return answer

    async def close(self) -> None:
        """Wait until everything that was submitted has its answer."""
        while self._task is not None:
            await asyncio.wait([self._task])

    async def _drain(self) -> None:
        try:
            while self._waiting:
                batch = self._waiting[: self._most]
                self._waiting = self._waiting[self._most :]
                self._waiting = await self._write(batch) + self._waiting
        finally:
            self._task = None

    async def _write(self, batch: list[_Waiting]) -> list[_Waiting]:
        """Write a batch and return those of its members that have to wait for the next one."""
        try:
            answers = await self._apply([item for item, _ in batch])
        except Rejected as refusal:
            if len(batch) == 1:
                _fail(batch, refusal)
                return []
            middle = len(batch) // 2
            left = await self._write(batch[:middle])
            return left + await self._write(batch[middle:])
        except Exception as error:  # noqa: BLE001 - whatever it is, its callers must hear of it
            _fail(batch, error)
            return []
        except asyncio.CancelledError as end:  # the loop ends: nobody may be left waiting
            _fail([*batch, *self._waiting], end)
            self._waiting.clear()
            raise
        self.batches += 1
        self.items += len(batch)
        return _answer(batch, answers)


_Waiting = tuple[Any, "asyncio.Future[Any]"]


def _answer(batch: list[_Waiting], answers: Sequence[object | None]) -> list[_Waiting]:
    left: list[_Waiting] = []
    for waiting, value in zip(batch, answers, strict=True):
        if value is None:
            left.append(waiting)
        elif not waiting[1].done():  # its caller may have been cancelled meanwhile
            waiting[1].set_result(value)
    return left


def _fail(batch: list[_Waiting], error: BaseException) -> None:
    for _, answer in batch:
        if answer.done():
            continue
        if isinstance(error, asyncio.CancelledError):
            answer.cancel()
        else:
            answer.set_exception(error)
