"""The pytest plugin: an App and a clock for tests in which no wait takes any time.

pytest loads it by itself when Onward is installed. Until a test uses a fixture of it, it imports
nothing of the engine.
"""

from __future__ import annotations

import asyncio
import inspect
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Generator, Iterator

    from onward import App
    from onward.testing.clock import VirtualClock

    AsyncTest = Callable[..., Coroutine[Any, Any, None]]


class VirtualTime(NamedTuple):
    """A clock, and what runs coroutines on it."""

    clock: VirtualClock
    runner: asyncio.Runner


@pytest.fixture
def _onward_time(request: pytest.FixtureRequest) -> Iterator[VirtualTime]:
    from onward.testing.clock import VirtualClock, VirtualLoop

    if _async_test(request.function) is None:
        pytest.fail(
            f"{request.node.name} uses onward_app or onward_clock, which need an async test: write"
            " `async def`. The plugin runs it; no other plugin is needed.",
            pytrace=False,
        )
    clock = VirtualClock()
    with asyncio.Runner(loop_factory=lambda: VirtualLoop(clock)) as runner:
        yield VirtualTime(clock, runner)


@pytest.fixture
def onward_clock(_onward_time: VirtualTime) -> VirtualClock:
    """The virtual clock of an async test: every sleep in the test returns at once."""
    return _onward_time.clock


@pytest.fixture
def onward_app(_onward_time: VirtualTime) -> Iterator[App]:
    """An open in-memory App with a worker for all workflows, on the virtual clock of the test.

    It checks workflow bodies, as `App(debug=True)` does.
    """
    from onward import App

    app = App(":memory:", clock=_onward_time.clock, spawn=None, debug=True, retention=None)
    is_over, working = _onward_time.runner.run(_begin(app))
    yield app
    _onward_time.runner.run(_end(is_over, working))


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Generator[None, object, object]:
    """Run an async test on the virtual clock that one of its fixtures is, or is made with.

    To other plugins for async tests, it is a test that is not async.
    """
    time = pyfuncitem.funcargs.get("_onward_time")
    test = _async_test(pyfuncitem.obj)
    if isinstance(time, VirtualTime) and test is not None:

        def run(**arguments: object) -> None:
            time.runner.run(test(**arguments))

        pyfuncitem.obj = run
    return (yield)


def _async_test(test: Any) -> AsyncTest | None:
    """Return an async test, also if another plugin has wrapped it; None if it is not async."""
    found: list[AsyncTest] = [
        each for each in (test, inspect.unwrap(test)) if inspect.iscoroutinefunction(each)
    ]
    return found[0] if found else None


async def _begin(app: App) -> tuple[asyncio.Event, asyncio.Task[None]]:
    """Start a worker in a task that lives between two runs of the event loop."""
    is_ready, is_over = asyncio.Event(), asyncio.Event()

    async def work() -> None:
        async with app, app.worker():
            is_ready.set()
            await is_over.wait()

    working = asyncio.create_task(work(), name="onward_app")
    waiting = asyncio.create_task(is_ready.wait())
    await asyncio.wait([working, waiting], return_when=asyncio.FIRST_COMPLETED)
    if working.done():
        working.result()
    return is_over, working


async def _end(is_over: asyncio.Event, working: asyncio.Task[None]) -> None:
    is_over.set()
    await working
