"""Failpoints: free while disarmed, exact when armed, in this process and in others."""

from __future__ import annotations

import os
import re
import select
import signal
import subprocess
import sys
import timeit
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from onward.errors import BadInput, InvariantBroken
from onward.telemetry.failpoints import (
    FAILPOINTS,
    InjectedFault,
    arm,
    arm_from,
    disarm,
    failpoint,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

THREE_PASSES = """
from onward.telemetry.failpoints import failpoint
for turn in 1, 2, 3:
    print(turn, flush=True)
    failpoint("commit.before")
"""


@pytest.fixture(autouse=True)
def _disarmed() -> Iterator[None]:
    yield
    for name in FAILPOINTS:
        disarm(name)


@contextmanager
def a_process(failpoints: str) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        [sys.executable, "-c", THREE_PASSES],
        env={**os.environ, "ONWARD_FAILPOINTS": failpoints},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


# --- in this process ------------------------------------------------------------------------------


@pytest.mark.parametrize("name", FAILPOINTS)
def test_a_disarmed_failpoint_does_nothing(name: str) -> None:
    failpoint(name)


def test_a_disarmed_failpoint_costs_a_few_calls_of_an_empty_function_at_most() -> None:
    def empty(name: str) -> None: ...

    def cost(fn: object) -> float:
        return timeit.timeit("fn('commit.before')", globals={"fn": fn}, number=5_000)

    pairs = [(cost(failpoint), cost(empty)) for _ in range(50)]

    assert min(p for p, _ in pairs) < 4 * min(e for _, e in pairs)


def test_an_armed_failpoint_acts_on_the_pass_it_was_armed_for_and_no_other() -> None:
    seen: list[int] = []
    passed = 0
    arm("commit.before", lambda: seen.append(passed), hit=2)

    for passed in range(1, 5):  # noqa: B007
        failpoint("commit.before")

    assert seen == [2]


def test_an_armed_failpoint_can_act_on_every_pass() -> None:
    seen: list[str] = []
    arm("commit.before", lambda: seen.append("here"), hit=None)

    for _ in range(3):
        failpoint("commit.before")

    assert seen == ["here"] * 3


def test_arming_one_failpoint_leaves_the_others_alone() -> None:
    arm("commit.before", lambda: pytest.fail("the wrong failpoint acted"))

    failpoint("commit.after")


def test_a_disarmed_failpoint_is_a_no_op_again() -> None:
    arm("commit.before", lambda: pytest.fail("it is still armed"))

    disarm("commit.before")

    failpoint("commit.before")


def test_an_undeclared_name_cannot_be_armed() -> None:
    with pytest.raises(BadInput, match=r"'commit\.befor' is not declared.*commit\.before"):
        arm("commit.befor", lambda: None)


def test_an_undeclared_name_cannot_be_passed_even_if_nothing_is_armed() -> None:
    with pytest.raises(InvariantBroken, match=r"commit\.befor"):
        failpoint("commit.befor")


def test_a_failpoint_cannot_be_armed_twice() -> None:
    arm("commit.before", lambda: None)

    with pytest.raises(BadInput, match="already armed"):
        arm("commit.before", lambda: None)


@pytest.mark.parametrize(
    "text",
    [
        "commit.before",
        "commit.before=",
        "commit.before=burn",
        "commit.before=kill:now",
        "commit.before=kill@",
        "commit.before=kill@0",
        "commit.before=kill@-1",
        "commit.before=kill@two",
        "commit.before=exit:soon",
        "commit.before=pause",
        "commit.befor=kill",
        "commit.before=kill;commit.before=raise",
    ],
)
def test_an_entry_that_cannot_be_read_is_refused(text: str) -> None:
    with pytest.raises(BadInput):
        arm_from(text)


def test_entries_may_be_empty_and_spaced() -> None:
    arm_from(" ; commit.before=raise ;; claim.after=raise ;")

    for name in ("commit.before", "claim.after"):
        with pytest.raises(InjectedFault):
            failpoint(name)


def test_every_name_is_a_place_and_a_side_of_it_with_a_meaning() -> None:
    for name, meaning in FAILPOINTS.items():
        assert re.fullmatch(r"[a-z_]+(\.[a-z_]+)+", name)
        assert meaning


# --- in a process of its own ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("failpoints", "status", "turns"),
    [
        ("commit.before=kill@2", -signal.SIGKILL, ["1", "2"]),
        ("commit.before=kill", -signal.SIGKILL, ["1"]),
        ("commit.before=exit@3", 1, ["1", "2", "3"]),
        ("commit.before=exit:7@*", 7, ["1"]),
        ("commit.before=kill@4", 0, ["1", "2", "3"]),
        ("commit.after=kill", 0, ["1", "2", "3"]),
    ],
)
def test_the_environment_ends_a_process_at_a_pass(
    failpoints: str, status: int, turns: list[str]
) -> None:
    with a_process(failpoints) as process:
        told, _ = process.communicate()

    assert (process.returncode, told.split()) == (status, turns)


def test_the_environment_makes_a_failpoint_raise() -> None:
    with a_process("commit.before=raise@2") as process:
        told, error = process.communicate()

    assert (process.returncode, told.split()) == (1, ["1", "2"])
    assert "InjectedFault" in error


def test_a_stopped_process_goes_on_when_it_is_continued() -> None:
    with a_process("commit.before=stop@2") as process:
        _, status = os.waitpid(process.pid, os.WUNTRACED)
        assert os.WIFSTOPPED(status)
        process.send_signal(signal.SIGCONT)
        told, _ = process.communicate()

    assert (process.returncode, told.split()) == (0, ["1", "2", "3"])


def test_a_paused_process_waits_until_its_file_is_removed(tmp_path: Path) -> None:
    file = tmp_path / "reached@here"  # an @ in a path is not a hit
    with a_process(f"commit.before=pause:{file}@2") as process:
        assert process.stdout is not None
        assert [process.stdout.readline() for _ in range(2)] == ["1\n", "2\n"]
        while not file.exists():
            os.sched_yield()
        assert select.select([process.stdout], [], [], 0.05)[0] == []
        file.unlink()
        told, _ = process.communicate()

    assert (process.returncode, told) == (0, "3\n")


def test_a_process_with_a_malformed_variable_does_not_start() -> None:
    with a_process("commit.before=burn") as process:
        told, error = process.communicate()

    assert (process.returncode, told) == (1, "")
    assert "'burn' is not known" in error
