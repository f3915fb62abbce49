"""The threads of steps: as many as allowed, and no error or call lost."""

from __future__ import annotations

import threading

import pytest

from onward.runtime.attempts.threads import StepThreads
from onward.system.clock import spawn_thread


def test_calls_share_no_more_threads_than_allowed() -> None:
    threads = StepThreads(3, spawn_thread)
    seen: set[str] = set()
    all_are_here = threading.Barrier(3)

    def work(n: int) -> int:
        seen.add(threading.current_thread().name)
        if n < 3:
            all_are_here.wait(10)
        return n

    answers = [threads.submit(work, n) for n in range(50)]

    assert [answer.result(timeout=10) for answer in answers] == list(range(50))
    assert len(seen) == 3
    threads.shutdown()


def test_an_error_is_handed_over_and_its_thread_goes_on() -> None:
    threads = StepThreads(1, spawn_thread)

    with pytest.raises(ZeroDivisionError):
        threads.submit(lambda: 1 / 0).result(timeout=10)

    assert threads.submit(lambda: 2).result(timeout=10) == 2
    threads.shutdown()


def test_what_has_not_begun_is_cancelled_when_the_threads_are_shut_down() -> None:
    threads = StepThreads(1, spawn_thread)
    begun, go_on = threading.Event(), threading.Event()

    def work() -> str:
        begun.set()
        go_on.wait(10)
        return "done"

    first, second = threads.submit(work), threads.submit(work)
    begun.wait(10)
    threads.shutdown(cancel_futures=True)
    go_on.set()

    assert first.result(timeout=10) == "done"
    assert second.cancelled()
