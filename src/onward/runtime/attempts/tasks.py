"""Tasks that steps and effects start on the worker's event loop.

asyncio lets a `SystemExit` or `KeyboardInterrupt` of any task end the whole loop, and with it the
worker. In a task of user code it becomes an ordinary error, which whatever awaits the task gets.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from onward.runtime.context import step_now
from onward.telemetry.interrupts import raise_interrupt

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator

    Factory = Callable[..., asyncio.Future[Any]]


class TaskExited(RuntimeError):
    """A task that a step started called `sys.exit()`, or raised `KeyboardInterrupt`."""


class _Contained(Coroutine[Any, Any, Any]):
    """A coroutine that never raises what ends an event loop."""

    __slots__ = ("_inner",)

    def __init__(self, inner: Coroutine[Any, Any, Any]) -> None:
        self._inner = inner

    def send(self, value: Any) -> Any:
        try:
            return self._inner.send(value)
        except (SystemExit, KeyboardInterrupt) as error:
            raise _contain(error) from error

    def throw(self, *error: Any) -> Any:
        try:
            return self._inner.throw(*error)
        except (SystemExit, KeyboardInterrupt) as exited:
            raise _contain(exited) from exited

    def close(self) -> None:
        self._inner.close()

    def __await__(self) -> Generator[Any, Any, Any]:
        return self._inner.__await__()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)  # its name and frame, for tracebacks and `repr`


def _contain(error: BaseException) -> TaskExited:
    raise_interrupt(error)
    return TaskExited(f"a task of the step raised {type(error).__name__}: {error}")


class _TaskFactory:
    """Makes tasks as the loop did before, and contains those of steps and effects."""

    def __init__(self, before: Factory | None) -> None:
        self.before = before
        self.workers = 0

    def __call__(
        self, loop: asyncio.AbstractEventLoop, coro: Any, **options: Any
    ) -> asyncio.Future[Any]:
        if step_now.get() is not None and asyncio.iscoroutine(coro):
            coro = _Contained(coro)
        if self.before is not None:
            return self.before(loop, coro, **options)
        return asyncio.Task(coro, loop=loop, **options)


@contextmanager
def contained_tasks(loop: asyncio.AbstractEventLoop) -> Iterator[None]:
    """Contain the tasks of steps and effects on a loop, which several workers may share."""
    found: Any = loop.get_task_factory()
    factory = found if isinstance(found, _TaskFactory) else _TaskFactory(found)
    loop.set_task_factory(factory)
    factory.workers += 1
    try:
        yield
    finally:
        factory.workers -= 1
        if not factory.workers and loop.get_task_factory() is factory:
            before: Any = factory.before
            loop.set_task_factory(before)
