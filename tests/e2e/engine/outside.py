"""The outside world: a log that steps append to, and that no crash takes a line out of."""

from __future__ import annotations

import json
import os
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from onward.runtime.context import step_now

if TYPE_CHECKING:
    from pathlib import Path

VARIABLE = "ONWARD_TEST_OUTSIDE"


class Deed(NamedTuple):
    """A step was carried out: which, for which run, at which attempt, by which process."""

    run: str
    identity: str
    attempt: int
    pid: int


def note() -> None:
    """Write down, for good, that the step whose code asks is being done."""
    step = step_now.get()
    assert step is not None, "only a step changes the outside world"
    line = json.dumps([step.run.uid, step.identity, step.number, os.getpid()])
    log = os.open(os.environ[VARIABLE], os.O_APPEND | os.O_CREAT | os.O_WRONLY, 0o600)
    try:
        os.write(log, line.encode() + b"\n")
        os.fsync(log)
    finally:
        os.close(log)


def deeds(log: Path) -> list[Deed]:
    """Return everything that was done, in order."""
    if not log.exists():
        return []
    return [Deed(*json.loads(line)) for line in log.read_text().splitlines()]


def times_done(log: Path, run: str) -> Counter[str]:
    """Return how often each step of a run was carried out, by identity."""
    return Counter(deed.identity for deed in deeds(log) if deed.run == run)
