"""The pytest plugin: fixtures for tests on a virtual clock, and nothing for other tests."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from importlib.metadata import entry_points
from typing import TYPE_CHECKING

from tests.house.source import ROOT

if TYPE_CHECKING:
    import pytest

HEAD = """
import asyncio, threading
import onward
from datetime import timedelta
from onward import App, Signal, step, workflow

approval = Signal("approval", bool)
sent = []

@step
async def send(name: str) -> None:
    sent.append(name)

@step
def score(n: int) -> int:  # not async: it runs in a thread
    return n + 1

@workflow
async def remind(name: str) -> int:
    await onward.sleep("2d")
    await send(name)
    return await score(1)

@workflow
async def ask() -> bool:
    return await approval.wait(timeout="7d")
"""


def run(pytester: pytest.Pytester, text: str) -> pytest.RunResult:
    """Run tests in a process of its own, as a project that has Onward installed."""
    pytester.makepyfile(HEAD + text)
    is_installed = entry_points(group="pytest11", name="onward")
    words = () if is_installed else ("-p", "onward.testing.pytest_plugin")
    return pytester.runpytest_subprocess("-W", "error", "-p", "no:cacheprovider", *words)


def test_a_run_of_two_days_with_a_sync_step_ends_at_once(pytester: pytest.Pytester) -> None:
    run(
        pytester,
        """
async def test_it(onward_app, onward_clock):
    before = onward_clock.now()
    assert await onward_app.run(remind, "Ada") == 2
    assert onward_clock.now() - before >= timedelta(days=2)

async def test_each_test_has_a_store_of_its_own(onward_app):
    assert await onward_app.runs() == []
""",
    ).assert_outcomes(passed=2)


def test_a_test_lets_time_pass_and_looks_between(pytester: pytest.Pytester) -> None:
    run(
        pytester,
        """
async def test_it(onward_app, onward_clock):
    sent.clear()
    run = await onward_app.start(remind, "Ada")
    await onward_clock.sleep("47h")
    assert (await run.state(), sent) == ("waiting", [])
    await onward_clock.sleep("2h")
    assert (await run.state(), sent) == ("succeeded", ["Ada"])
""",
    ).assert_outcomes(passed=1)


def test_a_test_with_a_clock_makes_an_app_of_its_own(pytester: pytest.Pytester) -> None:
    run(
        pytester,
        """
async def test_it(onward_clock):
    app = App(":memory:", clock=onward_clock, spawn=None)
    async with app, app.worker(queues=["mail"]):
        assert await app.run(remind.options(queue="mail"), "Ada") == 2
""",
    ).assert_outcomes(passed=1)


def test_other_fixtures_and_parameters_are_given(pytester: pytest.Pytester) -> None:
    run(
        pytester,
        """
import pytest

@pytest.fixture
def client(onward_app):
    return onward_app

@pytest.mark.parametrize("answer", [True, False])
async def test_it(client, answer, tmp_path):
    run = await client.start(ask)
    await run.signal(approval, answer)
    assert await run.result() is answer
    assert tmp_path.exists()
""",
    ).assert_outcomes(passed=2)


def test_a_failing_test_fails_and_a_wait_without_end_is_explained(
    pytester: pytest.Pytester,
) -> None:
    result = run(
        pytester,
        """
async def test_false(onward_app):
    assert await onward_app.run(remind, "Ada") == 3

async def test_stuck(onward_app):
    await asyncio.Event().wait()
""",
    )
    result.assert_outcomes(failed=2)
    result.stdout.fnmatch_lines(["*assert 2 == 3*", "*Deadlock: no task can ever continue*"])


def test_a_body_that_a_replay_would_not_repeat_is_found(pytester: pytest.Pytester) -> None:
    result = run(
        pytester,
        """
import random

@workflow
async def guess() -> float:
    return random.random()

async def test_it(onward_app):
    await onward_app.run(guess)
""",
    )
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*onward.random()*"])


def test_a_sync_test_is_told_to_be_async(pytester: pytest.Pytester) -> None:
    result = run(pytester, "def test_it(onward_app): ...")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["test_it uses onward_app or onward_clock, which need an async*"])


def test_an_async_test_of_another_plugin_runs_on_the_clock(pytester: pytest.Pytester) -> None:
    run(
        pytester,
        """
import functools, pytest

def wrapped(test):
    @functools.wraps(test)
    def run(*args, **kwargs):
        asyncio.run(test(*args, **kwargs))
    return run

@wrapped
async def test_wrapped(onward_app):
    assert await onward_app.run(remind, "Ada") == 2

@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_anyio(onward_app, anyio_backend):
    assert await onward_app.run(remind, "Ada") == 2
""",
    ).assert_outcomes(passed=2)


def test_tests_without_the_fixtures_do_not_import_the_engine() -> None:
    code = (
        "import sys, onward.testing.pytest_plugin\n"
        "print([name for name in sys.modules if name.startswith('onward')])"
    )
    shown = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert shown.stdout.strip() == "['onward', 'onward.testing', 'onward.testing.pytest_plugin']"


def test_pytest_finds_the_plugin() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["entry-points"]["pytest11"] == {"onward": "onward.testing.pytest_plugin"}
