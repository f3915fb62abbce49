"""Who listens decides what is paid for: nobody, and the path of a step makes no call."""

from __future__ import annotations

import logging
import subprocess
import sys

import pytest

from onward.telemetry.observer import SILENT, Observer
from onward.telemetry.reporter import Reporter
from onward.telemetry.scope import RunScope, StepScope
from onward.testing.clock import VirtualClock
from tests.unit.telemetry.builders import Counted, a_log, a_run

WITHOUT = """
import sys
from contextvars import copy_context
from onward.core.run import RunState
from onward.system.clock import SystemClock
from onward.telemetry.reporter import Reporter
from onward.telemetry.scope import RunScope, StepScope

reporter, run = Reporter(SystemClock()), RunScope("order-7", "uid-7", "order")
with reporter.starting("order", "default") as starting:
    starting.done("order-7", "uid-7", created=True)
reporter.run_claimed(run, trace=starting.trace)
step = StepScope(run, "charge", "0:charge#1", 1)
reporter.step_begun(step, copy_context())
reporter.step_ended(step, "succeeded")
reporter.run_left(run, RunState.SUCCEEDED)
print(*(name for name in sys.modules if name.startswith("opentelemetry")))
"""


def test_the_silent_observer_wants_to_hear_of_nothing() -> None:
    assert (SILENT.steps, SILENT.measures, SILENT.trace_of(a_run())) == (False, False, None)


def test_a_reporter_to_whom_nobody_listens_wants_to_hear_of_no_steps() -> None:
    reporter = Reporter(VirtualClock())
    reporter.run_claimed(a_run())

    assert (reporter.steps, reporter.measures) == (False, False)


def test_metrics_want_to_hear_of_steps() -> None:
    reporter = Reporter(VirtualClock(), metrics=Counted())

    assert (reporter.steps, reporter.measures) == (True, True)


def test_a_log_level_that_is_changed_counts_from_the_next_claim() -> None:
    reporter, wanted = Reporter(VirtualClock()), []
    with a_log(logging.DEBUG, "onward.step"):
        wanted.append(reporter.steps)
        reporter.run_claimed(a_run())
        wanted.append(reporter.steps)
    reporter.run_claimed(a_run())
    wanted.append(reporter.steps)

    assert wanted == [False, True, False]


def test_of_the_runs_of_a_workflow_that_block_one_is_logged() -> None:
    reporter, other = Reporter(VirtualClock()), RunScope("order-9", "uid-9", "other")
    with a_log(logging.WARNING, "onward.run") as kept:
        for scope in (a_run("order-7"), a_run("order-8"), other):
            reporter.run_blocking(scope, 500_000, "shop.py:7 in order")

    assert [(vars(each)["run"], vars(each)["blocked_seconds"]) for each in kept.records] == [
        ("order-7", 0.5),
        ("order-9", 0.5),
    ]


def test_a_step_that_blocks_is_logged_once_for_each_workflow() -> None:
    reporter = Reporter(VirtualClock())
    with a_log(logging.WARNING, "onward.step") as kept:
        for run in ("order-7", "order-8"):
            scope = StepScope(a_run(run), "charge", "charge#1", 1)
            reporter.run_blocking(scope, 500_000, "shop.py:7 in charge")

    assert [(vars(each)["event"], vars(each)["run"]) for each in kept.records] == [
        ("step.blocking", "order-7")
    ]


def test_without_opentelemetry_nothing_of_it_is_imported() -> None:
    answer = subprocess.run(
        [sys.executable, "-c", WITHOUT], capture_output=True, text=True, timeout=60, check=True
    )

    assert answer.stdout == "\n"


@pytest.mark.parametrize("name", [name for name in vars(Observer) if not name.startswith("_")])
def test_what_can_be_observed_is_reported(name: str) -> None:
    assert name in vars(Reporter) or name in vars(Reporter(VirtualClock()))
