"""Randomness that a seed decides."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from onward.testing.randomness import SeededRandomness

if TYPE_CHECKING:
    from onward.core.ports import Randomness


def draws(randomness: Randomness) -> list[object]:
    return [(randomness.random(), randomness.bits(74), randomness.token()) for _ in range(50)]


def test_one_seed_draws_the_same_every_time() -> None:
    assert draws(SeededRandomness(7)) == draws(SeededRandomness(7))


def test_other_seeds_draw_otherwise() -> None:
    assert draws(SeededRandomness(7)) != draws(SeededRandomness(8))


def test_draws_keep_to_their_bounds() -> None:
    randomness = SeededRandomness(1)
    for _ in range(200):
        assert 0 <= randomness.random() < 1
        assert 0 <= randomness.bits(3) < 8
        assert re.fullmatch("[0-9a-f]{32}", randomness.token())


def test_a_draw_is_not_repeated() -> None:
    randomness = SeededRandomness(1)

    assert len({randomness.token() for _ in range(1000)}) == 1000
