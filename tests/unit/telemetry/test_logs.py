"""What the user's own log records get: the run they come from, no echo of a replay, JSON."""

from __future__ import annotations

import asyncio
import json
import logging
from contextvars import copy_context
from typing import TYPE_CHECKING

import pytest

from onward.telemetry import JsonFormatter, RunFilter
from onward.telemetry.events import emit
from onward.telemetry.scope import scope_now
from tests.unit.telemetry.builders import Kept, a_log, a_run, a_step

if TYPE_CHECKING:
    from collections.abc import Iterator

    from onward.telemetry.scope import Scope

users = logging.getLogger("shop.orders")


@pytest.fixture
def kept() -> Iterator[Kept]:
    with a_log(logger="shop") as log:
        log.addFilter(RunFilter())
        yield log


def inside(scope: Scope, line: str = "paid", logger: logging.Logger = users) -> None:
    """Log as the code of a body or a step does: in a context that has a scope."""
    context = copy_context()
    context.run(scope_now.set, scope)
    context.run(logger.info, line)


def about(record: logging.LogRecord) -> dict[str, object]:
    names = ("run", "uid", "workflow", "worker", "step", "identity", "attempt")
    return {name: vars(record)[name] for name in names}


# --- the filter -----------------------------------------------------------------------------------


def test_a_record_of_a_step_says_which_attempt_of_which_run_it_comes_from(kept: Kept) -> None:
    inside(a_step(attempt=2))

    assert about(kept.records[0]) == {
        "run": "order-7",
        "uid": "uid-7",
        "workflow": "order",
        "worker": "worker-1",
        "step": "charge",
        "identity": "0:charge#1",
        "attempt": 2,
    }


def test_a_record_of_a_body_says_its_run_and_no_step(kept: Kept) -> None:
    inside(a_run())

    found = about(kept.records[0])
    assert (found["run"], found["step"], found["attempt"]) == ("order-7", "", 0)


def test_a_record_outside_a_run_has_the_fields_empty(kept: Kept) -> None:
    users.info("hello")

    assert not any(about(kept.records[0]).values())


def test_what_the_user_says_of_a_record_is_left_alone(kept: Kept) -> None:
    context = copy_context()
    context.run(scope_now.set, a_run())
    context.run(users.info, "mine", extra={"run": "marathon"})

    assert about(kept.records[0])["run"] == "marathon"
    assert about(kept.records[0])["uid"] == "uid-7"


async def test_a_task_of_a_body_logs_in_the_scope_of_its_body(kept: Kept) -> None:
    async def branch() -> None:
        users.info("from a branch")

    scope_now.set(a_run())
    await asyncio.gather(branch(), branch())

    assert [about(record)["run"] for record in kept.records] == ["order-7", "order-7"]


def test_a_body_that_is_replayed_logs_nothing_until_it_is_live_again(kept: Kept) -> None:
    scope = a_run()
    scope.silent = True
    inside(scope, "said before")
    scope.silent = False
    inside(scope, "news")

    assert kept.lines == ["news"]


def test_a_step_is_heard_while_its_body_is_silent(kept: Kept) -> None:
    scope = a_run()
    scope.silent = True
    inside(a_step(scope), "from a step")

    assert kept.lines == ["from a step"]


def test_lines_of_a_replay_can_be_asked_for() -> None:
    scope = a_run()
    scope.silent = True
    with a_log(logger="shop") as log:
        log.addFilter(RunFilter(replayed=True))
        inside(scope, "said before")

    assert log.lines == ["said before"]


def test_what_onward_says_during_a_replay_is_heard() -> None:
    scope = a_run()
    scope.silent = True
    with a_log() as log:
        log.addFilter(RunFilter())
        inside(scope, "diverged", logging.getLogger("onward.run"))

    assert log.lines == ["diverged"]


# --- json -----------------------------------------------------------------------------------------


def formatted(record: logging.LogRecord) -> dict[str, object]:
    line = JsonFormatter().format(record)
    assert "\n" not in line
    found: dict[str, object] = json.loads(line)
    return found


def test_a_line_of_json_has_time_level_logger_message_and_the_run(kept: Kept) -> None:
    inside(a_step(), "paid")
    kept.records[0].created = 1_767_225_600.25

    assert formatted(kept.records[0]) == {
        "time": "2026-01-01T00:00:00.250000+00:00",
        "level": "INFO",
        "logger": "shop.orders",
        "message": "paid",
        "run": "order-7",
        "uid": "uid-7",
        "workflow": "order",
        "worker": "worker-1",
        "step": "charge",
        "identity": "0:charge#1",
        "attempt": 1,
    }


def test_empty_fields_are_left_out_of_a_line_of_json(kept: Kept) -> None:
    users.info("hello")

    assert set(formatted(kept.records[0])) == {"time", "level", "logger", "message"}


def test_what_else_the_user_says_is_in_the_line_of_json(kept: Kept) -> None:
    users.info("paid", extra={"cents": 0, "paid": False, "who": object, "note": ""})

    line = formatted(kept.records[0])
    assert (line["cents"], line["paid"], line["who"]) == (0, False, str(object))
    assert "note" not in line


def test_a_line_break_in_a_message_makes_no_second_line(kept: Kept) -> None:
    users.info("one\r\ntwo: %s", "2026-01-01 ERROR forged")

    assert formatted(kept.records[0])["message"] == "one\r\ntwo: 2026-01-01 ERROR forged"


def test_an_exception_that_the_user_logs_is_in_the_line_of_json(kept: Kept) -> None:
    try:
        int("seven")
    except ValueError:
        users.exception("lost")

    assert "ValueError: invalid literal" in str(formatted(kept.records[0])["exception"])


def test_a_fact_cannot_pass_for_the_time_or_the_level(kept: Kept) -> None:
    users.info("paid", extra={"level": "DEBUG", "time": "never"})

    line = formatted(kept.records[0])
    assert (line["level"], line["time"] == "never") == ("INFO", False)


def test_a_line_of_json_has_the_error_of_a_failed_run_and_its_traceback() -> None:
    error = ValueError("no tea")
    error.__cause__ = KeyError("tea")
    with a_log() as log:
        emit("run.failed", a_run(), cause=error, reason="logic")

    line = formatted(log.records[0])
    assert (line["event"], line["run"], line["reason"]) == ("run.failed", "order-7", "logic")
    assert (line["error"], line["error_type"]) == ("ValueError: no tea", "ValueError")
    assert str(line["exception"]).startswith("KeyError: 'tea'\n\nThe above exception")
