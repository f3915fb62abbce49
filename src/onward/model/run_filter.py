"""Which runs a list is to have."""

from __future__ import annotations

from typing import NamedTuple

from onward.core.instant import Instant


class Family(NamedTuple):
    """Runs that belong together: those that one run has started, and all below."""

    top: str
    """The uid of the run above them."""
    line: bool = True
    """Also those of the runs before it under the same id."""
    children_only: bool = False
    """Only those that it has started itself; otherwise itself too, and all below."""


class RunQuery(NamedTuple):
    """Which runs a list is to have; None means any."""

    name: str | None = None
    state: str | None = None
    queue: str | None = None
    kind: str | None = None
    tag: str | None = None
    children: bool = True
    """Also those that other runs have started."""
    family: Family | None = None
    dead: bool = False
    """Only dead letters: failed and timed-out runs that await a decision."""
    error: str | None = None
    """The type of the error of a dead letter, with or without its module."""
    failed_step: str | None = None
    """The name of the call whose error ended a dead letter."""
    since: Instant | None = None
    """Only dead letters that ended then or later."""
    bound: bool = True
    """Also those that are cancelled with the run that started them."""
    without: str | None = None
    """Leave out those of this workflow."""
    is_open: bool = False
    """Only runs that have not ended."""
    created_by: Instant | None = None
    """Only runs that were created then or earlier."""
    only_children: bool = False
    """Only those that other runs have started."""


ANY_RUN = RunQuery()
