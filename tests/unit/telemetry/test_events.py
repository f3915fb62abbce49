"""What Onward logs about itself: names, ids, numbers and errors, and never payloads."""

from __future__ import annotations

import logging
import re
import subprocess
import sys
from contextvars import copy_context
from typing import TYPE_CHECKING

import pytest

from onward.core.instant import SECOND
from onward.core.run import Reason, RunState
from onward.errors import Forbidden, Unavailable
from onward.telemetry.events import EVENTS, emit
from onward.telemetry.reporter import Reporter
from onward.telemetry.scope import NOWHERE, scope_now
from onward.testing.clock import VirtualClock
from tests.unit.telemetry.builders import SECRET, a_log, a_run, a_step

if TYPE_CHECKING:
    from onward.telemetry.observer import StepOutcome


AWAY = Unavailable("onward.db", "is away")


def a_reporter() -> Reporter:
    return Reporter(VirtualClock())


ENDS: list[tuple[RunState | None, Reason | None, str, int]] = [
    (RunState.WAITING, None, "run.waiting", logging.DEBUG),
    (RunState.READY, None, "run.ready", logging.INFO),
    (None, None, "run.lost", logging.WARNING),
    (RunState.PAUSED, Reason.DIVERGENCE, "run.paused", logging.WARNING),
    (RunState.SUCCEEDED, None, "run.succeeded", logging.INFO),
    (RunState.FAILED, Reason.LOGIC, "run.failed", logging.ERROR),
    (RunState.CANCELLED, Reason.OPERATOR, "run.cancelled", logging.INFO),
    (RunState.TIMED_OUT, Reason.DEADLINE, "run.timed_out", logging.WARNING),
]


@pytest.mark.parametrize(("state", "reason", "event", "level"), ENDS)
def test_a_run_that_leaves_its_worker_is_logged_with_where_it_goes(
    state: RunState | None, reason: Reason | None, event: str, level: int
) -> None:
    with a_log() as log:
        a_reporter().run_left(a_run(), state, reason)

    [record] = log.records
    assert (record.name, record.levelno, vars(record)["event"]) == ("onward.run", level, event)
    assert vars(record)["run"] == "order-7"
    assert "order-7" in record.getMessage()


def test_every_state_a_run_can_be_left_in_has_its_event() -> None:
    assert {state for state, *_ in ENDS} == {None, *RunState} - {RunState.RUNNING}


STEPS: list[tuple[StepOutcome, Exception | None, int | None, str]] = [
    ("succeeded", None, None, "step.succeeded"),
    ("cancelled", None, None, "step.cancelled"),
    ("failed", ValueError(SECRET), None, "step.failed"),
    ("timed_out", TimeoutError(SECRET), None, "step.failed"),
    ("failed", ValueError(SECRET), 2 * SECOND, "step.retried"),
    ("timed_out", TimeoutError(SECRET), 2 * SECOND, "step.retried"),
]


@pytest.mark.parametrize(("outcome", "error", "retry_in", "event"), STEPS)
def test_an_attempt_that_ends_is_logged_with_its_outcome(
    outcome: StepOutcome, error: Exception | None, retry_in: int | None, event: str
) -> None:
    with a_log() as log:
        a_reporter().step_ended(a_step(attempt=2), outcome, error, retry_in)

    [record] = log.records
    told = vars(record)
    assert (record.name, told["event"], told["outcome"]) == ("onward.step", event, outcome)
    assert (told["step"], told["identity"], told["attempt"]) == ("charge", "0:charge#1", 2)
    assert "charge" in record.getMessage()


def test_how_long_things_took_is_logged() -> None:
    clock = VirtualClock()
    reporter, run, step = Reporter(clock), a_run(), a_step()
    with a_log() as log:
        reporter.run_claimed(run)
        clock.advance(2 * SECOND)
        reporter.step_begun(step, copy_context())
        clock.advance(SECOND)
        reporter.step_ended(step, "succeeded")
        reporter.run_left(run, RunState.WAITING)

    seconds = {vars(each)["event"]: vars(each).get("seconds") for each in log.records}
    assert seconds == {"run.claimed": None, "step.succeeded": 1.0, "run.waiting": 3.0}


class Declined(Exception):
    pass


def decline(card: str) -> None:
    raise Declined("no funds") from KeyError("limit")


def declined() -> Declined:
    with pytest.raises(Declined) as caught:
        decline(SECRET)
    caught.value.add_note("ask the bank")
    return caught.value


def test_an_error_is_logged_with_its_message_and_traceback_but_no_values() -> None:
    error = declined()
    with a_log() as log:
        reporter = a_reporter()
        reporter.step_ended(a_step(), "failed", error)
        reporter.run_left(a_run(), RunState.FAILED, Reason.LOGIC, error=error)

    for record in log.records:
        text = logging.Formatter().format(record)
        assert f'error="{__name__}.Declined: no funds"' in record.getMessage()
        assert vars(record)["error_type"] == f"{__name__}.Declined"
        assert "KeyError: 'limit'\n\nThe above exception was the direct cause" in text
        assert 'raise Declined("no funds") from KeyError("limit")' in text
        assert text.endswith(f"{__name__}.Declined: no funds\nask the bank")
        assert SECRET not in text + repr(vars(record))


def test_a_record_has_its_error_for_handlers_that_send_it_elsewhere() -> None:
    error = declined()
    with a_log() as log:
        a_reporter().step_ended(a_step(), "failed", error)

    assert log.records[0].exc_info == (Declined, error, error.__traceback__)


def test_a_line_is_the_event_and_facts() -> None:
    with a_log() as log:
        a_reporter().step_ended(a_step(attempt=2), "failed", ValueError('a "b"\nc'), 1_234_567)

    assert log.lines == [
        "step.retried: run=order-7 kind=step step=charge attempt=2 retry_seconds=1.235"
        r' error="ValueError: a \"b\"\nc"'
    ]


@pytest.mark.parametrize("hidden", ["\x9b31m", "\u202e", "\u2028"])
def test_what_a_terminal_would_obey_is_escaped(hidden: str) -> None:
    with a_log() as log:
        emit("run.unread", run=f"order{hidden}", unread_count=1, unread=f"a call {hidden}")
    assert log.records[0].getMessage().isprintable()


def test_a_worker_that_is_ready_says_what_it_takes_from_where() -> None:
    with a_log() as log:
        a_reporter().worker_ready("worker-1", "onward.db", ("default", "mail"), ("buy", "ship"))

    assert log.lines == [
        "worker.ready: worker=worker-1 store=onward.db queues=default,mail workflows=buy,ship"
    ]


def test_a_record_about_a_worker_borrows_nothing_from_the_run_it_is_made_in() -> None:
    token = scope_now.set(a_step())
    try:
        with a_log() as log:
            a_reporter().worker_ready("worker-2", "onward.db", (), ())
    finally:
        scope_now.reset(token)

    told = vars(log.records[0])
    assert {name: told[name] for name in NOWHERE} == {**NOWHERE, "worker": "worker-2"}


def test_a_worker_that_fails_is_an_error_and_one_that_leaves_is_not() -> None:
    with a_log(logging.INFO) as log:
        reporter = a_reporter()
        reporter.worker_left("worker-1")
        reporter.worker_left("worker-2", RuntimeError("no disk"))

    assert [record.levelno for record in log.records] == [logging.INFO, logging.ERROR]
    assert log.lines[1] == 'worker.failed: worker=worker-2 error="RuntimeError: no disk"'


def test_a_worker_without_a_key_is_logged_without_a_traceback() -> None:
    with a_log(logging.INFO) as log:
        a_reporter().worker_left("worker-1", Forbidden("laptop", "worker:poll:mail"))
        a_reporter().worker_left("worker-2", RuntimeError("no disk"))

    assert [record.exc_info is None for record in log.records] == [True, False]
    assert "onward keys create --role worker, or --scope worker:poll:mail" in log.lines[0]


def test_a_store_that_stays_away_is_logged_once_a_minute_until_it_is_back() -> None:
    clock = VirtualClock()
    with a_log() as log:
        reporter = Reporter(clock)
        for _ in range(130):
            reporter.store_away("worker-1", AWAY)
            clock.advance(SECOND)
        reporter.store_back("worker-1")
        reporter.store_back("worker-1")
        reporter.store_away("worker-1", AWAY)

    assert log.events == [
        "store.away",
        "store.still_away",
        "store.still_away",
        "store.back",
        "store.away",
    ]
    assert log.lines[1] == (
        "store.still_away: worker=worker-1 outage_seconds=60"
        ' error="onward.db is away. Try again; nothing was lost."'
    )
    assert log.lines[3] == "store.back: worker=worker-1 outage_seconds=130"


def test_a_lease_that_is_lost_is_an_error() -> None:
    with a_log(logging.INFO) as log:
        reporter = a_reporter()
        reporter.lease_renewed("worker-1", SECOND, kept=True)
        reporter.lease_renewed("worker-1", SECOND, kept=False)

    assert log.events == ["lease.lost"]


def test_a_filter_of_the_user_that_fails_harms_nobody(capsys: pytest.CaptureFixture[str]) -> None:
    def faulty(record: logging.LogRecord) -> bool:
        raise ZeroDivisionError

    with a_log() as log:
        log.addFilter(faulty)
        emit("worker.ready", worker="worker-1")

    assert log.records == []
    assert "ZeroDivisionError" in capsys.readouterr().err


def test_nothing_is_made_of_an_event_that_nobody_wants() -> None:
    with a_log(logging.WARNING) as log:
        a_reporter().run_left(a_run(), RunState.SUCCEEDED)

    assert log.records == []


@pytest.mark.parametrize("event", EVENTS)
def test_every_event_belongs_to_a_logger_below_ours(event: str) -> None:
    assert EVENTS[event].logger.name.startswith("onward.")


@pytest.mark.parametrize("event", EVENTS)
def test_every_event_is_one_line_of_facts(event: str) -> None:
    head, _, facts = EVENTS[event].text.partition(": ")
    assert head == event
    assert re.fullmatch(r'(\w+=%\(\w+\)s ?)+( ?hint="[^"]+")?', facts)


PRINTED = """
from onward.telemetry.events import emit
emit("worker.ready", store="onward.db", queues=(), workflows=())
emit("run.failed", cause=ValueError("no tea"), reason="logic")
"""


def test_failures_are_printed_without_any_configuration() -> None:
    answer = subprocess.run(
        [sys.executable, "-c", PRINTED], capture_output=True, text=True, timeout=60, check=True
    )

    assert answer.stdout == ""
    assert answer.stderr == (
        'run.failed: run=- workflow=- reason=logic error="ValueError: no tea"\nValueError: no tea\n'
    )
