"""Notes of runs as they are stored: attributes and counters, and how they add up."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from onward.codec import decode, encode
from onward.engine.payloads import pack, unpack

if TYPE_CHECKING:
    from collections.abc import Mapping

    Place = tuple[int, int]


class Noted:
    """Attributes and counts, as they add up."""

    __slots__ = ("attributes", "counters")

    def __init__(self) -> None:
        self.attributes: dict[str, Any] = {}
        self.counters: dict[str, int | float] = {}

    def __bool__(self) -> bool:
        return bool(self.attributes or self.counters)

    def take(self, other: Noted) -> None:
        """Add what another has."""
        self.attributes.update(other.attributes)
        for name, count in other.counters.items():
            self.counters[name] = self.counters.get(name, 0) + count

    def kept(self, place: Place) -> bytes:
        """Return it as a record stores it; `place` is its place among the notes of the run."""
        tree = {"n": list(place), "attributes": self.attributes, "counters": self.counters}
        return pack(encode(tree, path="notes"))


def read_noted(payload: bytes) -> tuple[Place, Noted]:
    """Return the place and content of stored notes."""
    tree: Mapping[str, Any] = decode(unpack(payload))
    noted = Noted()
    noted.attributes.update(tree["attributes"])
    noted.counters.update(tree["counters"])
    position, number = tree["n"]
    return (position, number), noted


def read_attributes(attributes: bytes | None) -> Noted:
    """Return the attributes that a run began with."""
    noted = Noted()
    if attributes is not None:
        noted.attributes.update(decode(unpack(attributes)))
    return noted
