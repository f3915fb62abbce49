"""A thread sees whose turn takes too long, and at which line."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

import pytest

from onward.core.instant import SECOND
from onward.runtime.execution.loop_monitor import LoopMonitor
from onward.runtime.worker.loop_watch import LOOKS, STUCK, BlockedLoopWatch, line_of
from onward.telemetry.observer import Observer
from onward.telemetry.scope import RunScope
from onward.testing.clock import VirtualClock

if TYPE_CHECKING:
    from collections.abc import Callable

    from onward.core.instant import Duration

LOOK = SECOND // 10


class Told(Observer):
    """Remembers who blocked, for how long, and where."""

    def __init__(self) -> None:
        self.told: list[tuple[str, Duration, str]] = []

    def run_blocking(self, scope: RunScope, length: Duration, where: str) -> None:
        self.told.append((scope.run, length, where))


class Scene:
    """A loop of which this is the thread, and a watch that looks when it is told to."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.monitor = LoopMonitor()
        self.observer = Told()
        self.watch = BlockedLoopWatch(self.monitor, self.clock, self.observer)

    def look(self, times: int) -> None:
        for _ in range(times):
            self.watch.look()
            self.clock.advance(LOOK)

    def turn(self, looks: int, run: str = "a") -> None:
        self.monitor.run(RunScope(run, run, "flow"), lambda: self.look(looks))

    @property
    def told(self) -> list[tuple[str, Duration]]:
        return [(run, length) for run, length, _ in self.observer.told]


@pytest.fixture
def scene() -> Scene:
    return Scene()


def test_a_turn_seen_in_a_few_looks_is_told_when_it_is_over(scene: Scene) -> None:
    scene.turn(LOOKS)
    assert scene.told == []

    scene.look(1)

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


def test_a_turn_that_is_not_watched_is_not_told(scene: Scene) -> None:
    scene.monitor.run(None, lambda: scene.look(20))
    scene.look(1)

    assert scene.told == []


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
