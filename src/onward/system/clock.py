"""The machine's clock, randomness and threads, and ids that are made of them."""

from __future__ import annotations

import secrets
import threading
import time
from typing import TYPE_CHECKING

from onward.core.ids import RANDOM_BITS, uid7, uid_after

if TYPE_CHECKING:
    from collections.abc import Callable

    from onward.core.instant import Instant
    from onward.core.ports import Clock, Randomness

# A clock that also counts while the machine is suspended, where there is one.
_STEADY = getattr(time, "CLOCK_BOOTTIME", None)


class SystemClock:
    """The machine's clock."""

    def wall(self) -> Instant:
        """Return the current instant, in microseconds UTC."""
        return time.time_ns() // 1000

    def monotonic(self) -> int:
        """Return microseconds since some fixed point; time suspended counts where it can."""
        if _STEADY is None:
            return time.monotonic_ns() // 1000
        return time.clock_gettime_ns(_STEADY) // 1000


class SystemRandomness:
    """The machine's random numbers."""

    def random(self) -> float:
        """Return a number in [0, 1)."""
        return secrets.randbits(53) / (1 << 53)

    def bits(self, count: int) -> int:
        """Return an integer of `count` random bits."""
        return secrets.randbits(count)

    def token(self) -> str:
        """Return 128 random bits as text."""
        return secrets.token_hex(16)


def spawn_thread(work: Callable[[], None], *, name: str) -> threading.Thread:
    """Start `work` in a daemon thread: a forgotten store must not keep the process alive."""
    thread = threading.Thread(target=work, name=name, daemon=True)
    thread.start()
    return thread


class Uids:
    """Makes ids that sort by time, each after the one before it, from any thread.

    A clock gives many ids one millisecond, and may be set back; what is sent in an order must be
    found in that order all the same.
    """

    def __init__(self, clock: Clock, randomness: Randomness) -> None:
        self._clock = clock
        self._randomness = randomness
        self._last = ""
        self._lock = threading.Lock()

    def new(self) -> str:
        """Return a fresh id."""
        fresh = uid7(self._clock.wall(), self._randomness.bits(RANDOM_BITS))
        with self._lock:
            self._last = fresh if fresh > self._last else uid_after(self._last)
            return self._last
