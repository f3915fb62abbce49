"""A store that is away for a while: what a worker wants of it waits, and is tried again."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, TypeVar

from onward.core.retry import Retry
from onward.errors import StoreUnusable, Unavailable

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from onward.core.ports import Randomness
    from onward.telemetry.observer import Observer

T = TypeVar("T")

AWAY = (Unavailable, StoreUnusable)
"""How a store that was open before says that it cannot be used now: that passes, or is repaired."""

TRYING = Retry(attempts=None, delay="100ms", factor=2, max_delay="1s", jitter=0.5)
"""How long to wait before the next try. A try itself lasts for up to 2 s on Postgres.

All of a worker must be at work within 5 s after the return, also on a busy machine.
"""


class Outage:
    """Leads one worker through the times in which its store is away.

    Args:
        worker: Its id.
        randomness: Spreads the tries of many workers.
        observer: Is told when the store is away, and when it is back.
    """

    def __init__(self, worker: str, randomness: Randomness, observer: Observer) -> None:
        self._worker = worker
        self._randomness = randomness
        self._observer = observer
        self._given_up = asyncio.Event()
        self._tries = 0

    def met(self, error: Exception) -> float:
        """Take note that the store is away; return after how many seconds to try again."""
        self._tries += 1
        self._observer.store_away(self._worker, error)
        return self._delay(self._tries)

    def over(self) -> None:
        """Take note that the store answered."""
        self._tries = 0
        self._observer.store_back(self._worker)

    async def through(self, work: Callable[[], Awaitable[T]], *, alone: bool = False) -> T:
        """Do something that may be done again, for as long as the store is away.

        Args:
            work: What to do.
            alone: Nothing else asks the store meanwhile, so this is where an outage is told.

        Raises:
            Unavailable: it was given up.
            StoreUnusable: the same.
        """
        tries = 0
        while True:
            try:
                return await work()
            except AWAY as error:
                if self._given_up.is_set():
                    raise
                if alone:
                    self._observer.store_away(self._worker, error)
            tries += 1
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._delay(tries)):
                    await self._given_up.wait()

    def give_up(self) -> None:
        """Try nothing again: the worker leaves, or may not write any more."""
        self._given_up.set()

    def _delay(self, tries: int) -> float:
        return TRYING.delay_after(tries, self._randomness.random()) / 1_000_000
