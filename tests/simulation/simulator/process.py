"""The processes of a simulated world, and the loop that gives each its turns.

Real processes share nothing but the database. Here they share a thread and an event loop, so every
callback must belong to one of them: the context in which it runs says to which. A process that
died gets no turn any more; one that was stopped gets none until it goes on.

Which process has the next turn is drawn from the seed. Only that: the callbacks of one process keep
the order in which they were scheduled, for asyncio promises it and code may rely on it. Any order
between processes is legal, because nothing orders them in the world. What may arrive in another
order within a process are answers and timers; those come from outside its loop, and are varied by
drawing how long each answer takes.
"""

from __future__ import annotations

import asyncio
from collections import deque
from contextvars import Context, ContextVar, copy_context
from typing import TYPE_CHECKING, Any, TypeVar, TypeVarTuple

from onward.testing.clock import VirtualLoop

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Executor

    from onward.core.instant import Instant
    from onward.testing.clock import VirtualClock
    from tests.simulation.simulator.draw import Draw

T = TypeVar("T")
Arguments = TypeVarTuple("Arguments")

MAX_SPIN = 20_000
"""So many turns without any time passing are no work any more, but a loop without end."""

THREAD_SECONDS = 2.0
"""How long a function that is not async may seem to take."""


class Process:
    """A process of the world: one worker, the client, or the world itself."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.worker_id: Callable[[], str | None] = lambda: None
        """Returns the id under which it works on runs now, if it does."""
        self.ids: set[str] = set()
        """All ids under which it ever worked: one that lost its lease goes on under another."""
        self.has_stood_still = False
        """Whether it was ever stopped: then others may hold it to be dead."""
        self.is_server = False
        """Whether it writes for workers that are connected to it."""
        self.has_left = False
        """Whether it came to its end by itself."""
        self.drained_at: Instant | None = None
        """When it gives up steps that have not ended, if it was asked to leave."""
        self.turns = 0
        self.is_dead = False
        self.is_out = False
        """Whether its callbacks are not run: it is dead, or stands still."""
        self.at_turn: dict[int, Callable[[], None]] = {}
        """What befalls it before which of its turns."""
        self.at_send: Callable[[], None] = lambda: None
        """What befalls it when it has sent something."""
        self.context: Context = copy_context()
        self.context.run(process_now.set, self)

    @property
    def worker(self) -> str | None:
        """The id under which it works on runs, if it does."""
        found = self.worker_id()
        if found is not None:
            self.ids.add(found)
        return found

    @worker.setter
    def worker(self, worker: str | None) -> None:
        self.worker_id = lambda: worker

    def acts_for(self, worker: str | None) -> bool:
        """Say whether what it writes may be what a worker of this id does."""
        return worker is not None if self.is_server else worker == self.worker

    def die(self) -> None:
        """Have no turn any more."""
        self.is_dead = self.is_out = True

    def stop(self) -> None:
        """Have no turn until it goes on."""
        self.is_out = self.has_stood_still = True

    def go_on(self) -> None:
        """Have turns again, unless it died."""
        self.is_out = self.is_dead

    def is_drained(self, now: Instant) -> bool:
        """Return whether it was asked to leave, and has given up what had not ended."""
        return self.drained_at is not None and now >= self.drained_at

    def __repr__(self) -> str:
        return f"<process {self.name}>"


process_now: ContextVar[Process] = ContextVar("onward_simulated_process")
"""The process that the running code is part of."""


_hung: list[bool] = []
"""Whether the function that was last called as if in a thread hangs."""


def hang() -> None:
    """Let the thread that the calling code seems to run in hang: its end is never reported."""
    _hung.append(True)


class LoopMonitor:
    """What is ready to run: a queue per process. Stands where asyncio keeps its one queue."""

    def __init__(self, draw: Draw) -> None:
        self._draw = draw
        self._queues: dict[Process | None, deque[asyncio.Handle]] = {}
        self._nothing: asyncio.Handle | None = None
        self.is_over = False
        """Whether the world has ended: then even the dead run, to be taken apart."""
        self.taken = 0
        self.taken_now = 0
        """How many turns were taken since time last passed."""
        self.on_spin: Callable[[str], None] = lambda _: None

    def append(self, handle: asyncio.Handle) -> None:
        """Queue a callback of the process in whose context it runs."""
        context: Context = handle._context  # type: ignore[attr-defined] # asyncio gives no other way
        process = context.get(process_now)
        queue = self._queues.get(process)
        if queue is None:
            queue = self._queues[process] = deque()
        queue.append(handle)

    def popleft(self) -> asyncio.Handle:
        """Return the next callback of the process whose turn it is."""
        while awake := self._awake():
            process = awake[0] if len(awake) == 1 else self._draw.one_of(awake)
            if process is not None and not self.is_over:
                process.turns += 1
                befalls = process.at_turn.pop(process.turns, None)
                if befalls is not None:
                    befalls()
                    continue
            self.taken += 1
            self.taken_now += 1
            handle = self._queues[process].popleft()
            if self.taken_now == MAX_SPIN:
                self.on_spin(f"{process} spins: no time passes, and the next turn is {handle}")
            return handle
        return self._none()

    def __bool__(self) -> bool:
        for process, queue in self._queues.items():
            if queue and (process is None or not process.is_out or self.is_over):
                return True
        return False

    def __len__(self) -> int:
        return sum([len(self._queues[process]) for process in self._awake()])

    def clear(self) -> None:
        """Forget everything: the loop is closed."""
        self._queues.clear()

    def _awake(self) -> list[Process | None]:
        return [
            process
            for process, queue in self._queues.items()
            if queue and (process is None or not process.is_out or self.is_over)
        ]

    def _none(self) -> asyncio.Handle:
        """Return a callback that is not run: the last process awake has just died or stopped."""
        if self._nothing is None:
            self._nothing = asyncio.Handle(lambda: None, (), asyncio.get_running_loop())
            self._nothing.cancel()
        return self._nothing


class SeededLoop(VirtualLoop):
    """A loop on virtual time for many processes, whose turns follow from a seed."""

    def __init__(self, clock: VirtualClock, draw: Draw) -> None:
        super().__init__(clock)
        self._draw = draw
        self.turns = self._ready = LoopMonitor(draw)

    def pass_time(self, seconds: float) -> None:
        """Let the clock go on."""
        self.turns.taken_now = 0
        super().pass_time(seconds)

    def _write_to_self(self) -> None:
        """Do nothing: there is no other thread that would have to wake this one."""

    def run_in_executor(
        self, _executor: Executor | None, func: Callable[[*Arguments], T], *args: *Arguments
    ) -> asyncio.Future[T]:
        """Call a function after a while, in this thread, as if a thread had done it."""
        future: asyncio.Future[T] = self.create_future()

        def call() -> None:
            _hung.clear()
            try:
                result = func(*args)
            except BaseException as error:  # noqa: BLE001 - as a thread of a pool does
                if not future.done():
                    future.set_exception(error)
            else:
                if not (future.done() or _hung):
                    future.set_result(result)

        self.call_later(self._draw.upto(THREAD_SECONDS), call)
        return future

    def task_of(self, process: Process, work: Any, *, name: str) -> asyncio.Task[Any]:
        """Start a task in a process."""
        return self.create_task(work, name=name, context=process.context.copy())
