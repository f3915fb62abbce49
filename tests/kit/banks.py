"""A bank that applies nothing twice under one key, and how effects call it."""

from __future__ import annotations

from onward import Retry, effect_key
from onward.testing.outside import Outside

SOON = Retry(attempts=3, delay="1ms", max_delay="1ms")

banks: list[Outside] = []


def open_bank() -> Outside:
    """Return a new bank, which effects call from now on."""
    banks[:] = [Outside(honours_keys=True)]
    return banks[0]


async def call(card: str) -> str:
    """Call the bank under the key of the effect that asks."""
    answer: str = await banks[0].call(card, key=effect_key())
    return answer
