"""The real clock, chance and threads: the doors through which the store reaches the machine."""

from __future__ import annotations

import secrets
import threading
import time
from typing import TYPE_CHECKING

from onward.core.ids import RANDOM_BITS, uid7

if TYPE_CHECKING:
    from collections.abc import Callable

    from onward.core.instant import Instant
    from onward.core.ports import Chance, Clock

# A clock that also counts while the machine is suspended, where there is one.
_STEADY = getattr(time, "CLOCK_BOOTTIME", None)


class SystemClock:
    """The machine's clock."""

    def wall(self) -> Instant:
        """Return the instant now, in microseconds UTC."""
        return time.time_ns() // 1000

    def monotonic(self) -> int:
        """Return microseconds since some fixed point; time suspended counts where it can."""
        if _STEADY is None:
            return time.monotonic_ns() // 1000
        return time.clock_gettime_ns(_STEADY) // 1000


class SystemChance:
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


def new_uid(clock: Clock, chance: Chance) -> str:
    """Return a fresh id that sorts by time."""
    return uid7(clock.wall(), chance.bits(RANDOM_BITS))
