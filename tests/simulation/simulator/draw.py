"""Drawing lots: everything that a simulated world leaves to randomness, from one seed."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, TypeVar

from onward.testing.randomness import SeededRandomness

if TYPE_CHECKING:
    from collections.abc import Sequence

T = TypeVar("T")


class Draw(SeededRandomness):
    """A seeded source that draws the shapes a world needs.

    Args:
        seed: The seed of the world.
        purpose: What is drawn here. Each purpose has numbers of its own, so that drawing one more
            of one kind does not change all the others.
    """

    def __init__(self, seed: int, purpose: str) -> None:
        super().__init__(int.from_bytes(f"{seed} {purpose}".encode()))

    def below(self, count: int) -> int:
        """Return an integer from 0 to `count` - 1."""
        return int(self.random() * count)

    def one_of(self, choices: Sequence[T]) -> T:
        """Return one of the choices."""
        return choices[self.below(len(choices))]

    def upto(self, most: float) -> float:
        """Return a number between 0 and `most`."""
        return self.random() * most

    def happens(self, probability: float) -> bool:
        """Say whether something happens that happens with this probability."""
        return self.random() < probability

    def magnitude(self, most: int) -> int:
        """Return an integer from 1 to `most`, small ones as likely as big ones are together."""
        return round(math.exp(self.random() * math.log(most)))
