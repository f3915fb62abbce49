"""Rows of the result cache."""

from __future__ import annotations

from typing import NamedTuple

from onward.core.instant import Duration, Instant


class CacheWrite(NamedTuple):
    """A result that other runs may use; it is written with the record of the step."""

    key: str
    step: str
    version: str
    payload: bytes
    length: Duration


class CacheRow(NamedTuple):
    """A result that is there, without its value; `run` is the id of the run that wrote it."""

    key: str
    step: str
    version: str
    run: str | None
    size: int
    created_at: Instant
    expires_at: Instant
