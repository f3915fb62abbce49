"""What workers take, and why none of them takes a run."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from onward.model.runs import RunRow


class Unserved(NamedTuple):
    """A run that no live worker can take, and why."""

    run: RunRow
    why: str


class RunNeeds(NamedTuple):
    """What decides whether a worker can take a run."""

    queue: str
    name: str
    version: str | None
    tags: str


class WorkerOffer(NamedTuple):
    """What a live worker takes."""

    queues: frozenset[str]
    names: frozenset[str]
    version: str | None
    tags: frozenset[str]


def why_not(kind: RunNeeds, servers: list[WorkerOffer]) -> str | None:
    """Return why none of these workers takes runs of a kind; None if one does."""
    able = [server for server in servers if kind.queue in server.queues]
    if not able:
        return f"no worker serves queue {kind.queue!r}"
    able = [server for server in able if kind.name in server.names]
    if not able:
        return f"no worker knows workflow {kind.name!r}"
    able = [server for server in able if kind.version in (None, server.version)]
    if not able:
        return f"no worker has version {kind.version!r}"
    tags = kind.tags.split()
    if tags and not any(server.tags.intersection(tags) for server in able):
        return f"no worker has one of the tags {', '.join(map(repr, tags))}"
    return None
