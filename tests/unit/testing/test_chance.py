"""Chance that a seed decides."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from onward.testing.chance import SeededChance

if TYPE_CHECKING:
    from onward.core.ports import Chance


def draws(chance: Chance) -> list[object]:
    return [(chance.random(), chance.bits(74), chance.token()) for _ in range(50)]


def test_one_seed_draws_the_same_every_time() -> None:
    assert draws(SeededChance(7)) == draws(SeededChance(7))


def test_other_seeds_draw_otherwise() -> None:
    assert draws(SeededChance(7)) != draws(SeededChance(8))


def test_draws_keep_to_their_bounds() -> None:
    chance = SeededChance(1)
    for _ in range(200):
        assert 0 <= chance.random() < 1
        assert 0 <= chance.bits(3) < 8
        assert re.fullmatch("[0-9a-f]{32}", chance.token())


def test_a_draw_is_not_repeated() -> None:
    chance = SeededChance(1)

    assert len({chance.token() for _ in range(1000)}) == 1000
