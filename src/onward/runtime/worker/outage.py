"""Outages of the engine: calls of a worker wait, and are repeated."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, TypeVar

from onward.core.retry import Retry
from onward.errors import NotOpen, StoreUnusable, Unavailable

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from onward.core.ports import Randomness
    from onward.telemetry.observer import Observer

T = TypeVar("T")

AWAY = (NotOpen, StoreUnusable, Unavailable)
"""The errors of an engine that was open before and cannot be used now; that passes."""

TRYING = Retry(attempts=None, delay="100ms", factor=2, max_delay="1s", jitter=0.5)
"""How long to wait before the next try. A try itself lasts for up to 2 s on Postgres.

A worker must be at work within 5 s after an outage, also on a busy machine.
"""


class Outage:
    """Repeats the calls of one worker while its engine is unavailable.

    Args:
        worker: Its id.
        randomness: Spreads the tries of many workers.
        observer: Reports the beginning and the end of an outage.
    """

    def __init__(self, worker: str, randomness: Randomness, observer: Observer) -> None:
        self._worker = worker
        self._randomness = randomness
        self._observer = observer
        self._given_up = asyncio.Event()
        self._tries = 0

    def met(self, error: Exception) -> float:
        """Note an outage, and return after how many seconds to try again."""
        self._tries += 1
        self._observer.store_away(self._worker, error)
        return self._delay(self._tries)

    def over(self) -> None:
        """Note that the engine answered."""
        self._tries = 0
        self._observer.store_back(self._worker)

    async def through(self, work: Callable[[], Awaitable[T]], *, alone: bool = False) -> T:
        """Repeat something for as long as the engine is unavailable.

        Args:
            work: What to do.
            alone: Nothing else calls the engine meanwhile, so the outage is reported here.

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
        """Repeat nothing any more: the worker leaves, or may not write any more."""
        self._given_up.set()

    def _delay(self, tries: int) -> float:
        return TRYING.delay_after(tries, self._randomness.random()) / 1_000_000
