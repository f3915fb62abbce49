"""Randomness that a seed decides, so that a failing test can be run again."""

from __future__ import annotations

import random


class SeededRandomness:
    """A source of random numbers that are determined by a seed."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self._source = random.Random(seed)  # noqa: S311

    def random(self) -> float:
        """Return a number in [0, 1)."""
        return self._source.random()

    def bits(self, count: int) -> int:
        """Return an integer of `count` random bits."""
        return self._source.getrandbits(count)

    def token(self) -> str:
        """Return 128 random bits as 32 lowercase hexadecimal digits."""
        return f"{self.bits(128):032x}"
