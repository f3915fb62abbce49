"""For the user's own logging: records that say which run they come from, and lines of JSON."""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime

from onward.telemetry.scope import NOWHERE, scope_now

_STANDARD = {*vars(logging.makeLogRecord({})), "asctime", "message", "taskName"}


class RunFilter(logging.Filter):
    """Adds the current run to every log record, and drops records that a replay logs again.

    Each record gets the fields `run`, `uid`, `workflow` and `worker` and, in a step, also `step`,
    `identity` and `attempt`. Outside a run, these fields are empty. Add the filter to handlers,
    because a filter on a logger does not see records that propagate from other loggers. If you use
    a `QueueHandler`, add the filter to that handler.

    Args:
        replayed: Whether to keep records that a workflow body logs while it is replayed.

    Example:
        >>> import logging, sys
        >>> handler = logging.StreamHandler(sys.stdout)
        >>> handler.addFilter(RunFilter())
        >>> handler.setFormatter(logging.Formatter("[%(run)s] %(message)s"))
        >>> handler.handle(logging.makeLogRecord({"msg": "outside of a run"}))
        [] outside of a run
        True
    """

    def __init__(self, *, replayed: bool = False) -> None:
        super().__init__()
        self._replayed = replayed

    def filter(self, record: logging.LogRecord) -> bool:
        """Complete the record, and say whether it is news."""
        scope = scope_now.get()
        known = record.__dict__
        for name, value in (NOWHERE if scope is None else scope.fields()).items():
            known.setdefault(name, value)
        if scope is None or not scope.silent or self._replayed:
            return True
        return record.name.startswith("onward.")  # what we say of a replay is said once


class JsonFormatter(logging.Formatter):
    """Formats a log record as one line of JSON: time, level, logger, message and all extra fields.

    Empty fields are left out. Line breaks in a message are escaped.

    Example:
        >>> import json, logging
        >>> record = logging.makeLogRecord({"msg": "paid", "levelname": "INFO", "run": "order-7"})
        >>> json.loads(JsonFormatter().format(record))["run"]
        'order-7'
    """

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        line: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="microseconds"),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
        }
        for name, value in vars(record).items():
            if name not in _STANDARD and not _is_empty(name, value):
                line.setdefault(name, value)
        if record.exc_text:
            line["exception"] = record.exc_text
        elif record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        if record.stack_info:
            line["stack"] = self.formatStack(record.stack_info)
        return json.dumps(line, default=str, ensure_ascii=False)


def _is_empty(name: str, value: object) -> bool:
    if isinstance(value, str) or name in NOWHERE:
        return not value
    return value is None
