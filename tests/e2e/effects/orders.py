"""Workflows that send effects to the sink, of each kind that makes a difference after a crash."""

from __future__ import annotations

import asyncio

from onward import (
    Applied,
    Effect,
    NotApplied,
    Retry,
    Unknown,
    effect,
    effect_key,
    workflow,
)
from onward.errors import EffectSkipped
from tests.e2e.effects.sink import ask, ask_now

OFTEN = Retry(attempts=20, delay="20ms", factor=1, max_delay="20ms")
"""So often no sender dies in these tests, and no machine is so busy that it begins too late."""


async def send(order: str, *, honours: bool) -> str:
    """Send an order under its key, like a handler that has asked for the key right before."""
    key = effect_key()
    await ask(do="announce")
    answer: str = await ask(do="apply", key=key, order=order, honours=honours)
    return answer


async def look_up(order: str, *, key: str) -> Applied[str] | NotApplied | Unknown:
    """Ask the sink what became of an order."""
    told = await ask(do="find", key=key)
    if told["is_away"]:
        return Unknown()
    return NotApplied() if told["found"] is None else Applied(told["found"])


@effect(retry=OFTEN, timeout="1s", settle="200ms", start_within="1s")
async def blind(order: str) -> str:
    return await send(order, honours=False)


@effect(reconcile=look_up, retry=OFTEN, timeout="1s", settle="200ms", start_within="1s")
async def traced(order: str) -> str:
    return await send(order, honours=False)


@effect(idempotency_window="1h", retry=OFTEN, timeout="1s", settle="200ms", start_within="1s")
async def keyed(order: str) -> str:
    return await send(order, honours=True)


def send_now(order: str, *, honours: bool) -> str:
    """Send an order from a thread, which nobody can stop once it has the key."""
    key = effect_key()
    ask_now(do="announce")
    answer: str = ask_now(do="apply", key=key, order=order, honours=honours)
    return answer


@effect(reconcile=look_up, retry=OFTEN, timeout="1s", settle="200ms", start_within="1s")
def traced_in_a_thread(order: str) -> str:
    return send_now(order, honours=False)


@effect(idempotency_window="1h", retry=OFTEN, timeout="1s", settle="200ms", start_within="1s")
def keyed_in_a_thread(order: str) -> str:
    return send_now(order, honours=True)


@effect(reconcile=look_up, retry=OFTEN, timeout="1s", settle="200ms", start_within="1s")
def careful_in_a_thread(order: str) -> str:
    """Ask for the key at the last moment, after whatever may take long."""
    ask_now(do="announce")
    answer: str = ask_now(do="apply", key=effect_key(), order=order, honours=False)
    return answer


KINDS: dict[str, Effect[[str], str]] = {
    each.name: each
    for each in (
        blind,
        traced,
        keyed,
        traced_in_a_thread,
        keyed_in_a_thread,
        careful_in_a_thread,
    )
}


@workflow
async def one_order(kind: str, name: str) -> str:
    try:
        return await KINDS[kind](name)
    except EffectSkipped:
        return f"{name} skipped"


@workflow
async def three_orders(kind: str, name: str) -> list[str]:
    """Let nobody be told that it did not happen: after proof it is sent again, and so it does."""
    first = await KINDS[kind](f"{name}/a")
    pair = await asyncio.gather(KINDS[kind](f"{name}/b"), KINDS[kind](f"{name}/c"))
    return [first, *pair]
