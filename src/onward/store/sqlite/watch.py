"""Notices what other connections commit to a SQLite file, and publishes it as a hint.

SQLite numbers the states of a file for each connection (`PRAGMA data_version`). The number that the
writer's connection reads changes only when another connection commits: another process, or a
caller's own. The writer reads it at the start of each transaction, and its thread looks now and
then while it is idle. So no commit is missed, however closely it coincides with one of ours.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from onward.core.instant import MILLISECOND, SECOND
from onward.store.hints import ANYTHING

if TYPE_CHECKING:
    from onward.core.instant import Duration
    from onward.core.ports import Clock
    from onward.store.hints import HintBuses

# Waking a thread costs far more than the look, so an idle process looks rarely.
LOOK_EVERY: Duration = 25 * MILLISECOND

LOOK_EVERY_WHILE_ACTIVE: Duration = 5 * MILLISECOND
"""Also the shortest time between two hints, however often others commit."""

ACTIVE_FOR: Duration = 100 * MILLISECOND
"""How long after a commit of another connection the next one is expected."""


class FileWatch:
    """Notices commits of other connections to a file."""

    def __init__(self, hints: HintBuses, clock: Clock, version: int) -> None:
        self._hints = hints
        self._clock = clock
        self._version = version
        self._is_unpublished = False
        self._published_at = clock.monotonic() - ACTIVE_FOR

    @property
    def interval(self) -> float | None:
        """Seconds until the next check; `None` while nothing waits for hints."""
        if not self._hints.has_subscriptions:
            return None
        is_active = self._is_unpublished or self._since_published() < ACTIVE_FOR
        return (LOOK_EVERY_WHILE_ACTIVE if is_active else LOOK_EVERY) / SECOND

    def see(self, version: int) -> None:
        """Publish a hint if another connection has committed since the last check."""
        if version != self._version:
            self._version = version
            self._is_unpublished = True
        if self._is_unpublished and self._since_published() >= LOOK_EVERY_WHILE_ACTIVE:
            self._is_unpublished = False
            self._published_at = self._clock.monotonic()
            self._hints.publish({ANYTHING})

    def _since_published(self) -> Duration:
        return self._clock.monotonic() - self._published_at
