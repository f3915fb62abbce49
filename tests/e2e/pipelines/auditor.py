"""Looks at the tables of pipelines from outside, one snapshot at a time."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import Any, NamedTuple

import asyncpg

COUNTS = """
    SELECT s.topic, s.handler, t.last - s.since AS published, s.consumed AS noted_consumed,
           s.skipped AS noted_skipped,
           coalesce(sum(CASE WHEN d.state = 'pending' THEN 1 ELSE 0 END), 0) AS pending,
           coalesce(sum(CASE WHEN d.state = 'reserved' THEN 1 ELSE 0 END), 0) AS reserved,
           coalesce(sum(CASE WHEN d.state = 'consumed' THEN 1 ELSE 0 END), 0) AS consumed,
           coalesce(sum(CASE WHEN d.state = 'skipped' THEN 1 ELSE 0 END), 0) AS skipped
    FROM onward_subscription s
    JOIN onward_topic t ON t.namespace = s.namespace AND t.name = s.topic
    LEFT JOIN onward_delivery d
        ON d.namespace = s.namespace AND d.handler = s.handler AND d.topic = s.topic
    GROUP BY s.topic, s.handler, t.last, s.since, s.consumed, s.skipped
    ORDER BY s.topic, s.handler
"""

LOST = """
    SELECT d.handler, d.event FROM onward_delivery d
    JOIN onward_handler h
        ON h.namespace = d.namespace AND h.handler = d.handler AND h.key = d.key
    WHERE d.state = 'pending' AND h.published <= h.seen AND h.blocked_by IS NULL
      AND NOT EXISTS (
          SELECT 1 FROM onward_run r
          WHERE r.namespace = h.namespace AND r.handler = h.handler AND r.handler_key = h.key
            AND r.state IN ('ready', 'running', 'waiting', 'paused'))
"""

CROWDED = """
    SELECT lane FROM onward_run
    WHERE lane IS NOT NULL AND state IN ('ready', 'running', 'waiting', 'paused')
    GROUP BY lane HAVING count(*) > 1
"""

BUSY = """
    SELECT handler FROM onward_handler WHERE kind = 'producer' AND published > seen
    UNION ALL
    SELECT handler FROM onward_run
    WHERE lane IS NOT NULL AND state IN ('ready', 'running', 'waiting', 'paused')
"""

RUNNING = "SELECT uid, worker FROM onward_run WHERE state = 'running'"
EVENTS = "SELECT topic, message FROM onward_event ORDER BY topic, seq"
PHASES = "SELECT uid, phase FROM onward_run WHERE kind = 'consumer'"


class Counts(NamedTuple):
    """The events of one topic for one consumer."""

    topic: str
    handler: str
    published: int
    noted_consumed: int
    noted_skipped: int
    pending: int
    reserved: int
    consumed: int
    skipped: int

    def check(self) -> None:
        """See that no event is lost or counted twice."""
        there = self.pending + self.reserved + self.consumed + self.skipped
        assert there == self.published, self
        assert (self.noted_consumed, self.noted_skipped) == (self.consumed, self.skipped), self


class Auditor:
    """Reads a database by connections of its own."""

    def __init__(self, url: str) -> None:
        self._url = url
        self.samples = 0

    async def fetch(self, statement: str) -> list[Any]:
        """Return the rows of a statement, which is one snapshot."""
        if not self._url.startswith("postgresql"):
            with closing(sqlite3.connect(self._url, timeout=30)) as file:
                return file.execute(statement).fetchall()
        connection = await asyncpg.connect(self._url, server_settings={"search_path": "onward"})
        try:
            return [tuple(row) for row in await connection.fetch(statement)]
        finally:
            await connection.close()

    async def sample(self) -> list[Counts]:
        """Check what must hold after every commit, and return the counts of each consumer."""
        found = [Counts._make(row) for row in await self.fetch(COUNTS)]
        for each in found:
            each.check()
        assert await self.fetch(LOST) == [], "events are pending, and no run will look at them"
        assert await self.fetch(CROWDED) == [], "two runs of a lane are open"
        self.samples += 1
        return found

    async def is_idle(self) -> bool:
        """Return whether nothing is left to do: no event, no run, and no producer that is due."""
        is_handled = all(each.pending == each.reserved == 0 for each in await self.sample())
        return is_handled and await self.fetch(BUSY) == []

    async def runs_of(self, pid: int) -> set[str]:
        """Return the runs that a process has claimed."""
        rows = await self.fetch(RUNNING)
        return {uid for uid, worker in rows if f"-{pid}-" in (worker or "")}
