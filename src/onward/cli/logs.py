"""The logs of `onward worker` and `onward dev`: lines of text or JSON on stderr."""

from __future__ import annotations

import logging
import sys

import click

from onward.telemetry.logs import JsonFormatter, RunFilter

LEVELS = ("debug", "info", "warning", "error")

_COLOURS = {
    logging.DEBUG: "bright_black",
    logging.INFO: "green",
    logging.WARNING: "yellow",
    logging.ERROR: "red",
    logging.CRITICAL: "red",
}


def configure_logs(
    level: str | None, *, as_json: bool, formatter: logging.Formatter | None = None
) -> None:
    """Print log records to stderr, unless the user's code has set up logging and no flag is given.

    Args:
        level: The lowest level to print; None is "info".
        as_json: Whether to print lines of JSON.
        formatter: How to print them otherwise.
    """
    if logging.getLogger().handlers and level is None and not as_json:
        return
    handler = logging.StreamHandler(sys.stderr)
    handler.addFilter(RunFilter())
    handler.setFormatter(JsonFormatter() if as_json else formatter or TextFormatter())
    logging.basicConfig(level=(level or "info").upper(), handlers=[handler], force=True)


class TextFormatter(logging.Formatter):
    """Writes a record for people: time, level, message, and the run and step that logged it.

    Args:
        dates: Whether to print the date too.
        colour: Whether to colour the level.
    """

    def __init__(self, *, dates: bool = True, colour: bool = False) -> None:
        super().__init__(datefmt="%Y-%m-%d %H:%M:%S" if dates else "%H:%M:%S")
        self._colour = colour

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - its name in logging
        """Return the line, without the traceback that may follow."""
        level = f"{record.levelname:<7}"
        if self._colour:
            level = click.style(level, fg=_COLOURS.get(record.levelno))
        line = f"{self.formatTime(record, self.datefmt)} {level} "
        if record.name.startswith("onward."):
            return f"{line}{record.message}"
        known = vars(record)
        place = " ".join(filter(None, (known.get("run"), known.get("step"))))
        return f"{line}{record.name}: {record.message}{f' [{place}]' if place else ''}"
