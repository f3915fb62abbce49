"""Coroutines that carry out calls of a run: an effect, or another run, from its start to its end.

They are no tasks of asyncio. A run must know at any moment whether it has anything to do, or it
parks: so a coroutine begins and continues at once, not in a later turn of the event loop. When the
run leaves its worker in the middle, its coroutines are closed at once and without a trace: what
they wait for is not cancelled, and what they hold is freed without a collector.
"""

from __future__ import annotations

from types import coroutine
from typing import TYPE_CHECKING, Any, NoReturn, Protocol, TypeVar

from onward.runtime.execution.guard import GuardedRun, on_done
from onward.runtime.execution.replies import is_away

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Awaitable, Callable, Coroutine, Generator

    from onward.runtime.body.calls import Call

    Begin = Callable[["CallTask"], None]
    """Begins what a task waits for, which resumes the task when it is there."""

T = TypeVar("T")


class TaskRun(GuardedRun, Protocol):
    """The run whose calls are carried out."""

    is_stopped: bool

    def pump(self) -> None: ...

    def drop(self) -> None: ...


@coroutine
def suspend(begin: Begin) -> Generator[Begin, Any, Any]:
    """Wait for what `begin` begins, and return what the task is resumed with."""
    return (yield begin)


def _begin_nothing(task: CallTask) -> None:
    task.is_waiting = True


class CallTask:
    """One coroutine. It ends with its call, or is closed when the run has stopped."""

    __slots__ = ("_call", "_code", "_tasks", "is_waiting")

    def __init__(self, tasks: CallTasks, call: Call, code: Coroutine[Begin, Any, None]) -> None:
        self._tasks = tasks
        self._call = call
        self._code: Coroutine[Begin, Any, None] | None = code
        self.is_waiting = False
        """Whether it waits for `CallTasks.resume`, and nothing is under way."""

    def resume(self, value: Any = None) -> None:
        """Continue with what it has waited for, then let the body run.

        A task that was closed while it waited still lets the body run: nothing else might.
        """
        if self._tasks.run.is_stopped:
            self.close()
        elif self._code is not None:
            self._continue(self._code, value)
        self._tasks.run.pump()

    def _continue(self, code: Coroutine[Begin, Any, None], value: Any) -> None:
        self.is_waiting = False
        try:
            begin = code.send(value)
        except BaseException as error:
            self.close()
            if not isinstance(error, StopIteration):
                raise
        else:
            if self._code is None:  # it was closed while it ran: the run has left
                code.close()
            else:
                begin(self)

    def close(self) -> None:
        """End it where it is."""
        code, self._code = self._code, None
        if code is not None:
            self._tasks.forget(self._call)
            if not code.cr_running:  # type: ignore[attr-defined] # that of an `async def`
                code.close()


class CallTasks:
    """The coroutines of one run's calls, at most one for each."""

    def __init__(self, run: TaskRun) -> None:
        self.run = run
        self._tasks: dict[Call, CallTask] = {}
        self._requested = 0

    @property
    def has_requests(self) -> bool:
        """Whether replies are awaited: of the engine, or of a handler."""
        return self._requested > 0

    def start(self, call: Call, code: Coroutine[Begin, Any, None]) -> None:
        """Begin to carry out a call."""
        task = self._tasks[call] = CallTask(self, call, code)
        task.resume()

    def resume(self, call: Call, value: Any = None) -> None:
        """Continue a call that waits for it."""
        self._tasks[call].resume(value)

    def drop(self, call: Call) -> None:
        """End a call that only waits; one with a request under way sees the reply first."""
        task = self._tasks.get(call)
        if task is not None and task.is_waiting:
            task.close()

    def forget(self, call: Call) -> None:
        self._tasks.pop(call, None)

    def close(self) -> None:
        """End all: the run leaves."""
        for task in list(self._tasks.values()):
            task.close()

    # --- for the coroutines ----------------------------------------------------------------------

    def resumed(self) -> Awaitable[Any]:
        """Wait for `resume`, and return its value."""
        return suspend(_begin_nothing)

    async def closed(self) -> NoReturn:
        """Wait for the end of this task: nothing is left to do until the run leaves."""
        await suspend(_begin_nothing)
        raise AssertionError("the task was resumed")

    async def done(self, future: asyncio.Future[T]) -> asyncio.Future[T]:
        """Wait until a future is done, however it ends, and return it."""
        self._requested += 1
        try:
            await suspend(lambda task: on_done(self.run, future, task.resume))
        finally:
            self._requested -= 1
        return future

    async def reply(self, future: asyncio.Future[T]) -> T:
        """Return the reply of the engine; if its store or the lease is gone, the run leaves."""
        if is_away(await self.done(future)):
            self.run.drop()  # its next owner will see
            await self.closed()
        return future.result()

    def when_done(self, future: asyncio.Future[None], then: Callable[[], None]) -> None:
        """Call `then` after a request of a run that ends; it leaves if there is no reply."""

        def go_on(done: asyncio.Future[None]) -> None:
            self._requested -= 1
            if is_away(done):
                self.run.drop()
            else:
                then()

        self._requested += 1
        on_done(self.run, future, go_on)
