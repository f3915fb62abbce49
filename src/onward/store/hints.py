"""Hints that something may have changed. Polling is the truth; a hint only makes it quick.

An `Exchange` is shared by everything in this process that uses one database. Ringing it reaches
every `Ear` that listens for the subject, in whatever event loop it lives; a database that can
reach other processes hooks itself in. A lost or doubled hint costs time, never correctness.

Subjects are `queue:NAME` (something there became claimable) and `run:UID` (that run changed).
`ANYTHING` stands for all of them, when nobody knows what changed.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import threading
from typing import TYPE_CHECKING, Protocol, Self

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from types import TracebackType

ANYTHING = "*"


def queue_subject(queue: str) -> str:
    """Return the subject of runs that became claimable in a queue."""
    return f"queue:{queue}"


def run_subject(uid: str) -> str:
    """Return the subject of changes to one run."""
    return f"run:{uid}"


def packed(told: Iterable[Iterable[str]], bytes_most: int) -> str:
    """Return all subjects that were told as one text, or `ANYTHING` if they are too many."""
    text = "\n".join(sorted({subject for subjects in told for subject in subjects}))
    return text if len(text.encode()) <= bytes_most else ANYTHING


def unpacked(text: str) -> list[str]:
    """Return the subjects in a text that `packed` made."""
    return text.split("\n")


class Carrier(Protocol):
    """What takes hints to other processes, and rings an exchange for those that it brings."""

    def tell(self, subjects: Iterable[str]) -> None:
        """Let other processes know, soon. This returns at once and raises nothing."""
        ...


class Ear:
    """Somebody who waits for hints on some subjects. Use it as a context manager."""

    def __init__(self, exchange: Exchange, subjects: Iterable[str]) -> None:
        self.subjects = set(subjects)
        self.others: set[str] | None = None
        """What was said of other subjects, while this is a set: some may become its own."""
        self.loop = asyncio.get_running_loop()
        self._exchange = exchange
        self._heard: set[str] = set()
        self._poked = False
        self._bell = asyncio.Event()

    def __enter__(self) -> Self:
        self._exchange.join(self)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._exchange.leave(self)

    def ring(self, subjects: frozenset[str]) -> None:
        """Note hints; called in this ear's own loop."""
        if self.others is not None:
            self.others |= subjects
        heard = subjects if ANYTHING in subjects else subjects & self.subjects
        if heard:
            self._heard |= heard
            self._bell.set()

    def poke(self) -> None:
        """End the wait, or the next one, although nothing was heard."""
        self._poked = True
        self._bell.set()

    async def wait(self, seconds: float) -> set[str]:
        """Return what was heard since the last wait, waiting at most `seconds` for it.

        They may be infinite: then no timer is set, and only a hint or a poke ends the wait.
        """
        deadline = self.loop.time() + seconds
        while not (self._heard or self._poked) and (left := deadline - self.loop.time()) > 0:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(None if left == math.inf else left):
                    await self._bell.wait()
        self._bell.clear()
        self._poked = False
        heard, self._heard = self._heard, set()
        return heard


class Exchange:
    """Where hints of one database meet those who wait for them, within this process."""

    def __init__(self) -> None:
        self._ears: set[Ear] = set()
        self._lock = threading.Lock()
        self.on_first_ear: Callable[[], None] | None = None
        """Called when an ear joins and there was none before: a watcher starts looking then."""

    @property
    def has_ears(self) -> bool:
        """Whether anything in this process waits for hints."""
        return bool(self._ears)

    def join(self, ear: Ear) -> None:
        """Let an ear hear from now on."""
        with self._lock:
            is_first = not self._ears
            self._ears.add(ear)
        if is_first and self.on_first_ear is not None:
            self.on_first_ear()

    def leave(self, ear: Ear) -> None:
        """Let an ear hear no more."""
        with self._lock:
            self._ears.discard(ear)

    def ear(self, subjects: Iterable[str]) -> Ear:
        """Return an ear for these subjects, in the running loop."""
        return Ear(self, subjects)

    def ring(self, subjects: Iterable[str]) -> None:
        """Tell everyone in this process who listens for one of the subjects; from any thread."""
        rung = frozenset(subjects)
        with self._lock:
            ears = list(self._ears)
        here = _running_loop()
        for ear in ears:
            if ear.loop is here:
                ear.ring(rung)
            elif not ear.loop.is_closed():
                ear.loop.call_soon_threadsafe(ear.ring, rung)


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
