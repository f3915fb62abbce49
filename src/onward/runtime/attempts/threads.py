"""Threads for steps and effects that are not async; none of them keeps a process from ending.

The pool of the standard library waits for its threads when the interpreter ends, so one step that
hangs would keep a leaving worker alive indefinitely. A step that is cut off
runs again elsewhere.

A thread cannot be stopped. If the code in it goes on after its attempt was stopped, the thread is
left behind: another one takes its place, and it ends with its call. As many threads may be left
behind as the pool has; beyond that the pool shrinks, and at last takes no more calls.
"""

from __future__ import annotations

import threading
from collections import Counter, deque
from concurrent.futures import Executor, Future
from functools import partial
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from onward.errors import NoThread

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from onward.core.ports import Spawn

P = ParamSpec("P")
R = TypeVar("R")


class Job:
    """One call in a thread."""

    __slots__ = ("answer", "must_wait", "name", "on_begun", "work")

    def __init__(self, name: str, work: Callable[[], Any], on_begun: Callable[[], None]) -> None:
        self.name = name
        self.work = work
        self.on_begun = on_begun
        self.answer: Future[Any] = Future()
        self.must_wait = False
        """Whether no thread was free for it at first; only then `on_begun` is called."""


class StepThreads(Executor):
    """At most `most` threads, started when they are needed; `spawn` makes daemons of them."""

    def __init__(self, most: int, spawn: Spawn) -> None:
        self._most = most
        self._spawn = spawn
        self._changed = threading.Condition()
        self._jobs: deque[Job] = deque()
        self._busy: dict[Job, None] = {}
        self._left: dict[Job, None] = {}
        self._taking = self._free = self._started = 0
        self._is_closed = False
        self.silent_until = 0.0
        """Until when, by the worker's loop, calls that wait are not logged."""

    def submit(self, fn: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> Future[R]:
        """Queue a call and return the future of its result.

        Raises:
            NoThread: all threads are held by calls that were left behind.
        """
        return self.start(getattr(fn, "__qualname__", ""), partial(fn, *args, **kwargs)).answer

    def start(
        self, name: str, work: Callable[[], Any], on_begun: Callable[[], None] = lambda: None
    ) -> Job:
        """Queue a call; if it must wait for a thread, `on_begun` is called there as it begins.

        Raises:
            NoThread: all threads are held by calls that were left behind.
        """
        job = Job(name, work, on_begun)
        with self._changed:
            if not self._places:
                raise self._refusal(name)
            self._jobs.append(job)
            self._staff()
            job.must_wait = len(self._jobs) > self._free
        return job

    def leave(self, job: Job) -> int | None:
        """Leave a call behind, and return how many are; None if it is over, or was left before."""
        with self._changed:
            if job not in self._busy or job in self._left:
                return None
            self._left[job] = None
            self._taking -= 1
            self._staff()
            waiting = [] if self._places else list(self._jobs)
            if waiting:
                self._jobs.clear()
            refusals = [(each, self._refusal(each.name)) for each in waiting]
            count = len(self._left)
        for each, refusal in refusals:
            if each.answer.set_running_or_notify_cancel():
                each.answer.set_exception(refusal)
        return count

    def holders(self) -> str:
        """Return what the threads are at, for people: names, and how often each."""
        with self._changed:
            return _counted(job.name for job in self._busy)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:  # noqa: ARG002, FBT001, FBT002
        """Let every thread end after its current call, without waiting for them."""
        with self._changed:
            dropped = list(self._jobs) if cancel_futures else []
            if dropped:
                self._jobs.clear()
            self._is_closed = True
            self._changed.notify_all()
        for job in dropped:
            job.answer.cancel()

    @property
    def _places(self) -> int:
        """How many threads may take calls."""
        return max(0, min(self._most, 2 * self._most - len(self._left)))

    def _staff(self) -> None:
        """Have a thread for each call that waits, if there may be so many."""
        while len(self._jobs) > self._free and self._taking < self._places:
            self._taking += 1
            self._free += 1  # it takes a call as soon as it can
            self._started += 1
            self._spawn(self._work, name=f"onward-step-{self._started}")
        self._changed.notify()

    def _refusal(self, name: str) -> NoThread:
        return NoThread(name, len(self._left), _counted(job.name for job in self._left))

    def _work(self) -> None:
        while (job := self._take()) is not None:
            if job.answer.set_running_or_notify_cancel():
                _do(job)
            goes_on = self._put_down(job)
            del job  # or the last call's data would live until the next one
            if not goes_on:
                return

    def _take(self) -> Job | None:
        with self._changed:
            while not (self._jobs or self._is_closed):
                self._changed.wait()
            self._free -= 1
            if not self._jobs:
                self._taking -= 1
                return None
            job = self._jobs.popleft()
            self._busy[job] = None
            return job

    def _put_down(self, job: Job) -> bool:
        """Take note that a call is over, and say whether its thread takes another."""
        with self._changed:
            del self._busy[job]
            if job in self._left:
                del self._left[job]
                if self._taking >= self._places:
                    return False
                self._taking += 1
            self._free += 1
            return True


def _do(job: Job) -> None:
    try:
        if job.must_wait:
            job.on_begun()
        result = job.work()
    except BaseException as error:  # noqa: BLE001 - whatever a step raises is its outcome
        job.answer.set_exception(error)
    else:
        job.answer.set_result(result)


def _counted(names: Iterable[str]) -> str:
    return ", ".join(f"{name} ({count})" for name, count in Counter(names).most_common(5))
