"""What every test gets: the Postgres fixtures, and `async def` tests that leave nothing behind."""

from __future__ import annotations

import asyncio
import inspect
import os
import sys
from functools import cache
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from collections.abc import Awaitable

pytest_plugins = ["onward.testing.fixtures", "pytester"]

# The tests start hundreds of processes; without bytecode each would compile all of Onward again.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# gRPC would start its threads again in a forked process, such as that of a Postgres server, and end
# it if its files are closed meanwhile.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")

# How long an example takes says something of the machine, and nothing of our code.
settings.register_profile("ours", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("ours")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--remote`, which runs the tests of the SDK through a server."""
    parser.addoption(
        "--remote",
        choices=("file", "postgres"),
        help="run each test of tests/sdk that takes an App through a server on this database",
    )


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run an `async def` test on an event loop of its own."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    names = inspect.signature(pyfuncitem.obj).parameters
    arguments = {name: pyfuncitem.funcargs[name] for name in names}
    with asyncio.Runner(debug=False) as runner:
        runner.run(_alone(pyfuncitem.obj(**arguments)))
    return True


async def _alone(test: Awaitable[None]) -> None:
    unheard: list[dict[str, Any]] = []  # what asyncio would only log
    asyncio.get_running_loop().set_exception_handler(lambda _, told: unheard.append(told))
    await test
    left = asyncio.all_tasks() - {asyncio.current_task()}
    ending = {task for task in left if task.cancelling() or _is_of_grpc(task)}
    if ending:  # a driver that closes a connection does not wait for what it cancels
        ended, _ = await asyncio.wait(ending, timeout=10)
        left -= ended
    if left:
        pytest.fail("the test left tasks behind: " + ", ".join(sorted(map(repr, left))))
    if unheard:
        pytest.fail("errors that nobody heard: " + ", ".join(map(repr, unheard)))


def _is_of_grpc(task: asyncio.Task[Any]) -> bool:
    """Return whether a task ends a call that is over, on either side: gRPC does not wait for it."""
    name = getattr(task.get_coro(), "__qualname__", "")
    return name.startswith(("_AioCall.", "_schedule_rpc_coro")) or task.get_name().startswith(
        "HandleExceptions["
    )


@pytest.fixture(autouse=True)
def _own_workflows(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Limit a worker to the workflows of its test file and of the helpers beside and above it.

    Of pipelines it serves those of the test file.
    """
    if "onward.sdk.app" not in sys.modules:
        return
    monkeypatch.setattr("onward.runtime.registry._used", {})
    process = sys.modules["onward.sdk.pipelines.process"]
    own_file = f"{request.module.__file__}:"
    own_pipelines = [each for each in process.registered if each.place.startswith(own_file)]
    monkeypatch.setattr("onward.sdk.pipelines.process.registered", own_pipelines)
    monkeypatch.setattr("onward.sdk.pipelines.process.refused", [])
    for place in ("workflow", "step", "effect"):
        known = sys.modules[f"onward.sdk.{place}"].registered
        found = _defined_near(request.module.__name__, place, len(known))
        own = {name: list(same) for name, same in found.items()}
        monkeypatch.setattr(f"onward.sdk.{place}.registered", own)
        if place == "workflow":
            monkeypatch.setattr("onward.sdk.run_operations.registered", own)


@cache  # it goes through thousands of definitions; the size makes it look again after an import
def _defined_near(module: str, place: str, _size: int) -> dict[str, list[Any]]:
    folder = module.rpartition(".")[0]

    def is_own(place: str) -> bool:
        is_near = place.startswith(folder) or folder.startswith(place.rpartition(".")[0] + ".")
        is_shared = is_near and ".test_" not in place
        return place == module or is_shared

    found = {
        name: [each for each in same if is_own(each.fn.__module__)]
        for name, same in sys.modules[f"onward.sdk.{place}"].registered.items()
    }
    return {name: same for name, same in found.items() if same}
