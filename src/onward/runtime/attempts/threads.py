"""Threads for steps that are not async; none of them keeps a process from ending.

The pool of the standard library waits for its threads when the interpreter ends, so one step that
hangs would keep a worker, told to leave, for ever. A step that is cut off is done again elsewhere.
"""

from __future__ import annotations

import queue
import threading
from concurrent.futures import Executor, Future
from functools import partial
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

    from onward.core.ports import Spawn

P = ParamSpec("P")
R = TypeVar("R")

_Job = tuple["Future[Any]", "Callable[[], Any]"]


class StepThreads(Executor):
    """At most `most` threads, started when they are needed; `spawn` makes daemons of them."""

    def __init__(self, most: int, spawn: Spawn) -> None:
        self._most = most
        self._spawn = spawn
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._free = threading.Semaphore(0)
        self._started = 0

    def submit(self, fn: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> Future[R]:
        """Queue a call and return the future of its result. Call it from one thread only."""
        answer: Future[R] = Future()
        self._jobs.put((answer, partial(fn, *args, **kwargs)))
        if not self._free.acquire(blocking=False) and self._started < self._most:
            self._started += 1
            self._spawn(self._work, name=f"onward-step-{self._started}")
        return answer

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:  # noqa: ARG002, FBT001, FBT002
        """Let every thread end after the call that it is at; nobody waits for them."""
        while cancel_futures and not self._jobs.empty():
            job = self._jobs.get()
            if job is not None:
                job[0].cancel()
        for _ in range(self._started):
            self._jobs.put(None)

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            answer, work = job
            if answer.set_running_or_notify_cancel():
                _do(answer, work)
            del job, answer, work  # or the last call's data would live until the next one
            self._free.release()


def _do(answer: Future[Any], work: Callable[[], Any]) -> None:
    try:
        result = work()
    except BaseException as error:  # noqa: BLE001 - whatever a step raises is its outcome
        answer.set_exception(error)
    else:
        answer.set_result(result)
