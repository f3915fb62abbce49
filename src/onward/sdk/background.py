"""An event loop in a thread of its own, and the way into it from other threads."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import threading
from contextlib import contextmanager
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from onward.errors import NotOpen, Unavailable, WouldBlock
from onward.system.clock import spawn_thread
from onward.system.process import check_process

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator
    from contextlib import AbstractAsyncContextManager

    from onward.core.ports import Spawned

T = TypeVar("T")


class Background:
    """Runs coroutines for threads that wait for their answers.

    Args:
        what: The object that waits, for errors.
    """

    def __init__(self, what: str) -> None:
        self._what = what
        self._loop: asyncio.AbstractEventLoop | None = None
        self._pid = os.getpid()
        self._thread: Spawned | None = None
        # By thread: a thread makes one call at a time.
        self._calls: dict[int, _Call[Any]] = {}
        self._failures: dict[int, BaseException] = {}

    def start(self) -> None:
        """Start the thread."""
        self.refuse_in_loop()
        running: SimpleQueue[asyncio.AbstractEventLoop | BaseException] = SimpleQueue()
        self._thread = spawn_thread(lambda: _run(running), name="onward-sync")
        loop = running.get()
        if isinstance(loop, BaseException):
            raise loop
        self._loop = loop
        self._pid = os.getpid()

    def stop(self) -> None:
        """Cancel what is under way and end the thread."""
        loop, self._loop = self._loop, None
        if loop is not None and self._thread is not None:
            loop.call_soon_threadsafe(loop.stop)
            self._thread.join()
        for call in list(self._calls.values()):
            call.give_up()  # it may have come too late to be begun

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine in the loop and return its result; Ctrl-C here cancels it.

        Raises:
            WouldBlock: this thread has an event loop that runs.
            NotOpen: the loop was not started.
            Unavailable: it was stopped meanwhile.
            StoreUnusable: this process was forked after the loop was started.
        """
        thread = threading.get_ident()
        try:
            loop = self._ready(thread)
        except BaseException:
            work.close()
            raise
        call = _Call(work, loop)
        outer = self._calls.get(thread)  # a signal handler may call while the thread waits
        self._calls[thread] = call
        try:
            call.start()
            if thread in self._failures:  # that was before anyone could know of this call
                call.cancel()
            return call.outcome()
        except asyncio.CancelledError:
            raise self._failures.pop(thread, None) or self._closed() from None
        finally:
            if outer is None:
                self._calls.pop(thread, None)
            else:
                self._calls[thread] = outer
            call.cancel()  # it is done, unless waiting for it was interrupted

    def _ready(self, thread: int) -> asyncio.AbstractEventLoop:
        """Return the loop, if the thread may wait for it."""
        self.refuse_in_loop()
        failure = self._failures.pop(thread, None)
        if failure is not None:
            raise failure
        if self._loop is None:
            raise NotOpen(self._what, "Use the app inside `with app.sync()`")
        check_process(self._pid, self._what)
        return self._loop

    def refuse_in_loop(self) -> None:
        """Refuse to wait in a thread whose event loop runs.

        Raises:
            WouldBlock: this is such a thread.
        """
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return
        raise WouldBlock(self._what)

    @contextmanager
    def hold(self, opened: AbstractAsyncContextManager[T]) -> Iterator[T]:
        """Keep something entered in the loop while the body here runs.

        If it fails by itself, the call that the body waits in, or its next one, raises that error.
        """
        thread = threading.get_ident()
        stay = _Stay(opened, lambda failure: self._fail(thread, failure))
        value = self.call(stay.enter())
        try:
            yield value
        finally:
            self._failures.pop(thread, None)  # leaving raises it
            # A body that was not left before is left when the interpreter ends: the thread of the
            # loop has stopped by then, and would never answer.
            if not sys.is_finalizing():
                try:
                    self.call(stay.leave())
                finally:
                    self._failures.pop(thread, None)

    def _fail(self, thread: int, failure: BaseException) -> None:
        self._failures[thread] = failure
        call = self._calls.get(thread)
        if call is not None:
            call.cancel()

    def _closed(self) -> Unavailable:
        return Unavailable(self._what, "was closed while a call was waiting")


class _Call(Generic[T]):
    """A coroutine that runs in a loop, and the thread that waits for its result.

    Ctrl-C may interrupt that thread between any two lines, also of a lock that is written in
    Python, which would then never be released. So it holds none: it only waits at a queue.
    """

    def __init__(self, work: Coroutine[Any, Any, T], loop: asyncio.AbstractEventLoop) -> None:
        self._work = work
        self._loop = loop
        self._task: asyncio.Task[T] | None = None
        self._done: SimpleQueue[asyncio.Task[T] | None] = SimpleQueue()

    def start(self) -> None:
        """Let the loop begin it."""
        try:
            self._loop.call_soon_threadsafe(self._begin)
        except RuntimeError:  # it was closed just now
            self.give_up()

    def outcome(self) -> T:
        """Wait for its result, and return or raise it.

        Raises:
            CancelledError: it was cancelled, or never begun.
        """
        done = self._done.get()
        if done is None:
            raise asyncio.CancelledError
        return done.result()

    def cancel(self) -> None:
        """Let the loop cancel it, if it is not done."""
        if self._task is None or not self._task.done():
            with contextlib.suppress(RuntimeError):  # the loop is closed, and it was given up
                self._loop.call_soon_threadsafe(self._end)

    def give_up(self) -> None:
        """End the wait: there is no loop any more."""
        if self._task is None:
            self._work.close()
        self._done.put(None)

    def _begin(self) -> None:
        self._task = self._loop.create_task(self._work)
        self._task.add_done_callback(self._done.put)

    def _end(self) -> None:
        if self._task is None:
            self._work.close()
            self._done.put(None)
        else:
            self._task.cancel()


class _Stay(Generic[T]):
    """A context that is entered and left in one task, as it must be."""

    def __init__(
        self, opened: AbstractAsyncContextManager[T], failed: Callable[[BaseException], None]
    ) -> None:
        self._opened = opened
        self._failed = failed
        self._left = asyncio.Event()
        self._is_in = False

    async def enter(self) -> T:
        """Enter, and return what that gave."""
        entered: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._task = asyncio.create_task(self._stay(entered), name="onward stay")
        try:
            either: list[asyncio.Future[Any]] = [entered, self._task]
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            self._task.cancel()
            await asyncio.wait([self._task])
            raise
        if not entered.done():
            await self._task  # it did not get in: this raises why
        self._is_in = True
        return entered.result()

    async def leave(self) -> None:
        """Leave, and raise what went wrong."""
        self._is_in = False
        self._left.set()
        await self._task

    async def _stay(self, entered: asyncio.Future[T]) -> None:
        try:
            async with self._opened as value:
                entered.set_result(value)
                await self._left.wait()
        except BaseException as failure:
            if self._is_in:
                self._failed(failure)
            raise


def _run(running: SimpleQueue[asyncio.AbstractEventLoop | BaseException]) -> None:
    is_running = False
    try:
        with asyncio.Runner() as runner:
            loop = runner.get_loop()
            is_running = True
            loop.call_soon(running.put, loop)
            loop.run_forever()
    except BaseException as error:
        if is_running:
            raise
        running.put(error)  # there is no loop: the thread that waits for it raises this
