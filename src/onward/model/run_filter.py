"""Which runs a list is to have."""

from __future__ import annotations

from typing import NamedTuple


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


ANY_RUN = RunQuery()
