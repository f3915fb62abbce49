"""The seam for metrics: who is told what, and a faulty one harms nobody."""

from __future__ import annotations

import logging
from contextvars import copy_context
from typing import TYPE_CHECKING

import pytest

from onward.core.instant import SECOND
from onward.core.run import Reason, RunState
from onward.errors import BadInput
from onward.telemetry import Metrics
from onward.telemetry.metrics import METRICS
from onward.telemetry.observer import SILENT, Observer
from onward.telemetry.reporter import Reporter
from onward.testing.clock import VirtualClock
from tests.unit.telemetry.builders import Counted, a_log, a_run, a_step

if TYPE_CHECKING:
    from collections.abc import Callable


class Faulty(Counted):
    """Keeps every call, and then fails."""

    def _keeper(self, name: str) -> object:
        def failing(**facts: object) -> None:
            self.calls.append((name, facts))
            raise ZeroDivisionError

        return failing


TELLING: dict[str, Callable[[Observer], None]] = {
    "run_started": lambda o: o.starting("order", "fast").done("order-7", "uid-7", created=True),
    "run_claimed": lambda o: o.run_claimed(a_run()),
    "run_parked": lambda o: o.run_left(a_run(), RunState.WAITING),
    "run_ended": lambda o: o.run_left(a_run(), RunState.FAILED, Reason.LOGIC, at=5 * SECOND),
    "run_lost": lambda o: o.run_left(a_run(), None),
    "step_ended": lambda o: o.step_ended(a_step(), "failed", ValueError(), SECOND),
    "cache_read": lambda o: o.cache_read(a_step(), hit=True),
    "queue_lag": lambda o: o.run_claimed(a_run(), lag=3 * SECOND),
    "claim_took": lambda o: o.claim_took("worker-1", 20, SECOND // 4),
    "maintenance_took": lambda o: o.maintenance_took("worker-1", SECOND // 2),
    "commit_took": lambda o: o.commit_took("worker-1", 7, SECOND // 2),
    "lease_renewed": lambda o: o.lease_renewed("worker-1", SECOND, kept=True),
}

TOLD: dict[str, dict[str, object]] = {
    "run_started": {"workflow": "order", "queue": "fast"},
    "run_claimed": {"workflow": "order", "queue": "fast"},
    "run_parked": {
        "workflow": "order", "queue": "fast", "state": "waiting", "reason": None, "seconds": 0.0,
    },
    "run_ended": {
        "workflow": "order", "queue": "fast", "state": "failed", "reason": "logic", "seconds": 5.0,
    },
    "run_lost": {"workflow": "order", "queue": "fast"},
    "step_ended": {
        "workflow": "order", "step": "charge", "outcome": "failed", "retrying": True,
        "seconds": 0.0,
    },
    "cache_read": {"workflow": "order", "step": "charge", "hit": True},
    "queue_lag": {"queue": "fast", "seconds": 3.0},
    "claim_took": {"worker": "worker-1", "runs": 20, "seconds": 0.25},
    "maintenance_took": {"worker": "worker-1", "seconds": 0.5},
    "commit_took": {"worker": "worker-1", "commits": 7, "seconds": 0.5},
    "lease_renewed": {"worker": "worker-1", "kept": True, "seconds": 1.0},
}  # fmt: skip


def test_every_metric_is_told_by_something() -> None:
    assert set(TELLING) == set(METRICS)


@pytest.mark.parametrize("name", METRICS)
def test_a_metric_is_told_what_it_says(name: str) -> None:
    counted = Counted()
    TELLING[name](Reporter(VirtualClock(), metrics=counted))

    assert dict(counted.calls)[name] == TOLD[name]


@pytest.mark.parametrize("name", METRICS)
def test_a_metric_that_fails_harms_nobody_and_is_logged_once(name: str) -> None:
    faulty = Faulty()
    reporter = Reporter(VirtualClock(), metrics=faulty)
    with a_log(logging.ERROR) as log:
        TELLING[name](reporter)
        TELLING[name](reporter)

    assert faulty.names.count(name) == 2
    failures = [each for each in log.records if vars(each)["event"] == "telemetry.failed"]
    assert [vars(each)["call"] for each in failures].count(name) == 1
    assert "ZeroDivisionError" in failures[0].getMessage()
    assert __file__ in failures[0].getMessage()


@pytest.mark.parametrize("name", METRICS)
def test_a_metric_that_is_not_written_does_nothing(name: str) -> None:
    class Nothing(Metrics):
        pass

    with a_log(logging.ERROR) as log:
        TELLING[name](Reporter(VirtualClock(), metrics=Nothing()))

    assert "telemetry.failed" not in log.events


@pytest.mark.parametrize("name", METRICS)
def test_the_silent_observer_takes_everything(name: str) -> None:
    TELLING[name](SILENT)


def test_an_object_that_lacks_a_metric_is_refused_when_it_is_given() -> None:
    class Old:
        def run_started(self, *, workflow: str, queue: str) -> None: ...

    with pytest.raises(BadInput, match=r"Old lack run_claimed, .*Inherit from onward.telemetry"):
        Reporter(VirtualClock(), metrics=Old())  # type: ignore[arg-type]  # that is the point


def test_a_run_that_was_there_already_is_not_counted_as_started() -> None:
    counted = Counted()
    reporter = Reporter(VirtualClock(), metrics=counted)

    with reporter.starting("order", "fast") as starting:
        starting.done("order-7", "uid-7", created=False)

    assert counted.calls == []


def test_the_age_of_a_run_is_counted_from_its_start_and_its_stay_from_the_claim() -> None:
    counted, clock, run = Counted(), VirtualClock(), a_run()
    run.since = 10 * SECOND
    reporter = Reporter(clock, metrics=counted)

    reporter.run_claimed(run)
    clock.advance(2 * SECOND)
    reporter.run_left(run, RunState.WAITING, at=12 * SECOND)
    reporter.run_claimed(run)
    clock.advance(SECOND)
    reporter.run_left(run, RunState.SUCCEEDED, at=70 * SECOND)

    seconds = [(name, facts["seconds"]) for name, facts in counted.calls if "seconds" in facts]
    assert seconds == [("run_parked", 2.0), ("run_ended", 60.0)]


def test_a_step_takes_from_its_begin_to_its_end() -> None:
    counted, clock, step = Counted(), VirtualClock(), a_step()
    reporter = Reporter(clock, metrics=counted)

    reporter.step_begun(step, copy_context())
    clock.advance(SECOND // 2)
    reporter.step_ended(step, "succeeded")

    [(_, facts)] = counted.calls
    assert (facts["seconds"], facts["retrying"]) == (0.5, False)
