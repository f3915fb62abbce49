"""What the code of a run received as its beginning, where it repeats calls of another run.

A retry and a fork replay a part of another run's history. What that part was given (the time, drawn
ids and numbers) must be given again, or its calls would have other arguments than those on record.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from onward.core.chain import Link
from onward.core.value import Value

if TYPE_CHECKING:
    from onward.core.instant import Instant


class Beginning(Value):
    """When the first run of a line of retries and forks began, and what its draws are made of.

    Draws are made of the last of the `seeds` whose position has been handed over. A run that
    repeats nothing starts at a time of its own: then `started_at` is None.
    """

    started_at: Instant | None
    scheduled_at: Instant
    seeds: tuple[tuple[int, str], ...]

    def seed_at(self, position: int) -> str:
        """Return what draws are made of once the record at `position` was handed over."""
        return next(seed for start, seed in reversed(self.seeds) if start <= position)

    def encoded(self) -> str:
        """Return it as one text."""
        return json.dumps([self.started_at, self.scheduled_at, *self.seeds])


def read_beginning(text: str) -> Beginning:
    """Return the beginning that a text stands for."""
    started_at, scheduled_at, *seeds = json.loads(text)
    return Beginning(started_at, scheduled_at, tuple((start, seed) for start, seed in seeds))


def beginning_of(link: Link, old: Beginning, new_uid: str, copied: int) -> Beginning | None:
    """Return how a run begins that follows another; None: as any other, with its own uid as seed.

    A retry is the same work again, so it draws what the old run drew. A fork is other work: beyond
    the positions up to `copied`, which it has in common with the old run, it draws anew. So does a
    continuation, which has nothing in common. All of them do what the first run was scheduled for.

    Args:
        link: How it follows.
        old: How the old run began.
        new_uid: The new run.
        copied: The last position of the history that the new run begins with.
    """
    if link is Link.RETRY:
        return old
    if link is Link.FORK and copied:
        seeds = tuple((start, seed) for start, seed in old.seeds if start < copied)
        return Beginning(old.started_at, old.scheduled_at, (*seeds, (copied, new_uid)))
    if link in (Link.CONTINUE, Link.FORK):
        return Beginning(None, old.scheduled_at, ((0, new_uid),))
    return None
