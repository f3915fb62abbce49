"""Runs that could go on, if only there were a worker for them."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from onward.store.rows import RunRow

if TYPE_CHECKING:
    from onward.store.database import Tx


class Unserved(NamedTuple):
    """A run that no live worker can take, and why."""

    run: RunRow
    why: str


class Kind(NamedTuple):
    """What decides whether a worker can take a run."""

    queue: str
    name: str
    version: str | None
    tags: str


class Server(NamedTuple):
    """What a live worker takes."""

    queues: frozenset[str]
    names: frozenset[str]
    version: str | None
    tags: frozenset[str]


async def unserved(tx: Tx, limit: int) -> list[Unserved]:
    """Return runs that no live worker can take, with the reason."""
    servers = [_server(*row) for row in await tx.fetch("live_workers")]
    found: list[Unserved] = []
    for row in await tx.fetch("kinds_to_claim"):
        kind = Kind._make(row)
        why = why_not(kind, servers)
        if why is not None and len(found) < limit:
            left = limit - len(found)
            runs = await tx.fetch("runs_to_claim", limit=left, **kind._asdict())
            found += [Unserved(RunRow._make(run), why) for run in runs]
    return found


async def why_unserved(tx: Tx, run: RunRow) -> str | None:
    """Return why no live worker can take a run; None if one can."""
    servers = [_server(*row) for row in await tx.fetch("live_workers")]
    return why_not(Kind(run.queue, run.name, run.version, run.tags), servers)


def why_not(kind: Kind, servers: list[Server]) -> str | None:
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


def _server(queues: str, names: str, version: str | None, tags: str) -> Server:
    parts = (frozenset(text.split("\n")) for text in (queues, names, tags))
    served, known, marked = parts
    return Server(served, known, version, marked)
