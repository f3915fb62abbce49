"""What the telemetry tests are made of: scopes, a reporter on a clock that stands still, a log."""

from __future__ import annotations

import logging
from contextlib import contextmanager
from typing import TYPE_CHECKING

from onward.telemetry.metrics import METRICS, Metrics
from onward.telemetry.scope import RunScope, StepScope

if TYPE_CHECKING:
    from collections.abc import Iterator

SECRET = "4111-1111-1111-1111"


def a_run(run: str = "order-7") -> RunScope:
    return RunScope(run, "uid-7", "order", "worker-1", "fast")


def a_step(of: RunScope | None = None, attempt: int = 1) -> StepScope:
    return StepScope(of or a_run(), "charge", "0:charge#1", attempt)


class Counted(Metrics):
    """Keeps every call that it is told."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, dict[str, object]]] = []
        for name in METRICS:
            setattr(self, name, self._keeper(name))

    def _keeper(self, name: str) -> object:
        return lambda **facts: self.calls.append((name, facts))

    @property
    def names(self) -> list[str]:
        return [name for name, _ in self.calls]


class Kept(logging.Handler):
    """Keeps every record, as a user's handler would get it."""

    def __init__(self) -> None:
        super().__init__()
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)

    @property
    def lines(self) -> list[str]:
        return [record.getMessage() for record in self.records]

    @property
    def events(self) -> list[object]:
        return [vars(record).get("event") for record in self.records]


@contextmanager
def a_log(level: int = logging.DEBUG, logger: str = "onward") -> Iterator[Kept]:
    """Give what is logged meanwhile, and put the loggers back as they were."""
    kept, found = Kept(), logging.getLogger(logger)
    before = found.level
    found.addHandler(kept)
    found.setLevel(level)
    try:
        yield kept
    finally:
        found.removeHandler(kept)
        found.setLevel(before)
