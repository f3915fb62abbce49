"""Requests to stop or pause a run, and their answers."""

from __future__ import annotations

from typing import NamedTuple


class ForcedEnd(NamedTuple):
    """How a run is ended from outside; `code` is the code that it ran, if that is known."""

    state: str
    reason: str | None
    error: bytes | None = None
    unstarted_only: bool = False
    error_type: str = ""
    failed_step: str = ""
    code: str | None = None


class Stopped(NamedTuple):
    """The answer to a stop: which run it reached, and the outcome."""

    uid: str | None
    fate: str  # stopped, over, started, absent
    queue: str = ""


class PauseAnswer(NamedTuple):
    """The answer to a pause or a resume: which run it reached, and the outcome."""

    uid: str | None
    fate: str  # done, stopping, over, absent
