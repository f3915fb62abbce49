"""Group commit: writes that arrive while a batch is in flight become the next batch.

There are no timers. A lone write goes out at once; a thousand concurrent ones go out in a few
batches. A batch that fails because of one member is halved until that member is alone, so that only
it is refused; a member that waits for a lock is retried apart, so that no other waits for it.
Cancelling the caller of a write does not affect the write.

A write is answered by a call of a function, and a batch by one callback of the event loop: a future
for each write would cost more than most of what is done with the answer.
"""

from __future__ import annotations

import asyncio
from collections import deque
from contextvars import copy_context
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from onward.errors import Rejected, Unavailable

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Sequence

Item = TypeVar("Item")
Answer = TypeVar("Answer")

APART_SECONDS = 10.0
"""How long a write that waits for a lock is retried before it fails."""

_APART_DELAY_SECONDS = 0.1


class Contended(Unavailable):
    """Another transaction holds a lock that one member of a batch needs."""


class Lane(Generic[Item, Answer]):
    """A queue of writes of one kind, written in batches, one batch at a time.

    Args:
        apply: Writes what it can of the items, all or nothing, and returns an answer per item, or
            `None` for one that has to wait for the next batch; never for all. It
            raises `Rejected` when an item cannot be written, `Contended` when another
            transaction holds a lock that one needs, and `Unavailable` when nothing can be written.
        name: The name of the task.
        key: The key of an item. Items with one key are written in the order of their submission.
        max_items: How many items a batch may be chosen from.
    """

    def __init__(
        self,
        apply: Callable[[list[Item]], Awaitable[Sequence[Answer | None]]],
        *,
        name: str,
        key: Callable[[Item], object] = id,
        max_items: int = 500,
    ) -> None:
        self._apply = apply
        self._name = name
        self._key = key
        self._max_items = max_items
        self._waiting: list[_Waiting] = []
        self._apart: dict[object, list[_Waiting]] = {}
        self._one_apart = asyncio.Lock()
        # Not the context of the first submitter: the tasks of the lane would keep it in memory.
        self._context = copy_context()
        self._task: asyncio.Task[None] | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self.batches = 0
        self.items = 0

    def put(self, item: Item, then: Callable[[Answer | BaseException], None]) -> None:
        """Queue a write and call `then` with its answer, or its error, on the event loop."""
        self._waiting.append((item, then))
        if self._task is None:
            self._start()

    def submit(self, item: Item) -> asyncio.Future[Answer]:
        """Queue a write and return the future of its answer."""
        answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self.put(item, partial(settle, answer))
        return answer

    @property
    def is_idle(self) -> bool:
        """Whether everything that was submitted has its answer."""
        return not self._tasks

    async def close(self) -> None:
        """Wait until everything that was submitted has its answer."""
        while self._tasks:
            await asyncio.wait(self._tasks)

    def _start(self) -> None:
        if self._task is None:
            self._task = self._spawn(self._drain())

    def _spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        # Not by the loop: its task factory may run the task at once, before it is known here.
        loop = asyncio.get_running_loop()
        task = asyncio.Task(work, loop=loop, name=self._name, context=self._context)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _drain(self) -> None:
        try:
            while self._waiting:
                batch = self._waiting[: self._max_items]
                self._waiting = self._waiting[self._max_items :]
                self._waiting = await self._write(batch) + self._waiting
        except asyncio.CancelledError as end:  # the loop ends: every caller gets an answer
            self._fail(self._waiting, end)
            raise
        finally:
            self._task = None

    async def _write(self, batch: list[_Waiting]) -> list[_Waiting]:
        """Write a batch and return those of its members that have to wait for the next one."""
        if self._apart:
            batch = [waiting for waiting in batch if not self._follows(waiting)]
        if not batch:
            return []
        try:
            answers = await self._apply([item for item, _ in batch])
        except (Rejected, Contended) as refusal:
            if len(batch) > 1:
                return await self._halve(batch)
            if isinstance(refusal, Contended):
                self._set_apart(batch[0])
            else:
                self._fail(batch, refusal)
            return []
        except Unavailable as away:
            # Later members would wait as long again for the same answer.
            self._fail([*batch, *self._waiting], away)
            self._waiting = []
            return []
        except Exception as error:  # noqa: BLE001 - the callers get it
            self._fail(batch, error)
            return []
        except asyncio.CancelledError as end:
            self._fail(batch, end)
            raise
        self.batches += 1
        self.items += len(batch)
        return self._answer(batch, answers)

    async def _halve(self, batch: list[_Waiting]) -> list[_Waiting]:
        middle = len(batch) // 2
        try:
            left = await self._write(batch[:middle])
            put_off = {self._key(item) for item, _ in left}
            left += [waiting for waiting in batch[middle:] if self._key(waiting[0]) in put_off]
            rest = [waiting for waiting in batch[middle:] if self._key(waiting[0]) not in put_off]
            return left + await self._write(rest)
        except asyncio.CancelledError as end:
            self._fail(batch, end)
            raise

    # --- members that wait for a lock -------------------------------------------------------------

    def _follows(self, waiting: _Waiting) -> bool:
        """Return whether a member must wait for one that is retried apart."""
        before = self._apart.get(self._key(waiting[0]))
        if before is None:
            return False
        before.append(waiting)
        return True

    def _set_apart(self, waiting: _Waiting) -> None:
        self._apart[self._key(waiting[0])] = []
        self._spawn(self._insist(waiting))

    async def _insist(self, waiting: _Waiting) -> None:
        """Write a member alone, then continue with those that wait for it."""
        try:
            await self._write_alone(waiting)
        except Exception as error:  # noqa: BLE001 - the caller gets it
            self._fail([waiting], error)
        except asyncio.CancelledError as end:
            self._fail([waiting, *self._apart.pop(self._key(waiting[0]))], end)
            raise
        self._waiting = self._apart.pop(self._key(waiting[0])) + self._waiting
        if self._waiting:
            self._start()

    async def _write_alone(self, waiting: _Waiting) -> None:
        loop = asyncio.get_running_loop()
        end = loop.time() + APART_SECONDS
        while True:
            try:
                async with self._one_apart:  # each takes up a connection for as long as it waits
                    answers = await self._apply([waiting[0]])
            except Contended:
                if loop.time() > end:
                    raise
            else:
                self._answer([waiting], answers)
                return
            await asyncio.sleep(_APART_DELAY_SECONDS)

    # --- answers ----------------------------------------------------------------------------------

    def _answer(self, batch: list[_Waiting], answers: Sequence[Answer | None]) -> list[_Waiting]:
        """Answer the members that were written, and return the others."""
        left: list[_Waiting] = []
        done: deque[_Answered] = deque()
        for waiting, value in zip(batch, answers, strict=True):
            if value is None:
                left.append(waiting)
            else:
                done.append((waiting[1], value))
        self._call(done)
        return left

    def _fail(self, batch: list[_Waiting], error: BaseException) -> None:
        self._call(deque((then, error) for _, then in batch))

    def _call(self, answers: deque[_Answered]) -> None:
        # Not at once: first the next batch goes out.
        asyncio.get_running_loop().call_soon(call_each, answers, context=self._context)


_Then = Any  # a function of an answer or an error; Python 3.11 has no generic alias for it
_Waiting = tuple[Any, _Then]
_Answered = tuple[_Then, Any]


def call_each(answers: deque[_Answered]) -> None:
    """Give each member its answer, whatever the others do with theirs."""
    try:
        while answers:
            then, value = answers.popleft()
            then(value)
    finally:
        if answers:
            asyncio.get_running_loop().call_soon(call_each, answers)


def settle(answer: asyncio.Future[Any], value: object) -> None:
    """Give a future the answer to a write, or its error, unless its caller was cancelled."""
    if answer.done():
        return
    if isinstance(value, asyncio.CancelledError):
        answer.cancel()
    elif isinstance(value, BaseException):
        answer.set_exception(value)
    else:
        answer.set_result(value)
