"""What the rules need from the world: time, randomness and threads, as protocols.

Code that reads a clock, draws a number or starts a thread takes one of these, so that a test can
pass a virtual clock, a seed or nothing at all. There is no port for `asyncio.sleep` and
`create_task`: the event loop is that port, and simulation brings a loop of its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

    from onward.core.instant import Instant


class Clock(Protocol):
    """Where time is read."""

    def wall(self) -> Instant:
        """Return the current instant, in microseconds UTC. It may jump in either direction."""
        ...

    def monotonic(self) -> int:
        """Return microseconds since some fixed point. It never goes back.

        It counts the time a machine was suspended wherever the system can tell.
        """
        ...


class Randomness(Protocol):
    """Where random numbers come from."""

    def random(self) -> float:
        """Return a number in [0, 1)."""
        ...

    def bits(self, count: int) -> int:
        """Return an integer of `count` random bits."""
        ...

    def token(self) -> str:
        """Return 128 random bits as 32 lower-case hexadecimal digits."""
        ...


class Spawned(Protocol):
    """A thread that was started."""

    def join(self, timeout: float | None = None) -> None:
        """Wait until it has ended, or until `timeout` seconds have passed."""
        ...

    def is_alive(self) -> bool:
        """Say whether it is still at work."""
        ...


class Spawn(Protocol):
    """How a thread is started."""

    def __call__(self, work: Callable[[], None], *, name: str) -> Spawned:
        """Start `work` in a thread of that name and return at once."""
        ...
