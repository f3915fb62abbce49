"""What a worker receives without a request: changed runs and drains, in small batches."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from onward.store.hints import ANYTHING, run_subject
from onward.wire.messages import messages

if TYPE_CHECKING:
    from collections.abc import Callable

    from onward.server.outbox import Outbox

LATER_SECONDS = 0.1
"""How long news wait before they are sent to a worker that reads slowly."""

_RUN = run_subject("")


class NewsSender:
    """Sends the news of one worker.

    Args:
        outbox: Where frames go.
        has: Returns whether the run of a subject is still the worker's.
    """

    def __init__(self, outbox: Outbox, has: Callable[[str], bool]) -> None:
        self._outbox = outbox
        self._has = has
        self._heard: set[str] = set()
        self._is_drained = False
        self._is_scheduled = True  # nothing is sent before the welcome

    @property
    def is_drained(self) -> bool:
        """Whether the worker must leave and has not been notified yet."""
        return self._is_drained

    def open(self) -> None:
        """Send news from now on, including what has already arrived."""
        self._is_scheduled = False
        self._schedule()

    def hear(self, subject: str) -> None:
        """Send soon that a run may have changed."""
        self._heard.add(subject)
        self._schedule()

    def drain(self) -> None:
        """Send soon that the worker is to take no more runs and leave."""
        self._is_drained = True
        self._schedule()

    def _schedule(self) -> None:
        if not self._is_scheduled:
            self._is_scheduled = True
            # Not in the next turn, but in the one after: the hint of a run that this worker ended
            # itself comes a turn before the worker gives it up, and is no news.
            loop = asyncio.get_running_loop()
            loop.call_soon(loop.call_soon, self._flush)

    def _flush(self) -> None:
        if self._outbox.is_full:  # until then, the news of a run are one
            asyncio.get_running_loop().call_later(LATER_SECONDS, self._flush)
            return
        self._is_scheduled = False
        heard, self._heard = self._heard, set()
        is_drained, self._is_drained = self._is_drained, False
        everything = ANYTHING in heard
        runs = [] if everything else sorted(each for each in heard if self._has(each))
        if runs or everything or is_drained:
            names = [each.removeprefix(_RUN) for each in runs]
            news = messages.News(runs=names, everything=everything, drain=is_drained)
            self._outbox.put(messages.Response(news=news))
