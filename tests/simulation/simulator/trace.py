"""What happened in a simulated world, in order, and its fingerprint."""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from onward.core.instant import Instant


class Event(NamedTuple):
    """One thing that happened: when, to whom, what, and the rows or words that belong to it."""

    at: Instant
    process: str
    what: str
    detail: tuple[Any, ...]

    def __str__(self) -> str:
        return f"{self.at / 1_000_000:12.6f}  {self.process:<10} {self.what:<9} {self.detail}"


class Trace:
    """The events of a world. Two worlds are the same if their hashes are."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.events: list[Event] = []
        self._hash = blake2b(digest_size=16)

    def add(self, event: Event) -> None:
        """Write down what happened."""
        self.events.append(event)
        self._hash.update(repr(tuple(event)).encode())

    @property
    def hash(self) -> str:
        """The fingerprint of everything that was written down."""
        return self._hash.hexdigest()

    def of(self, what: str) -> list[Event]:
        """Return the events of one kind."""
        return [event for event in self.events if event.what == what]

    def __str__(self) -> str:
        return "\n".join(map(str, self.events))
