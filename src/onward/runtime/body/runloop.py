"""The event loop of one run: small, deterministic, and drained to empty by one call.

A workflow body and its tasks run here, never on the host's loop. There is no waiting in this loop:
when its queue is empty the body is *quiet*, and everything unfinished waits for something that its
run will receive. So nested `gather`, `TaskGroup`, `wait`, timeouts and cancellation are ordinary
asyncio, and happen in the same order in every replay.

Time stands still between two deliveries to the run. Timers are durable waits. Sockets,
threads and processes have no place here: they are refused at the line that asks for them.
"""

from __future__ import annotations

import asyncio
import asyncio.events
import asyncio.futures
import sys
from collections import deque
from contextvars import Context, ContextVar, copy_context
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from onward.core.instant import duration
from onward.core.replay import ROOT
from onward.errors import NotInBody
from onward.runtime.body.futures import CallFuture, RunFuture, RunTask
from onward.runtime.body.handle import END_OF_SLEEP, Handle
from onward.telemetry.interrupts import raise_interrupt

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from types import FrameType

    from onward.core.instant import Duration, Instant

T = TypeVar("T")

MAX_DRAIN = 1_000_000
"""How many callbacks one drain may run; a body that needs more is spinning."""

branch_now: ContextVar[str] = ContextVar("onward_branch", default=ROOT)
"""The path of the branch that is running."""

_ADVICE = (
    "Move the call into a step: async steps run on the ordinary event loop, sync steps in a thread"
)


class Spinning(Exception):
    """A body ran on and on without waiting for anything."""


class Stuck(Exception):
    """A body waits for something that no step, timer, signal or child can provide."""


class Exited(Exception):
    """A callback, or a task that nothing awaits, raised what would end a process.

    Attributes:
        error: What it raised, such as a `SystemExit`.
    """

    def __init__(self, error: BaseException) -> None:
        super().__init__()
        self.error = error


_Raised = tuple["asyncio.Task[Any] | None", BaseException]


def _raise_one(raised: list[_Raised]) -> None:
    for _, error in raised:
        if isinstance(error, Exception):
            raise error
    for task, error in raised:
        if task is None or task._log_traceback:  # nothing has retrieved it
            raise Exited(error)


_Base: Any = asyncio.AbstractEventLoop


class RunLoop(_Base):  # type: ignore[misc] # most of what asyncio lists has no place here
    """The loop of one run.

    Args:
        name_branch: Returns the path of a new task, given its parent's path and its own name.
        on_timer: Called for every timer that the body sets: how long from now, and the handle to
            run when that time has come. Returns what to call when the timer is cancelled.
        salt: What the hashes of its tasks begin with.
    """

    def __init__(
        self,
        name_branch: Callable[[str, str | None], str],
        on_timer: Callable[[Duration, Handle], Callable[[], None]],
        salt: int = 0,
    ) -> None:
        self.ready: deque[Handle] = deque()
        self._name_branch = name_branch
        self._on_timer = on_timer
        self._salt = salt
        self.now: Instant = 0
        self._draining = False
        # Not asked for at each drain: a body is made on the loop on which it is drained.
        self._outer = asyncio.events._get_running_loop()
        self._outer_hooks = sys.get_asyncgen_hooks()
        # In the order made, which a set would not keep: who is cancelled first decides what a body
        # does next, and must be the same in every replay. Parents come before their children.
        self.tasks: dict[asyncio.Task[Any], None] = {}
        # Counted apart, for asyncio makes futures and tasks of its own, in each Python others.
        self._tasks_made = self._others_made = 0

    # --- from outside ---------------------------------------------------------------------------

    def start(self, body: Coroutine[Any, Any, T], context: Context) -> asyncio.Task[T]:
        """Start the body itself, which is the root of all branches."""
        if context.get(branch_now, ROOT) != ROOT:
            context.run(branch_now.set, ROOT)
        return self._task(body, None, context, self._number_task())

    def set_time(self, now: Instant) -> None:
        """Set the time of the body, until the next delivery."""
        if now > self.now:
            self.now = now

    def drain(self) -> None:
        """Run everything that is ready until nothing is.

        Like asyncio, it goes on after a callback that fails.

        Raises:
            Spinning: it did not come to rest.
            Exited: user code exits, and no other part of the body handles that.
        """
        raised = self._drain()
        if raised:
            _raise_one(raised)

    def _drain(self) -> list[_Raised]:
        """Run everything that is ready; return what callbacks and tasks that exit have raised."""
        raised: list[_Raised] = []
        asyncio.events._set_running_loop(self)
        sys.set_asyncgen_hooks(None, None)
        self._draining = True
        ready = self.ready
        left = MAX_DRAIN
        try:
            while ready:
                handle = ready.popleft()
                if handle.is_cancelled:
                    continue
                try:
                    handle.context.run(handle.callback, *handle.args)
                except BaseException as error:  # noqa: BLE001 - user code may raise anything
                    raise_interrupt(error)
                    raised.append((self._task_of(error), error))
                left -= 1
                if not left:
                    raise Spinning(self._where_it_spins())
        finally:
            self._draining = False
            sys.set_asyncgen_hooks(*self._outer_hooks)
            asyncio.events._set_running_loop(self._outer)
        return raised

    def _task_of(self, error: BaseException) -> asyncio.Task[Any] | None:
        """Return the task that has just ended with this error, which asyncio raises once more.

        Asking for its `exception()` would count as retrieving it.
        """
        for task in self.tasks:
            if task.done() and task._exception is error and task._log_traceback:
                return task
        return None

    def cancel_all(self) -> None:
        """Cancel every task."""
        for task in list(self.tasks):
            task.cancel()

    def unwind(self) -> None:
        """Let all tasks come to their end, now that what they wait for has been ended."""
        for task in self.tasks:
            task.add_done_callback(_lay_to_rest)
        try:
            self._drain()
            self.cancel_all()  # those that are left wait for one another
            self._drain()
        except Spinning:
            self.ready.clear()
            for task in self.tasks:
                task._log_destroy_pending = False  # type: ignore[attr-defined] # asyncio's switch

    def part(self, on_timer: Callable[[Duration, Handle], Callable[[], None]]) -> None:
        """Drop the timer callback; nothing runs here any more."""
        self._on_timer = on_timer

    def _where_it_spins(self) -> str:
        for task in self.tasks:
            frames = task.get_stack(limit=1)
            if frames:
                code = frames[0].f_code
                return f"{code.co_qualname} ({code.co_filename}, line {frames[0].f_lineno})"
        return "a chain of callbacks"

    # --- what asyncio needs ---------------------------------------------------------------------

    def time(self) -> float:
        """Return the time that the body sees, in seconds."""
        return self.now / 1_000_000

    def is_running(self) -> bool:
        """Say whether the body is running just now."""
        return self._draining

    def is_closed(self) -> bool:
        """Say whether it was closed; it never is, it is dropped."""
        return False

    def close(self) -> None:
        """Do nothing: there is nothing to close."""

    def get_debug(self) -> bool:
        """Say that asyncio's debug mode is off."""
        return False

    def create_future(self) -> asyncio.Future[Any]:
        """Return a future of this loop."""
        future: asyncio.Future[Any] = RunFuture(self._number_other(), loop=self)
        return future

    def create_call_future(self) -> CallFuture:
        """Return a future for a durable call."""
        future = CallFuture(loop=self)
        future.on_cancel = None
        return future

    def _number_task(self) -> int:
        self._tasks_made += 1
        return self._tasks_made

    def _number_other(self) -> int:
        self._others_made += 1
        return self._others_made

    def create_task(
        self,
        coro: Coroutine[Any, Any, T],
        *,
        name: str | None = None,
        context: Context | None = None,
        **options: Any,
    ) -> asyncio.Task[T]:
        """Start a task, which is a branch of its own.

        Raises:
            NotInBody: it comes from `asyncio.as_completed` over bare coroutines.
        """
        context = copy_context() if context is None else context.copy()
        parent = context.get(branch_now, ROOT)
        maker = _maker()
        if maker == "as_completed":
            coro.close()
            raise NotInBody(
                "asyncio.as_completed over coroutines in a workflow body",
                "starts them in an order that differs from run to run",
                "Use onward.as_completed, or pass tasks",
            )
        if maker == "wait_for":
            path, number = parent, self._number_other()
        else:
            path, number = self._name_branch(parent, name or _name_given()), self._number_task()
        context.run(branch_now.set, path)
        return self._task(coro, name, context, number, **options)

    def _task(
        self,
        coro: Coroutine[Any, Any, T],
        name: str | None,
        context: Context,
        number: int,
        **options: Any,
    ) -> asyncio.Task[T]:
        task: asyncio.Task[T] = RunTask(
            number, coro, loop=self, name=name, salt=self._salt, context=context, **options
        )
        self.tasks[task] = None
        task.add_done_callback(self._forget)
        return task

    def _forget(self, task: asyncio.Task[Any]) -> None:
        self.tasks.pop(task, None)

    def get_task_factory(self) -> None:
        """Say that there is none: every task is an ordinary one."""

    def set_task_factory(self, factory: object) -> None:
        """Refuse one: who makes a task here must name its branch.

        Raises:
            NotInBody: it is not None.
        """
        if factory is not None:
            raise NotInBody(
                "loop.set_task_factory",
                "would create tasks that the run cannot replay",
                "Remove the call",
            )

    def call_soon(
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> Handle:
        """Put a callback into the queue."""
        handle = Handle(callback, args, copy_context() if context is None else context)
        self.ready.append(handle)
        return handle

    def call_later(
        self,
        delay: float,
        callback: Callable[..., object],
        *args: Any,
        context: Context | None = None,
    ) -> Handle:
        """Set a timer, which is a durable wait."""
        return self._timer(delay, self.time() + delay, callback, args, context)

    def call_at(
        self,
        when: float,
        callback: Callable[..., object],
        *args: Any,
        context: Context | None = None,
    ) -> Handle:
        """Set a timer for a time of this loop, which is a durable wait."""
        return self._timer(when - self.time(), when, callback, args, context)

    def _timer(
        self,
        delay: float,
        when: float,
        callback: Callable[..., object],
        args: tuple[Any, ...],
        context: Context | None,
    ) -> Handle:
        if delay <= 0:
            return self.call_soon(callback, *args, context=context)
        handle = Handle(callback, args, copy_context() if context is None else context, when)
        handle.on_cancel(self._on_timer(max(1, duration(delay)), handle))
        return handle

    async def sleep_until(self, when: Instant) -> None:
        """Sleep until a time, however late the sleep begins."""
        if when <= self.now:
            return await asyncio.sleep(0)
        future = self.create_call_future()
        end, context = when / 1_000_000, copy_context()
        handle = Handle(END_OF_SLEEP, (future, None), context, end, is_absolute=True)
        handle.on_cancel(self._on_timer(when - self.now, handle))
        try:
            await future
        finally:
            handle.cancel()

    def wake(self, handle: Handle) -> None:
        """Put a timer whose time has come into the queue."""
        handle.come()
        self.ready.append(handle)

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """Ignore an error that was never retrieved: history has it, if a call raised it."""

    async def shutdown_asyncgens(self) -> None:
        """Do nothing: generators end with their tasks."""


# asyncio.to_thread, open_connection, create_subprocess_exec and their like all end at one of these.
_REFUSED = (
    *("add_reader", "add_signal_handler", "add_writer", "call_soon_threadsafe"),
    *("connect_accepted_socket", "connect_read_pipe", "connect_write_pipe", "create_connection"),
    *("create_datagram_endpoint", "create_server", "create_unix_connection", "create_unix_server"),
    *("getaddrinfo", "getnameinfo", "remove_reader", "remove_writer", "run_forever"),
    *("run_in_executor", "run_until_complete", "sendfile", "set_default_executor"),
    *("shutdown_default_executor", "sock_accept", "sock_connect", "sock_recv", "sock_recv_into"),
    *("sock_recvfrom", "sock_recvfrom_into", "sock_sendall", "sock_sendfile", "sock_sendto"),
    *("start_tls", "stop", "subprocess_exec", "subprocess_shell"),
)


def _refusal(name: str) -> Callable[..., NoReturn]:
    def refuse(*_: object, **__: object) -> NoReturn:
        raise NotInBody(f"loop.{name} in a workflow body", "reaches outside the run", _ADVICE)

    return refuse


for _name in _REFUSED:
    setattr(RunLoop, _name, _refusal(_name))


def _maker() -> str | None:
    """Say whether a task is being made inside asyncio's own `as_completed` or `wait_for`.

    Python 3.11 wraps what `wait_for` is given into a task, later ones do not; the branch must be
    the same in both.
    """
    frame: FrameType | None = sys._getframe(2)
    for _ in range(4):
        if frame is None or frame.f_globals.get("__name__") != "asyncio.tasks":
            return None
        name = frame.f_code.co_qualname
        if name.startswith(("as_completed", "_AsCompletedIterator")):
            return "as_completed"
        if name == "wait_for":
            return "wait_for"
        frame = frame.f_back
    return None


def _name_given() -> str | None:
    """Return the name that a task is going to have.

    Python before 3.13 names a task only after it is made, too late for its branch; the name is
    where `create_task` was called with it.
    """
    if sys.version_info >= (3, 13):
        return None
    frame = sys._getframe(2)
    if frame.f_code.co_name == "create_task" and frame.f_globals["__name__"].startswith("asyncio."):
        name: str | None = frame.f_locals.get("name")
        return name
    return None


def _lay_to_rest(task: asyncio.Task[Any]) -> None:
    """Look at the error of a task, or asyncio would complain, and let go of where it was raised.

    Errors and their frames refer to each other, and these are never shown.
    """
    left: list[BaseException | None] = []
    try:
        task.result()  # asked for it, a task lets go of it as well
    except BaseException as raised:  # noqa: BLE001 - it is never shown
        left.append(raised)
    while left:
        error = left.pop()
        if error is not None and error.__traceback__ is not None:
            error.__traceback__ = None
            left += [error.__context__, error.__cause__]
            left += error.exceptions if isinstance(error, BaseExceptionGroup) else ()
