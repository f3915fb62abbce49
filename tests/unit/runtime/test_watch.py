"""A thread sees whose turn takes too long, and at which line."""

from __future__ import annotations

import asyncio
import json
import sys
from typing import TYPE_CHECKING, Any

import pytest

from onward.core.instant import SECOND
from onward.runtime.execution.loop_monitor import LoopMonitor
from onward.runtime.worker.loop_frame import line_of
from onward.runtime.worker.loop_watch import LOOKS, MAX_LOOK, RUNS, STUCK, BlockedLoopWatch
from onward.telemetry.observer import Observer
from onward.telemetry.scope import RunScope, Scope, StepScope, scope_now
from onward.testing.clock import VirtualClock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from onward.core.instant import Duration

LOOK = SECOND // 10


class Told(Observer):
    """Remembers who blocked, for how long, and where."""

    def __init__(self) -> None:
        self.told: list[tuple[Scope, Duration, str]] = []

    def run_blocking(self, scope: Scope, length: Duration, where: str) -> None:
        self.told.append((scope, length, where))


class Running:
    """A run whose body is running."""

    def __init__(self, run: str, *, is_replaying: bool = False) -> None:
        self.scope = RunScope(run, run, "flow")
        self.is_replaying = is_replaying


class Ended:
    """A spawned thread that has ended."""

    def join(self, timeout: float | None = None) -> None:
        pass

    def is_alive(self) -> bool:
        return False


def run_inline(work: Callable[[], None], *, name: str) -> Ended:
    """Run what should be a thread, named so, to its end."""
    assert name
    work()
    return Ended()


class Scene:
    """A loop of which this is the thread, and a watch that looks when it is told to."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.clock = VirtualClock()
        self.monitor = LoopMonitor()
        self.observer = Told()
        self.watch = BlockedLoopWatch(self.monitor, self.clock, self.observer, loop)

    def look(self, times: int) -> None:
        for _ in range(times):
            self.watch.look()
            self.clock.advance(LOOK)

    def turn(self, looks: int, run: str = "a", *, is_replaying: bool = False) -> None:
        running = Running(run, is_replaying=is_replaying)
        self.monitor.run(running, lambda: self.look(looks))

    @property
    def told(self) -> list[tuple[str, Duration]]:
        return [
            (scope.run if isinstance(scope, RunScope) else scope.step, length)
            for scope, length, _ in self.observer.told
        ]

    def in_step(self, code: Callable[[], None]) -> None:
        """Run code as the code of a step does: in a task of the loop."""

        async def step() -> None:
            scope_now.set(StepScope(RunScope("a", "uid-a", "flow"), "charge", "charge#1", 1))
            code()

        self.loop.run_until_complete(step())


@pytest.fixture
def scene() -> Iterator[Scene]:
    loop = asyncio.new_event_loop()
    yield Scene(loop)
    loop.close()


def test_a_turn_seen_in_a_few_looks_is_told_when_it_is_over(scene: Scene) -> None:
    scene.turn(LOOKS)
    assert scene.told == []

    scene.look(1)

    assert scene.told == [("a", (LOOKS - 1) * LOOK)]


def test_a_turn_that_blocked_until_the_worker_stopped_is_told(scene: Scene) -> None:
    scene.turn(LOOKS)
    scene.watch.stop()

    scene.watch.start(run_inline, "watch")

    assert scene.told == [("a", (LOOKS - 1) * LOOK)]


def test_a_turn_seen_less_often_is_none_of_our_business(scene: Scene) -> None:
    scene.turn(LOOKS - 1)
    scene.look(3)

    assert scene.told == []


def test_many_short_turns_of_one_run_are_not_one_long_turn(scene: Scene) -> None:
    for _ in range(10):
        scene.turn(LOOKS - 1)
    scene.look(3)

    assert scene.told == []


def test_a_turn_that_may_never_end_is_told_once_before_its_end(scene: Scene) -> None:
    scene.turn(STUCK // LOOK)
    assert scene.told == []
    scene.look(1)
    scene.turn(STUCK // LOOK + 1, "b")
    assert scene.told == [("a", STUCK - LOOK), ("b", STUCK)]

    scene.look(20)

    assert scene.told == [("a", STUCK - LOOK), ("b", STUCK)]


def test_two_long_turns_are_told_apart(scene: Scene) -> None:
    scene.turn(LOOKS, "a")
    scene.turn(LOOKS, "b")
    scene.look(1)

    assert scene.told == [("a", (LOOKS - 1) * LOOK), ("b", (LOOKS - 1) * LOOK)]


def test_a_long_replay_is_not_told(scene: Scene) -> None:
    scene.turn(20, is_replaying=True)
    scene.look(1)

    assert scene.told == []


def test_a_step_that_blocks_is_told(scene: Scene) -> None:
    scene.look(1)

    scene.in_step(lambda: scene.look(STUCK // LOOK + 2))

    assert scene.told == [("charge", STUCK)]


def test_a_step_that_awaits_again_and_again_is_not_told(scene: Scene) -> None:
    for _ in range(20):
        scene.in_step(lambda: scene.look(LOOKS - 1))

    assert scene.told == []


def test_a_blocked_loop_stalls_until_it_runs_again(scene: Scene) -> None:
    scene.look(1)
    assert scene.watch.stall == RUNS

    scene.turn(20, is_replaying=True)

    length, scope, where = scene.watch.stall
    assert length == 20 * LOOK
    assert isinstance(scope, RunScope)
    assert scope.run == "a"
    assert where

    scene.loop.run_until_complete(asyncio.sleep(0))
    scene.look(1)
    assert scene.watch.stall == RUNS


def test_a_process_that_was_suspended_has_not_stalled(scene: Scene) -> None:
    scene.look(1)
    scene.clock.advance(1000 * SECOND)

    scene.look(1)

    assert scene.watch.stall.length == MAX_LOOK


def test_a_loop_that_is_closed_is_not_watched(scene: Scene) -> None:
    scene.loop.close()

    scene.watch.start(run_inline, "watch")  # it ends

    assert scene.watch.stall == RUNS


def test_the_line_is_that_of_the_body_even_if_a_library_is_called_there() -> None:
    def called(_: object) -> str:
        return line_of(sys._getframe())

    def in_library(call: Callable[[object], Any]) -> str:
        return str(json.loads("1", parse_int=call))

    assert " in called" in in_library(called)
    seen: list[str] = []
    json.loads("1", parse_int=lambda _: seen.append(line_of(sys._getframe(1))))
    assert "test_watch.py" in seen[0]
    assert "test_the_line_is_that_of_the_body" in seen[0]
