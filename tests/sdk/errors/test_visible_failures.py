"""A script that configures no logging shows its failures, as the interpreter shows an exception."""

from __future__ import annotations

import logging
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

import onward
from onward import App, Retry, step, workflow
from onward.errors import RunFailed
from tests.kit.watching import until_state
from tests.unit.telemetry.builders import SECRET, a_log

if TYPE_CHECKING:
    from pathlib import Path

SCRIPT = """
import asyncio
from onward import App, Retry, step, workflow

@step(retry=Retry(attempts=2, delay="1ms"))
async def divide(card: str) -> float:
    return 1 / 0

@workflow
async def bill(card: str) -> float:
    return await divide(card)

async def main() -> None:
    app = App(":memory:")
    async with app, app.worker():
        try:
            await app.run(bill.options(id="bill-1"), "4111")
        except ZeroDivisionError as error:
            print(error)

asyncio.run(main())
"""


def test_a_script_without_logging_prints_every_failed_attempt_and_run(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)

    answer = subprocess.run(
        [sys.executable, script], capture_output=True, text=True, timeout=60, check=True
    )

    events = [line for line in answer.stderr.splitlines() if line.startswith(("step.", "run."))]
    assert [line.partition(":")[0] for line in events] == [
        "step.retried",
        "step.failed",
        "run.failed",
    ]
    assert events[2] == (
        "run.failed: run=bill-1 workflow=bill reason=logic"
        ' error="ZeroDivisionError: division by zero"'
    )
    last = answer.stderr[answer.stderr.index("run.failed") :]
    assert last.index("return await divide(card)") < last.index("return 1 / 0")
    assert answer.stderr.count("Traceback (most recent call last)") == 3
    assert "4111" not in answer.stderr
    assert answer.stdout.startswith("run bill-1 failed (logic): ZeroDivisionError")


@step(retry=Retry(attempts=1))
def declined(card: str) -> None:
    number = card
    raise LookupError(f"no account for a number of {len(number)} characters")


@workflow
async def pays(card: str) -> None:
    await declined(card)


@workflow
async def pays_below(card: str) -> None:
    await pays.options(id="below")(card)


@workflow
async def pays_many(card: str) -> None:
    await declined.map([card, card])


async def test_the_failure_of_a_child_is_logged_for_it_and_for_its_parent(memory: App) -> None:
    with a_log(logging.WARNING) as log:
        async with memory, memory.worker(workflows=[pays, pays_below]):
            with pytest.raises(RunFailed):
                await memory.run(pays_below.options(id="above"), SECRET)

    told = [(vars(each)["event"], vars(each)["run"]) for each in log.records]
    assert told == [("step.failed", "below"), ("run.failed", "below"), ("run.failed", "above")]
    last = logging.Formatter().format(log.records[-1])
    lines = ("await pays.options", "await declined(card)", "raise LookupError")
    assert sorted(lines, key=last.index) == list(lines)
    assert SECRET not in "".join(map(logging.Formatter().format, log.records))


async def test_each_failed_item_of_a_map_is_logged(memory: App) -> None:
    with a_log(logging.WARNING) as log:
        async with memory, memory.worker(workflows=[pays_many]):
            with pytest.raises(LookupError):
                await memory.run(pays_many, SECRET)

    assert log.events.count("step.failed") == 2
    assert log.events[-1] == "run.failed"


async def test_a_replayed_failure_is_not_logged_again(memory: App) -> None:
    @workflow(name="goes on after a failure")
    async def goes_on(card: str) -> str:
        try:
            await declined(card)
        except LookupError:
            await onward.wait_signal("go")
        return "done"

    with a_log(logging.WARNING) as log:
        async with memory:
            run = await memory.start(goes_on, SECRET)
            for _ in range(2):
                async with memory.worker(workflows=[goes_on]):
                    await until_state(run, "waiting")
            async with memory.worker(workflows=[goes_on]):
                await run.signal("go", None)
                assert await run.result(timeout="60s") == "done"

    assert log.events == ["step.failed"]


async def test_a_worker_that_is_ready_says_what_it_takes(tmp_path: Path) -> None:
    file = tmp_path / "shop.db"
    app = App(file)
    with a_log(logging.INFO) as log:
        async with (
            app,
            app.worker(workflows=[pays, pays_below], queues=["a", "b"]) as worker,
        ):
            pass

    assert log.lines[0] == (
        f"worker.ready: worker={worker.id} store={file} queues=a,b workflows=pays,pays_below"
    )
